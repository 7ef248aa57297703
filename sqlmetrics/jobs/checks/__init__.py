"""Whether the numbers of a fact table are as they must be: `checks` in a spec, and `check`."""
