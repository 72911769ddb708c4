"""One process at a time: an advisory lock on a file."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path, waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock file `path`, made with its folder when missing, for as long as the block runs.

    While another process holds it this one waits, after calling `waiting` once with that process's id ("unknown"
    when it has not written it yet). The lock ends with the process, however that ends, so it cannot be left behind.
    Raises OSError when the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = _acquire(path, waiting)
    try:
        os.ftruncate(fd, 0)
        os.write(fd, str(os.getpid()).encode())
        yield
    finally:
        os.close(fd)


def _acquire(path: Path, waiting: Callable[[str], None]) -> int:
    import fcntl  # here, because Windows has none and the rest of the command line works there

    told = False
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                waiting(os.pread(fd, 20, 0).decode() or "unknown")
                told = True
            fcntl.flock(fd, fcntl.LOCK_EX)
        # The holder before us may have removed the file; then a newcomer would lock another one of the same name.
        if _same_file(fd, path):
            return fd
        os.close(fd)


def _same_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
