"""From a click log to judgments and online metrics."""
