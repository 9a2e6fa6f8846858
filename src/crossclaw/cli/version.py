"""The version, as a constant: reading it from the installed package's metadata costs 100 ms."""

VERSION = "0.1.0"
