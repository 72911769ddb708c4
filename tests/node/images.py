"""Container images without a registry or a builder, of files of this machine."""

from pathlib import Path

from grove.image.oci import Layer

BUSYBOX = Path("/bin/busybox")
"""Debian's busybox-static."""

_APPLETS = ["sh", "sleep", "cat", "echo", "id", "env", "ls", "touch", "rm", "test", "true", "false"]


def busybox() -> Layer:
    """A shell and a few programs."""
    layer = Layer()
    layer.skeleton()
    layer.file(BUSYBOX, "bin/busybox")
    for applet in _APPLETS:
        layer.link(f"bin/{applet}", "busybox")
    return layer
