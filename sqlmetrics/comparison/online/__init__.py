"""Online metrics of a click log, system against system."""
