"""What users give -> relations: formats, paths, lists, and what Python holds."""
