"""At which stage of a ranking relevant items are lost, and what each source finds."""
