"""Samples of queries for annotators, and what they estimate."""
