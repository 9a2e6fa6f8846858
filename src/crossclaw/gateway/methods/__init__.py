"""The methods that a client may call: thin handlers over the services of `sessions` and others."""
