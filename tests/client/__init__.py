"""The Python client, against a live gateway and against one that misbehaves."""
