"""Systems in order: ranks with intervals, groups that do not differ, a table to publish."""
