"""Which model of how people click fits a log: what they learn, and how well they predict."""
