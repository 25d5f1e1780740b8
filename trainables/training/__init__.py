"""One training, several in one process, saved states, and the set-ups of the paper as data."""
