"""The version, from the code: reading the installed package's metadata costs 100 ms."""

import crossclaw

VERSION = crossclaw.__version__
