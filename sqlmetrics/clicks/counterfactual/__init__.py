"""What a ranking or a policy that was not shown would have got."""
