"""What was not shown, against what was or one against another: differences of estimates."""
