"""Is one system better than another: by how much, and is it real."""
