"""Several rankings become one, and which mixture of them is best."""
