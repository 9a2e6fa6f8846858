"""Sandbox: where a session's files lie and its programs run."""
