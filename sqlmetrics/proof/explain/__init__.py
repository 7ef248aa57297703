"""Metrics and options explained: their SQL, and examples worked out."""
