"""What coordinate descent is compared with: random search, the grid, one line, Optuna's samplers and FLAML's CFO."""
