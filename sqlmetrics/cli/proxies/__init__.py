"""`sqlmetrics foretell`: which offline metric to trust."""
