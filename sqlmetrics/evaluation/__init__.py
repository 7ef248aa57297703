"""The line itself: tables are opened, checked, measured and evaluated; the result."""
