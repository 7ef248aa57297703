"""Tails of the distributions that tests and intervals need, by hand."""
