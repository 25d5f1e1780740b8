"""Methods to compare with: random search, the grid, and methods of other libraries."""
