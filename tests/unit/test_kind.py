"""`grove kind` without an engine, and with programs that only write down how they were called."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from grove.cli import main
from grove.cluster import config, kind
from grove.cluster.errors import ClusterError
from grove.image import operator

ROOT = Path(__file__).parents[2]

FAKE = """\
#!/bin/sh
echo "${0##*/} $*" >>"$FAKES/calls"
case "${0##*/} $*" in
  "$REFUSED"*) echo "no $REFUSED today" >&2; exit 1 ;;
  "kind get clusters") cat "$FAKES/clusters" ;;
  "kind get nodes"*) printf 'grove-worker10\\ngrove-control-plane\\ngrove-worker2\\ngrove-worker\\n' ;;
  "kind create cluster"*) cat >"$FAKES/config" ;;
  "docker save"*) echo image >"$3" ;;
esac
"""


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a fake docker, kind and helm, which is also the working folder; there is no cluster yet."""
    for name in ("docker", "kind", "helm"):
        (tmp_path / name).write_text(FAKE)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "clusters").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAKES", str(tmp_path))
    monkeypatch.setenv("REFUSED", "nothing")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("KIND_EXPERIMENTAL_PROVIDER", raising=False)
    return tmp_path


def grove(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["kind", *arguments])
    assert done.exit_code == code, done.output
    return done.output


def calls(fakes: Path) -> list[str]:
    return (fakes / "calls").read_text().splitlines()


def test_up_makes_a_cluster_with_gpus_places_and_kai(fakes: Path) -> None:
    assert f"export KUBECONFIG={fakes / 'build' / 'kind.kubeconfig'}\n" in grove("up", "--workers", "3")
    inside = "docker exec grove-control-plane kubectl --kubeconfig=/etc/kubernetes/admin.conf"
    place = "kubernetes.io/rack=rack-{} kubernetes.io/block=block-0 kubernetes.io/zone=zone-0 "
    place += "topology.kubernetes.io/zone=zone-0"
    gpus = '--subresource=status --type=merge --patch={"status": {"capacity": {"nvidia.com/gpu": "8"}}}'
    workers = {"grove-worker": 0, "grove-worker2": 0, "grove-worker10": 1}
    assert calls(fakes) == [
        "docker info",
        "kind get clusters",
        "kind create cluster --name grove --kubeconfig build/kind.kubeconfig --wait 5m --config -",
        f"{inside} wait nodes --all --for=condition=Ready --timeout=5m",
        "kind get nodes --name grove",
        *(
            line
            for node, rack in workers.items()
            for line in (
                f"{inside} label node {node} --overwrite {place.format(rack)}",
                f"{inside} patch node {node} {gpus}",
            )
        ),
        (
            "helm upgrade --install kai-scheduler oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler "
            "--namespace kai-scheduler --create-namespace --version v0.17.0 --wait --timeout 10m "
            "--kubeconfig build/kind.kubeconfig"
        ),
    ]
    assert (fakes / "config").read_text() == kind.config(3)


def test_up_again_keeps_the_cluster(fakes: Path) -> None:
    (fakes / "clusters").write_text("other\ngrove\n")
    grove("up", "--no-kai")
    assert "kind export kubeconfig --name grove --kubeconfig build/kind.kubeconfig" in calls(fakes)
    assert not [call for call in calls(fakes) if call.startswith(("kind create", "helm"))]
    assert len([call for call in calls(fakes) if " patch node " in call]) == 3


def test_the_cluster_has_the_gangs_of_the_embedded_one() -> None:
    document = yaml.safe_load(kind.config(2))
    assert [node["role"] for node in document["nodes"]] == ["control-plane", "worker", "worker"]
    assert document["featureGates"] == {
        "GenericWorkload": True,
        "TopologyAwareWorkloadScheduling": True,
        "CompositePodGroup": True,
    }
    assert document["runtimeConfig"] == {"scheduling.k8s.io/v1beta1": "true", "scheduling.k8s.io/v1alpha3": "true"}
    programs = dict.fromkeys(
        ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"), Path("/x")
    )
    embedded = next(yaml.safe_load_all(config.kwokctl_config(programs, {})))["options"]
    assert embedded["kubeFeatureGates"] == ",".join(f"{name}=true" for name in document["featureGates"])
    assert embedded["kubeRuntimeConfig"] == ",".join(f"{name}=true" for name in document["runtimeConfig"])


@pytest.fixture
def image(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the images that were made without the engine."""
    made: list[str] = []

    def build(_: Path, name: str, file: Path) -> str:
        made.append(name)
        file.write_text("image\n")
        return "sha256:0"

    monkeypatch.setattr(operator, "build", build)
    return made


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_deploy_loads_the_image_and_installs_the_chart(
    fakes: Path, image: list[str], monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    (fakes / "clusters").write_text("grove\n")
    monkeypatch.setattr(sys, "platform", platform)
    grove("deploy")
    name = operator.default_name(ROOT)
    assert image == ([name] if platform == "linux" else [])
    by_engine = [
        f"docker build --file {ROOT}/grove/image/Dockerfile --tag {name} {ROOT}",
        f"docker save --output build/grove-image.tar {name}",
    ]
    content = "254eddf15d9534e3"  # printf 'image\n' | sha256sum
    assert calls(fakes) == [
        "docker info",
        "kind get clusters",
        "kind export kubeconfig --name grove --kubeconfig build/kind.kubeconfig",
        *(by_engine if platform == "darwin" else []),
        "kind load image-archive build/grove-image.tar --name grove",
        (
            f"helm upgrade --install grove {ROOT}/charts/grove --namespace grove-system --create-namespace "
            "--set config.scheduler.profiles[0].name=default-scheduler "
            "--set config.scheduler.profiles[1].name=kai-scheduler "
            f"--set crdInstaller.enabled=true --set podAnnotations.archive=sha256-{content} "
            "--wait --timeout 10m --kubeconfig build/kind.kubeconfig"
        ),
    ]


def test_undeploy_and_down(fakes: Path) -> None:
    (fakes / "clusters").write_text("mine\n")
    grove("undeploy", "--name", "mine")
    (fakes / "build" / "kind.kubeconfig").touch()
    grove("down", "--name", "mine")
    uninstall, delete = calls(fakes)[-3], calls(fakes)[-1]
    assert uninstall.startswith("helm uninstall grove --namespace grove-system --ignore-not-found --wait")
    assert delete == "kind delete cluster --name mine --kubeconfig build/kind.kubeconfig"
    assert not (fakes / "build" / "kind.kubeconfig").exists()


@pytest.mark.parametrize("command", ["deploy", "undeploy"])
def test_without_a_cluster_it_says_what_to_run(fakes: Path, image: list[str], command: str) -> None:
    assert grove(command, code=1) == "Error: there is no kind cluster grove: run `make kind-up` first\n"
    assert image == []


def test_a_failure_names_the_program(fakes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFUSED", "kind create")
    assert grove("up", code=1).endswith("Error: kind create cluster failed, see above\n")
    monkeypatch.setenv("REFUSED", "docker exec")
    assert "Error: docker exec grove-control-plane kubectl" in grove("up", code=1)


def test_without_an_engine_it_says_so_in_one_sentence(fakes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fakes / "empty"))
    assert grove("up", code=1) == (
        "Error: kind needs a container engine, and none answers here (docker is not installed, podman is not "
        "installed, nerdctl is not installed): start one, or install Docker or Podman; `make demo` needs none\n"
    )
    monkeypatch.setenv("PATH", f"{fakes}:/usr/bin:/bin")
    monkeypatch.setenv("REFUSED", "docker info")
    monkeypatch.setenv("KIND_EXPERIMENTAL_PROVIDER", "docker")
    with pytest.raises(ClusterError, match=r"none answers here \(docker says: no docker info today\)"):
        kind.find_engine()


def test_make_runs_it() -> None:
    command = ["make", "--dry-run", "kind-up", "deploy", "undeploy", "kind-down", "KAI=off"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=os.environ)
    found = [line.split() for line in done.stdout.splitlines() if line.startswith(".venv/bin/grove kind")]
    assert [words[2:] for words in found] == [["up", "--no-kai"], ["deploy"], ["undeploy"], ["down"]]
