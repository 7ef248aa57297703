"""How often each position is looked at, and whether a log can tell."""
