"""`grove operator`: run the operator until it is stopped."""

import asyncio
import gc
import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from grove.controllers.config import OperatorConfiguration

logger = logging.getLogger(__name__)

CONFIGURATION_ERROR = 2
PORT_TAKEN = 4
STOPPED_BY_ERROR = 6

_SWITCH_SECONDS = 0.001
"""How long a thread may go on while another one waits. Reviews have a thread of their own, and wait for the passes at
each of their steps; with Python's own 5 ms that was most of their time.
"""


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Kubeconfig of the cluster. Default: $KUBECONFIG, the pod's service account, ~/.kube/config.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with an OperatorConfiguration, YAML or JSON.",
)
def operator(kubeconfig: Path | None, config_file: Path | None) -> None:
    """Run the operator until SIGTERM or ctrl-C.

    Exit codes: 0 stopped, 2 configuration or usage error, 4 a port is taken, 6 no credentials, or it could not go on.
    """
    from grove.controllers.config import ConfigurationError, LogFormat, load

    try:
        config = load(config_file)
    except ConfigurationError as error:
        click.echo(f"grove operator: {error}", err=True)
        sys.exit(CONFIGURATION_ERROR)
    as_json = config.log_format is LogFormat.JSON
    if sys.stderr.isatty() and "log_format" not in config.model_fields_set:
        as_json = False  # people read along
    set_up_logging(config.log_level.value, as_json=as_json)
    for warning in config.warnings():
        logger.warning("%s: %s", config_file, warning)
    sys.exit(asyncio.run(_run(config, kubeconfig)))


async def _run(config: "OperatorConfiguration", kubeconfig: Path | None = None) -> int:
    import aiohttp
    import kopf

    from grove.controllers.operator import Operator
    from grove.runtime.credentials import LoginError

    process = Operator(config, kubeconfig)
    _relax_garbage_collection()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        await process.run()
    except (LoginError, kopf.LoginError) as error:
        click.echo(f"grove operator: {error}", err=True)
        return STOPPED_BY_ERROR
    except aiohttp.ClientError as error:  # some are OSErrors too
        click.echo(f"grove operator: no contact with the API server: {error}", err=True)
        return STOPPED_BY_ERROR
    except OSError as error:
        server = config.server
        ports = {
            "webhooks": server.webhooks.port,
            "healthProbes": server.health_probes.port,
            "metrics": server.metrics.port,
        }
        named = ", ".join(f"server.{name}.port {port}" for name, port in ports.items())
        click.echo(f"grove operator: cannot listen ({named}; 0 turns one off): {error}", err=True)
        return PORT_TAKEN
    return STOPPED_BY_ERROR if process.failed else 0


def _relax_garbage_collection() -> None:
    """Look for reference cycles less often: the caches hold many objects, none of them in a cycle.

    With Python's own thresholds the search costs a quarter of the CPU of a request.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def set_up_logging(level: str, *, as_json: bool) -> None:
    """Log to stderr, one line per record; libraries speak up from WARNING on."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonFormatter() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("grove").setLevel(level.upper())


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)
