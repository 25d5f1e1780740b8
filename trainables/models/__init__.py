"""Networks and their initial weights."""
