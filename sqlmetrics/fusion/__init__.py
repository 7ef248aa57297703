"""Several rankings become one: a method, what becomes of scores before it, and the SQL."""
