"""What is tried on a real PostgreSQL server: `make cluster`."""
