"""The result: its rows, what they hide, and how they are shown."""
