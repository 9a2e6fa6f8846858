"""Guards: each one that is taken away must turn a test red (`make guards`)."""
