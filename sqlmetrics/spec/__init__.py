"""What is asked: sources, days, the click log, thresholds; checked on creation."""
