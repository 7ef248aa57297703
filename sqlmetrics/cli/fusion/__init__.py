"""Rankings that become one."""
