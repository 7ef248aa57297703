"""`sqlmetrics track`: uploads of teams, their reports and the page of a shared task."""
