"""`python -m tests.node`: says what this machine lacks for the tests with real containers; exit code 1 if anything."""

import sys

from tests.node.node import missing

sys.exit(missing() or 0)
