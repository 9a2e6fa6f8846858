"""What a client may ask for, by name: thin handlers over the sessions room."""
