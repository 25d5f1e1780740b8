"""Losses as two unweighted terms, and the cross-batch memory."""

from trainables.losses.terms import infonce_terms, margin_terms

__all__ = ["infonce_terms", "margin_terms"]
