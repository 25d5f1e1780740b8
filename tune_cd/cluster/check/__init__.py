"""Checks cluster files before anything is billed: Ray's and botocore's own validation, and the rules whose breach fails
silently or costs money. `rules` says how a rule is written; `command` applies and prints them."""
