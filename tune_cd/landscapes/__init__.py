"""Landscapes M(h) from a formula or a measured table, to replay searches on them. README.md has examples."""

from tune_cd.landscapes.measured import IN_VIEW, JUDGES, MEASURED, Measured, load

__all__ = ["IN_VIEW", "JUDGES", "MEASURED", "Measured", "load"]
