"""How often a test repeats what has to hold however often it happens."""

import os


def repetitions(few: int, many: int) -> int:
    """`few`, or with GROVE_TEST_REPEAT set that many times more, up to `many`."""
    return min(few * int(os.environ.get("GROVE_TEST_REPEAT", "1")), many)
