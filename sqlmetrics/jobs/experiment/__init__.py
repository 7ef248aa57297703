"""The table of an experiment: by day, and in running total."""
