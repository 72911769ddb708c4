"""The configuration file: every key of the API doc 5.1, its default and its rules."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from grove.controllers.config import ConfigurationError, OperatorConfiguration, load

FULL = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
runtimeClientConnection: {qps: 50, burst: 60, contentType: application/json, acceptContentTypes: application/json}
leaderElection:
  enabled: true
  leaseDuration: 30s
  renewDeadline: 20s
  retryPeriod: 1500ms
  resourceLock: leases
  resourceName: lease
  resourceNamespace: grove-system
server:
  webhooks:
    {bindAddress: "::1", port: 9443, serverCertDir: /certs, secretName: tls, certProvisionMode: manual}
  healthProbes: {bindAddress: 127.0.0.1, port: 9444}
  metrics: {bindAddress: 127.0.0.1, port: 9445}
debugging: {enableProfiling: false, pprofBindHost: 127.0.0.1, pprofBindPort: 2753}
controllers:
  podCliqueSet: {concurrentSyncs: 1}
  podClique: {concurrentSyncs: 2}
  podCliqueScalingGroup: {concurrentSyncs: 3}
  podGang: {concurrentSyncs: 4}
logLevel: error
logFormat: text
authorizer: {enabled: true, exemptServiceAccountUserNames: [system:kube-controller-manager]}
topologyAwareScheduling: {enabled: true}
network: {autoMNNVLEnabled: true}
scheduler:
  defaultProfileName: default-scheduler
  profiles: [{name: default-scheduler, config: {gangScheduling: true}}]
"""


def read(tmp_path: Path, content: Any) -> OperatorConfiguration:
    file = tmp_path / "config.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return load(file)


def test_every_key_is_taken(tmp_path: Path) -> None:
    config = read(tmp_path, FULL)
    assert config.warnings() == []
    assert (config.runtime_client_connection.qps, config.runtime_client_connection.burst) == (50, 60)
    timing = config.leader_election.timing()
    assert (timing.duration, timing.renew_deadline, timing.retry) == (30.0, 20.0, 1.5)
    assert config.leader_election.resource_namespace == "grove-system"
    webhooks = config.server.webhooks
    assert (webhooks.bind_address, webhooks.port, webhooks.server_cert_dir) == ("::1", 9443, "/certs")
    assert (webhooks.secret_name, webhooks.cert_provision_mode) == ("tls", "manual")
    assert (config.server.health_probes.port, config.server.metrics.port) == (9444, 9445)
    syncs = config.controllers
    each = (syncs.pod_clique_set, syncs.pod_clique, syncs.pod_clique_scaling_group, syncs.pod_gang)
    assert [controller.concurrent_syncs for controller in each] == [1, 2, 3, 4]
    assert (config.log_level, config.log_format) == ("error", "text")
    assert config.authorizer.exempt_service_account_user_names == ("system:kube-controller-manager",)
    assert config.topology_aware_scheduling.enabled
    assert config.network.auto_mnnvl_enabled
    assert config.scheduler.default_profile_name == "default-scheduler"
    assert config.scheduler.profiles[0].config == {"gangScheduling": True}


@pytest.mark.parametrize("content", ["", "{}", "leaderElection:\nserver: {webhooks: }\nscheduler: {}\n"])
def test_defaults(tmp_path: Path, content: str) -> None:
    config = read(tmp_path, content)
    assert config.warnings() == []
    election = config.leader_election
    assert (election.enabled, election.resource_name) == (False, "grove-operator-leader-election")
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == (15.0, 10.0, 2.0)
    server = config.server
    assert (server.webhooks.port, server.health_probes.port, server.metrics.port) == (2750, 2751, 2752)
    assert server.webhooks.server_cert_dir == "/etc/grove-operator/webhook-certs"
    assert (server.webhooks.secret_name, server.webhooks.cert_provision_mode) == ("grove-webhook-server-cert", "auto")
    syncs = config.controllers
    each = (syncs.pod_clique_set, syncs.pod_clique, syncs.pod_clique_scaling_group, syncs.pod_gang)
    assert [controller.concurrent_syncs for controller in each] == [10, 10, 5, 5]
    assert (config.log_level, config.log_format, config.debugging) == ("info", "json", None)
    assert not config.authorizer.enabled
    assert not config.topology_aware_scheduling.enabled
    assert not config.network.auto_mnnvl_enabled
    assert config.scheduler.enable().default == "default-scheduler"
    assert config.scheduler.default_profile_name == "default-scheduler"


def test_debugging_has_defaults_where_it_is_named(tmp_path: Path) -> None:
    debugging = read(tmp_path, {"debugging": {}}).debugging
    assert debugging is not None
    assert (debugging.enable_profiling, debugging.pprof_bind_host) == (False, "127.0.0.1")
    assert debugging.pprof_bind_port == 2753


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("- a", "must be an object of kind OperatorConfiguration"),
        ({"apiVersion": "v1"}, 'apiVersion: Unsupported value: "v1": supported values: "operator.config.grove.io/v1a'),
        ({"logFormat": "xml"}, 'logFormat: Unsupported value: "xml": supported values: "json", "text"'),
        ({"runtimeClientConnection": {"burst": -1}}, "runtimeClientConnection.burst: Invalid value: -1"),
        ({"server": {"metrics": {"port": 70000}}}, "server.metrics.port: Invalid value: 70000"),
        (
            {"server": {"webhooks": {"certProvisionMode": "none"}}},
            'server.webhooks.certProvisionMode: Unsupported value: "none": supported values: "auto", "manual"',
        ),
        ({"controllers": {"podGang": {"concurrentSyncs": 0}}}, "controllers.podGang.concurrentSyncs: Invalid value: 0"),
        ({"leaderElection": {"leaseDuration": 15}}, "leaderElection.leaseDuration: Invalid value: 15"),
        ({"leaderElection": {"leaseDuration": "soon"}}, 'leaderElection.leaseDuration: Invalid value: "soon"'),
        ({"leaderElection": "yes"}, 'leaderElection: Invalid value: "yes": must be an object'),
        ({"scheduler": {"profiles": [{"name": "x"}]}}, 'scheduler.profiles[0].name: Unsupported value: "x"'),
        ({"scheduler": {"profiles": "x"}}, 'scheduler.profiles: Invalid value: "x": must be a list'),
        (
            {"scheduler": {"profiles": [{"name": "volcano"}, {"name": "volcano"}]}},
            'scheduler.profiles[1].name: Duplicate value: "volcano"',
        ),
        (
            {"scheduler": {"profiles": [{"name": "volcano"}], "defaultProfileName": "kai-scheduler"}},
            'scheduler.defaultProfileName: Invalid value: "kai-scheduler": must be one of volcano, default-scheduler',
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, content: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(tmp_path, content)
    assert f"config.yaml: {problem}" in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"leaseDuration": "10s"}, "leaseDuration: Invalid value: 10s: must be greater than renewDeadline (10s)"),
        ({"renewDeadline": "2s"}, "renewDeadline: Invalid value: 2s: must be greater than retryPeriod (2s)"),
        ({"retryPeriod": "0s"}, "retryPeriod: Invalid value: 0s: must be greater than 0"),
        ({"resourceLock": "endpoints"}, 'resourceLock: Unsupported value: "endpoints": supported values: "leases"'),
        ({"resourceName": ""}, "resourceName: Required value"),
    ],
)
def test_leader_election_is_judged_when_it_is_enabled(tmp_path: Path, changes: dict[str, str], problem: str) -> None:
    fields = {"resourceNamespace": "default", **changes}
    read(tmp_path, {"leaderElection": fields})
    with pytest.raises(ConfigurationError, match="leaderElection") as refused:
        read(tmp_path, {"leaderElection": {"enabled": True, **fields}})
    assert f"leaderElection.{problem}" in str(refused.value)


def test_unknown_fields_are_told_with_what_may_be_meant(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        {
            "featureGates": {},
            "server": {"webhook": {"port": 1}},
            "scheduler": {"profiles": [{"name": "default-scheduler", "conf": {}}]},
            "debugging": {"enableProfiling": True},
        },
    )
    assert sorted(config.warnings()) == [
        "debugging.enableProfiling has no effect: this operator serves no profiles",
        "featureGates is no field and is ignored",
        "scheduler.profiles[0].conf is no field and is ignored (is scheduler.profiles[0].config meant?)",
        "server.webhook is no field and is ignored (is server.webhooks meant?)",
    ]
