"""`python -m crossclaw`: the command line, where its script is not on the path."""

import sys

from crossclaw.cli.main import main

sys.exit(main())
