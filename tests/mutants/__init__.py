"""Mutants: small changes of the program that some test must notice (`make mutants`)."""
