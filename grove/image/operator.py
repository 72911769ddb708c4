"""The operator's image: an interpreter, what requirements.lock pins for run time, and Grove.

It runs as a user without rights, needs no file system it can write to, and has no shell and no installer. Everything is
compiled, and the same input makes the same digest. The Dockerfile beside this file makes the same on a base image.
"""

import base64
import hashlib
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from grove.image import interpreter, lock, oci, package
from grove.image.errors import ImageError
from grove.image.package import PACKAGES, read_project

USER = 65532
"""The user's number, which is the group's too; the init container has the same."""

_AUTHORITIES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
"""Where distributions keep the certificates of the authorities that they trust; the first is where the image does."""


def default_name(source: Path) -> str:
    """What the chart in the same checkout asks for, such as `docker.io/library/grove-operator:0.1.0`."""
    project = read_project(source)
    return f"docker.io/library/{project['name']}:{project['version']}"


def build(source: Path, name: str, file: Path) -> str:
    """Make the image of the checkout `source` and write it to `file`; returns its digest.

    Raises ImageError when this is no Linux with the GNU C library, when `source` is no checkout, or when the packages
    of this environment are not what the lock says.
    """
    oci.architecture()
    project = read_project(source)
    with tempfile.TemporaryDirectory(prefix="grove-image-") as temporary:
        python, packages, own = (Path(temporary) / part for part in ("python", "packages", "grove"))
        _add_packages(packages, source)
        interpreter.add(python, sorted(packages.rglob("*.so")))
        _add_authorities(python)
        package.add(own, source)
        layers = []
        for part in (python, packages, own):
            _compile(part)
            layer = oci.Layer()
            if part is python:
                layer.skeleton(f"grove:x:{USER}:{USER}:grove:/:/sbin/nologin")
                layer.text("etc/group", f"root:x:0:\ngrove:x:{USER}:\n")
                layer.text("etc/nsswitch.conf", "hosts: files dns\n")
            layer.tree(part)
            layers.append(layer)
    file.parent.mkdir(parents=True, exist_ok=True)
    return oci.save(layers, [name], file, config(project))


def config(project: dict[str, Any]) -> dict[str, Any]:
    """The image's runtime configuration; `project` is the table of that name in pyproject.toml."""
    return {
        "User": f"{USER}:{USER}",
        "Env": [
            f"PATH={PACKAGES}/bin:/usr/local/bin:/usr/bin:/bin",
            f"PYTHONPATH={PACKAGES}",
            f"SSL_CERT_FILE={_AUTHORITIES[0]}",
        ],
        "Entrypoint": ["grove"],
        "WorkingDir": "/",
        "Labels": {
            "org.opencontainers.image.title": project["name"],
            "org.opencontainers.image.description": project["description"],
            "org.opencontainers.image.version": project["version"],
            "org.opencontainers.image.licenses": project["license"],
        },
    }


def _add_packages(root: Path, source: Path) -> None:
    """The files of each package, each compared with the hash that its wheel has for it."""
    pinned = lock.runtime((source / "requirements.lock").read_text(), (source / "pyproject.toml").read_text())
    for name, entry in pinned.items():
        pin, _, _ = entry.partition(" ")
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError as error:
            if ";" in entry.partition("\\")[0]:  # for another system
                continue
            raise ImageError(f"the lock has {pin}, which is not installed: run `make image`") from error
        if package.version != (wanted := pin.partition("==")[2]):
            raise ImageError(f"{name} {package.version} is installed, but the lock has {wanted}: run `make image`")
        for path in package.files or ():
            # Without a hash is what the installer wrote itself; scripts, outside of the folder, belong to developers.
            if path.hash and ".." not in path.parts and path.name not in ("INSTALLER", "REQUESTED"):
                _check(content := path.read_binary(), path)
                target = root / PACKAGES.relative_to("/") / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)


def _check(content: bytes, path: metadata.PackagePath) -> None:
    assert path.hash
    digest = base64.urlsafe_b64encode(hashlib.new(path.hash.mode, content).digest()).rstrip(b"=").decode()
    if digest != path.hash.value:
        raise ImageError(f"{path.locate()} is not what was installed: remove .venv, and run `make image`")


def _add_authorities(root: Path) -> None:
    found = next((Path(path) for path in _AUTHORITIES if Path(path).is_file()), None)
    if found is None:
        raise ImageError("this machine has no certificates of authorities: install the package ca-certificates")
    target = root / Path(_AUTHORITIES[0]).relative_to("/")
    target.parent.mkdir(parents=True)
    shutil.copy(found, target)


def _compile(root: Path) -> None:
    """Compile every module, so that a start needs nothing to write to.

    By a process of its own and with fixed hashes of strings, since both show in what is compiled; not dependent on the
    times of files.
    """
    command = [sys.executable, "-S", "-P", "-m", "compileall", "-q", "-j", "1", "--invalidation-mode", "unchecked-hash"]
    done = subprocess.run(
        [*command, "-s", str(root), "-p", "/", str(root)], env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True
    )
    if done.returncode:
        raise ImageError(f"cannot compile the modules of the image: {done.stdout}{done.stderr}")
