"""The words of the house. No I/O, no clock of its own, no imports from other rooms."""
