"""The operator's configuration file (kind OperatorConfiguration), with the field names and defaults of the API doc 5.1.

Unknown fields are warned about and otherwise ignored, as charts of other versions may write them. There is one
difference to the Go operator's defaults: requests per second are not limited unless `runtimeClientConnection.qps` is
set, because the API server's priority and fairness does that better.
"""

import difflib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from grove.api.base import field_errors
from grove.api.durations import parse_duration
from grove.api.labels import DEFAULT_SCHEDULER
from grove.plan.init_container import InitContainer
from grove.runtime.election import Timing
from grove.schedulers import SchedulerError, Schedulers, enable

KIND = "OperatorConfiguration"
API_VERSION = "operator.config.grove.io/v1alpha1"


class ConfigurationError(Exception):
    """The configuration cannot be used; the message names file, field, value and what would be right."""


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="allow", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )

    @model_validator(mode="before")
    @classmethod
    def _nulls_are_absent(cls, data: Any) -> Any:
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data


def _seconds(value: Any) -> float:
    if isinstance(value, float):  # a default
        return value
    if not isinstance(value, str):
        raise ValueError("must be a duration such as 15s")
    return parse_duration(value).total_seconds()


Seconds = Annotated[float, BeforeValidator(_seconds)]
"""A duration, written as Kubernetes does (`15s`), in seconds."""


class ClientConnection(_Model):
    """Limits of our requests: per second, and at once. No number, or 0, leaves them to the API server.

    The content types are the Go client's; this one speaks JSON.
    """

    qps: float | None = Field(default=None, ge=0)
    burst: int = Field(default=120, ge=0)
    content_type: str = ""
    accept_content_types: str = ""


class LeaderElection(_Model):
    """Which of several replicas works, by a Lease. No namespace means the operator's own."""

    enabled: bool = False
    lease_duration: Seconds = 15.0
    renew_deadline: Seconds = 10.0
    retry_period: Seconds = 2.0
    resource_lock: str = "leases"
    resource_name: str = "grove-operator-leader-election"
    resource_namespace: str = ""

    def timing(self) -> Timing:
        """The times of the election."""
        return Timing(self.lease_duration, self.renew_deadline, self.retry_period)

    def problems(self) -> Iterator[str]:
        """What is wrong, field by field; nothing while it is not enabled."""
        if not self.enabled:
            return
        for field in ("leaseDuration", "renewDeadline", "retryPeriod"):
            value = getattr(self, _snake(field))
            if value <= 0:
                yield f"{field}: Invalid value: {value:g}s: must be greater than 0"
        if self.lease_duration <= self.renew_deadline:
            yield (
                f"leaseDuration: Invalid value: {self.lease_duration:g}s: must be greater than renewDeadline "
                f"({self.renew_deadline:g}s)"
            )
        elif self.renew_deadline <= self.retry_period:
            yield (
                f"renewDeadline: Invalid value: {self.renew_deadline:g}s: must be greater than retryPeriod "
                f"({self.retry_period:g}s)"
            )
        if self.resource_lock != "leases":
            yield f'resourceLock: Unsupported value: "{self.resource_lock}": supported values: "leases"'
        if not self.resource_name:
            yield "resourceName: Required value"


class Server(_Model):
    """Where an HTTP endpoint listens (no address: everywhere); port 0 turns it off."""

    bind_address: str = ""
    port: int = Field(default=0, ge=0, le=65535)


class CertProvisionMode(StrEnum):
    """Who makes the webhooks' certificate: the operator, or somebody else, such as cert-manager."""

    AUTO = "auto"
    MANUAL = "manual"


class WebhookServer(Server):
    """Where the webhooks are served, and their certificate: the folder of its files, the Secret it comes from."""

    port: int = Field(default=2750, ge=0, le=65535)
    server_cert_dir: str = "/etc/grove-operator/webhook-certs"
    secret_name: str = "grove-webhook-server-cert"  # noqa: S105
    cert_provision_mode: CertProvisionMode = CertProvisionMode.AUTO


class ProbeServer(Server):
    port: int = Field(default=2751, ge=0, le=65535)


class MetricsServer(Server):
    port: int = Field(default=2752, ge=0, le=65535)


class Servers(_Model):
    webhooks: WebhookServer = WebhookServer()
    health_probes: ProbeServer = ProbeServer()
    metrics: MetricsServer = MetricsServer()


class Debugging(_Model):
    """The Go operator's profiler, which has no equal here: `py-spy` looks into a running process without any help."""

    enable_profiling: bool = False
    pprof_bind_host: str = "127.0.0.1"
    pprof_bind_port: int = Field(default=2753, ge=0, le=65535)


class Concurrency(_Model):
    """How many passes of one kind run at once."""

    concurrent_syncs: int = Field(default=10, gt=0)


class Controllers(_Model):
    pod_clique_set: Concurrency = Concurrency()
    pod_clique: Concurrency = Concurrency()
    pod_clique_scaling_group: Concurrency = Concurrency(concurrent_syncs=5)
    pod_gang: Concurrency = Concurrency(concurrent_syncs=5)


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    ERROR = "error"


class LogFormat(StrEnum):
    JSON = "json"
    TEXT = "text"


class Authorizer(_Model):
    """Protection of what the operator made against everybody but itself and the users named here."""

    enabled: bool = False
    exempt_service_account_user_names: tuple[str, ...] = ()
    reconciler_service_account_user_name: str = ""


class Switch(_Model):
    enabled: bool = False


class Network(_Model):
    auto_mnnvl_enabled: bool = Field(default=False, alias="autoMNNVLEnabled")


class SchedulerProfile(_Model):
    """A scheduler that sets may use: `name` is the schedulerName of their pods, `config` is for its back end."""

    name: str = Field(min_length=1)
    config: dict[str, Any] | None = None


class Scheduler(_Model):
    """The enabled profiles; that of Kubernetes' own scheduler always is one of them."""

    profiles: tuple[SchedulerProfile, ...] = ()
    default_profile_name: str = DEFAULT_SCHEDULER

    def enable(self) -> Schedulers:
        """Make the back ends; raises SchedulerError. Without profiles the default's name does not count."""
        profiles = [(profile.name, profile.config or {}) for profile in self.profiles]
        return enable(profiles, self.default_profile_name if profiles else DEFAULT_SCHEDULER)


class OperatorConfiguration(_Model):
    """The whole file. Absent means all defaults."""

    api_version: str = API_VERSION
    kind: str = KIND
    runtime_client_connection: ClientConnection = ClientConnection()
    leader_election: LeaderElection = LeaderElection()
    server: Servers = Servers()
    debugging: Debugging | None = None
    controllers: Controllers = Controllers()
    init_container: InitContainer = InitContainer()
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.JSON
    authorizer: Authorizer = Authorizer()
    topology_aware_scheduling: Switch = Switch()
    network: Network = Network()
    scheduler: Scheduler = Scheduler()

    def problems(self) -> list[str]:
        """What no single field tells: the path of a field, its value and what would be right."""
        found = [f"leaderElection.{text}" for text in self.leader_election.problems()]
        try:
            self.scheduler.enable()
        except SchedulerError as error:
            found.append(f"scheduler.{error}")
        for field, value, right in (("apiVersion", self.api_version, API_VERSION), ("kind", self.kind, KIND)):
            if value != right:
                found.append(f'{field}: Unsupported value: "{value}": supported values: "{right}"')
        return found

    def warnings(self) -> list[str]:
        """What is in the file without an effect."""
        found = [f"{path} is no field and is ignored{hint}" for path, hint in _unknown(self, "")]
        if self.debugging is not None and self.debugging.enable_profiling:
            found.append("debugging.enableProfiling has no effect: this operator serves no profiles")
        return found


def load(path: Path | None) -> OperatorConfiguration:
    """Read the file, YAML or JSON; raises ConfigurationError."""
    if path is None:
        return OperatorConfiguration()
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    if content is None:
        return OperatorConfiguration()
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path}: must be an object of kind {KIND}")
    try:
        config = OperatorConfiguration.model_validate(content)
    except ValidationError as error:
        raise ConfigurationError("; ".join(f"{path}: {line}" for line in field_errors(error))) from error
    if problems := config.problems():
        raise ConfigurationError("; ".join(f"{path}: {problem}" for problem in problems))
    return config


def _unknown(model: BaseModel, path: str) -> Iterator[tuple[str, str]]:
    """Path of each field that no model knows, and what may have been meant."""
    known = {field.alias or name: name for name, field in type(model).model_fields.items()}
    for key in model.model_extra or ():
        near = difflib.get_close_matches(key, known, 1)
        yield f"{path}{key}", f" (is {path}{near[0]} meant?)" if near else ""
    for alias, name in known.items():
        value = getattr(model, name)
        for index, part in enumerate(value if isinstance(value, tuple) else (value,)):
            if isinstance(part, BaseModel):
                place = f"[{index}]" if isinstance(value, tuple) else ""
                yield from _unknown(part, f"{path}{alias}{place}.")


def _snake(camel: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in camel)
