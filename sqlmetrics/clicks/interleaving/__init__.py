"""Two systems' lists merged into one: whose items people click, and how sure that is."""
