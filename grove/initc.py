"""The waiting program as `python -m grove.initc FILE`, for images without a shell: such as the operator's own.

Waits until FILE, a downward-API file with the annotation `grove.io/startup` of its own pod, reads `released`. Every 30
seconds it says for what it waits, as the file `waiting-for` beside it has it. Standard library only, no network.
"""

import signal
import sys
import time
from pathlib import Path

_RELEASED = "released"
_TALK_SECONDS = 30.0
_LOOK_SECONDS = 0.5


def main(arguments: list[str]) -> int:
    """Wait; 0 once released, 2 for wrong usage. SIGTERM and SIGINT end it with 128 + the signal's number."""
    if len(arguments) != 1:
        print("usage: python -m grove.initc FILE", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    file, said = Path(arguments[0]), float("-inf")
    while _read(file) != _RELEASED:
        if time.monotonic() - said >= _TALK_SECONDS:
            said = time.monotonic()
            print(f"waiting for {_read(file.with_name('waiting-for')) or 'the release by the operator'}", flush=True)
        time.sleep(_LOOK_SECONDS)
    print(_RELEASED, flush=True)
    return 0


def _read(file: Path) -> str:
    """The content of a file; "" while it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
