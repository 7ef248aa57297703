"""Click logs made up: the world they come from, how people click in it, and its SQL."""
