"""Text: templates, stages, relations, dialects and what they mean differently."""
