"""A shared task: uploads of teams are checked, evaluated and shown on a page."""
