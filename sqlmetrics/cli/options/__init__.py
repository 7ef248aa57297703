"""Options that several commands share, and how the help of a command shows them."""
