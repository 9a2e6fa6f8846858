"""Crossclaw: sessions that know of each other."""
