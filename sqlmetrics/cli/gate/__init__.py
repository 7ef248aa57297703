"""A branch beside its base: rankings, specs, and the comment that says what came of it."""
