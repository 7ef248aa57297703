"""`metric`: a metric of your own, as a file."""
