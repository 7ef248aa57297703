"""Labelling sheets: what is shown and unjudged, out as CSV, and graded back in."""
