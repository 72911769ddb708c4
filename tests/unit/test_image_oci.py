"""Images as archives: what containerd and docker read, and the same bytes from the same content."""

import gzip
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

import pytest

from grove.image import oci
from grove.image.errors import ImageError

NAMES = ["registry.example/a:1", "registry.example/b:2"]


def read(file: Path, name: str) -> bytes:
    with tarfile.open(file) as archive:
        content = archive.extractfile(name)
        assert content
        return content.read()


def blob(file: Path, entry: dict[str, Any]) -> bytes:
    return read(file, f"blobs/sha256/{entry['digest'].removeprefix('sha256:')}")


def unpacked(layer: bytes) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(gzip.decompress(layer)))


def save(folder: Path, source: Path) -> Path:
    """An image of two layers; the second is a folder of this machine."""
    base, tree = oci.Layer(), oci.Layer()
    base.skeleton("nobody:x:65534:65534:::")
    base.text("etc/motd", "hello")
    base.link("bin/sh", "busybox")
    tree.tree(source)
    file = folder / "image.tar"
    oci.save([base, tree], NAMES, file, {"Entrypoint": ["/bin/sh"], "User": "65532:65532"})
    return file


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with a program, a private file and a link."""
    folder = tmp_path / "source" / "opt"
    folder.mkdir(parents=True)
    for name, mode in (("program", 0o700), ("note", 0o600)):
        (folder / name).write_text(name)
        (folder / name).chmod(mode)
    (folder / "link").symlink_to("program")
    return folder.parent


def test_containerd_and_docker_find_the_image_under_its_names(tmp_path: Path, source: Path) -> None:
    file = save(tmp_path, source)
    assert json.loads(read(file, "oci-layout")) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads(read(file, "index.json"))
    assert [entry["annotations"]["io.containerd.image.name"] for entry in index["manifests"]] == NAMES
    manifest = json.loads(blob(file, index["manifests"][0]))
    config = json.loads(blob(file, manifest["config"]))
    assert config["config"]["Entrypoint"] == ["/bin/sh"]
    assert (config["os"], config["architecture"]) == ("linux", oci.architecture())
    [docker] = json.loads(read(file, "manifest.json"))
    assert docker["RepoTags"] == NAMES
    assert json.loads(read(file, docker["Config"])) == config
    assert [read(file, path) for path in docker["Layers"]] == [blob(file, entry) for entry in manifest["layers"]]
    assert [len(blob(file, entry)) for entry in manifest["layers"]] == [entry["size"] for entry in manifest["layers"]]


def test_layers_hold_what_was_put_in(tmp_path: Path, source: Path) -> None:
    file = save(tmp_path, source)
    [docker] = json.loads(read(file, "manifest.json"))
    base, tree = (unpacked(read(file, path)) for path in docker["Layers"])
    assert base.getmember("bin/sh").linkname == "busybox"
    passwd = base.extractfile("etc/passwd")
    assert passwd
    assert passwd.read() == b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:::\n"
    assert base.getmember("tmp").mode == 0o1777
    modes = {member.name: (member.mode, member.uid, member.mtime) for member in tree.getmembers() if member.isfile()}
    assert modes == {"opt/program": (0o755, 0, 0), "opt/note": (0o644, 0, 0)}
    assert tree.getmember("opt/link").linkname == "program"


def test_the_same_content_makes_the_same_bytes(tmp_path: Path, source: Path) -> None:
    first = save(tmp_path, source).read_bytes()
    (source / "opt" / "note").touch()
    assert save(tmp_path, source).read_bytes() == first
    (source / "opt" / "note").write_text("other")
    assert save(tmp_path, source).read_bytes() != first


def test_other_systems_are_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    with pytest.raises(ImageError, match=r"needs Linux with amd64 or arm64, and this is Darwin arm64: build grove/im"):
        oci.architecture()
