"""The operator's configuration file (kind OperatorConfiguration), with the field names and defaults of the API doc 5.1.

Unknown fields are ignored, as charts of other versions may write them. There is one difference to the Go operator's
defaults: requests per second are not limited unless `runtimeClientConnection.qps` is set, because the API server's
priority and fairness does that better.
"""

from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from grove.api.base import field_errors
from grove.api.labels import DEFAULT_SCHEDULER
from grove.plan.init_container import InitContainer
from grove.schedulers import SchedulerError, Schedulers, enable


class ConfigurationError(Exception):
    """The configuration cannot be used; the message names file, field, value and what would be right."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)


class ClientConnection(_Model):
    """Limits of our requests: per second, and at once. None leaves them to the API server."""

    qps: float | None = Field(default=None, ge=0)
    burst: int = Field(default=120, ge=0)


class Server(_Model):
    """Where an HTTP endpoint listens; port 0 turns it off."""

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


class Servers(_Model):
    webhooks: WebhookServer = WebhookServer()
    health_probes: Server = Server(port=2751)
    metrics: Server = Server(port=2752)


class Concurrency(_Model):
    """How many passes of one kind run at once."""

    concurrent_syncs: int = Field(default=10, gt=0)


class Controllers(_Model):
    pod_clique_set: Concurrency = Concurrency()
    pod_clique: Concurrency = Concurrency()
    pod_clique_scaling_group: Concurrency = Concurrency(concurrent_syncs=5)
    pod_gang: Concurrency = Concurrency(concurrent_syncs=5)


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


class OperatorConfiguration(_Model):
    """The whole file. Absent means all defaults."""

    runtime_client_connection: ClientConnection = ClientConnection()
    server: Servers = Servers()
    controllers: Controllers = Controllers()
    scheduler: Scheduler = Scheduler()
    init_container: InitContainer = InitContainer()
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.JSON
    authorizer: Authorizer = Authorizer()


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
        raise ConfigurationError(f"{path}: must be an object of kind OperatorConfiguration")
    kind = content.get("kind", "OperatorConfiguration")
    if kind != "OperatorConfiguration":
        raise ConfigurationError(f"{path}: kind: Invalid value: {kind!r}: must be OperatorConfiguration")
    try:
        config = OperatorConfiguration.model_validate(content)
        config.scheduler.enable()
        return config
    except SchedulerError as error:
        raise ConfigurationError(f"{path}: scheduler.{error}") from error
    except ValidationError as error:
        raise ConfigurationError("; ".join(f"{path}: {line}" for line in field_errors(error))) from error
