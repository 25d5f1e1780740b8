"""Landscapes M(h) from a formula or a measured table, to replay searches on them.

from tune_cd import landscapes

landscapes.MEASURED                                 # names of the grids of real trainings
landscapes.load("omniglot-242-margin").frame()      # one of them, with its learning curves; see `measured`
"""

from tune_cd.landscapes.measured import IN_VIEW, JUDGES, MEASURED, Measured, load

__all__ = ["IN_VIEW", "JUDGES", "MEASURED", "Measured", "load"]
