"""Networks, and the weights they begin with."""
