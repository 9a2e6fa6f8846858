"""The ledger: the one place of truth. Everything durable changes here, one transaction a step."""
