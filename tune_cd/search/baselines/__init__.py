"""The baselines of coordinate descent: random search, the grid, and methods of other libraries."""
