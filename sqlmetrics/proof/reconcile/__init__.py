"""A number seen elsewhere, and the conventions that give it."""
