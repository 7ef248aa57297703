"""What a click log can and cannot say: depth, experiments, lists as shown and as ranked."""
