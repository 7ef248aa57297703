"""Several rankings become one: mixtures, a sweep of them, and the winner without the luck."""
