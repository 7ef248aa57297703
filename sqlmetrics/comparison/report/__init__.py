"""The rows of a comparison, and how people read them."""
