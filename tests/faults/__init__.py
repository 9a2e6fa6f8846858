"""Several gateways on one PostgreSQL, in networks that are cut: `make cluster-faults`."""
