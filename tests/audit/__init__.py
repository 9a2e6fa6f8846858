"""The audit of what is locked: licences, and known vulnerabilities (`make audit`)."""
