"""Installs the CustomResourceDefinitions by server-side apply, for an upgrade that must not depend on anything else."""

from pathlib import Path

from grove.api.crd import DEFINITIONS, custom_resource_definition
from grove.controllers.login import Login
from grove.runtime.client import Client
from grove.runtime.resources import ResourceType

_CRD = ResourceType("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)


async def apply_crds(kubeconfig: Path | None = None) -> list[str]:
    """Apply them all, taking over fields that others own; their names. The same again changes nothing.

    Raises LoginError without credentials, ApiError where the API server refuses.
    """
    login = Login(kubeconfig=kubeconfig)
    await login.renew()
    try:
        client = Client(login.session, login.server)
        applied = [custom_resource_definition(definition) for definition in DEFINITIONS]
        for crd in applied:
            await client.request(
                "PATCH",
                _CRD.path(name=crd["metadata"]["name"]),
                params={"fieldManager": "grove-crd-installer", "force": "true"},
                body=crd,
                content_type="application/apply-patch+yaml",  # JSON is YAML
                verb="apply",
                resource=_CRD.label,
            )
        return [str(crd["metadata"]["name"]) for crd in applied]
    finally:
        await login.close()
