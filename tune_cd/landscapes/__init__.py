"""Landscapes M(h) from a formula or a measured table, to replay searches on."""
