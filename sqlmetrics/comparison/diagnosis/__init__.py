"""Patterns among metrics: what each means, with numbers, and where to look next."""
