"""These need the server that `make cluster` starts, and are no part of `make test`."""

import os

collect_ignore_glob = [] if "CROSSCLAW_CLUSTER" in os.environ else ["test_*.py"]
