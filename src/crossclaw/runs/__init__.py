"""Runs: accepted once, carried out in order, ended once, whatever crashes when."""
