"""Rules in CEL for the CRD schemas: what the API server refuses by itself, with the operator away.

Each says the same as a rule of `grove.admission`, or less where CEL cannot see enough; the webhook names the values and
all other problems too. The API server estimates what a rule may cost from the limits of the lists and strings it reads,
so those have limits here.
"""

from __future__ import annotations

from typing import Any, Final

from grove.api.labels import INVALID_SPEC, MAX_NAME_LENGTH, MNNVL_GROUP

Rule = dict[str, Any]

MAX_CLIQUES: Final = 256
"""Most cliques of a set, and of a scaling group. Rules that compare cliques with each other could not be afforded
without a limit; sets have a handful.
"""
MAX_GROUPS: Final = 128
"""Most scaling groups of a set."""
MAX_SHARING: Final = 32
"""Most entries of a resourceSharing list."""
MAX_LEVELS: Final = 64
"""Most levels of a ClusterTopologyBinding, and most schedulers it names; clusters have up to seven."""

OBJECT_NAME: Final[dict[str, Any]] = {"maxLength": 253}
"""Schema of the name of an object of another kind."""


def cel(rule: str, message: str, *, field: str = "", reason: str = "", on_create: bool = False) -> Rule:
    """A rule in CEL for a CRD schema: what must hold for `self`, and what to say otherwise.

    `field` is where the error points to, below `self`. With `on_create` the rule may ask `oldSelf.hasValue()`.
    """
    optional = {"fieldPath": field, "reason": reason, "optionalOldSelf": on_create}
    return {"rule": rule, "message": message} | {key: value for key, value in optional.items() if value}


def cel_rules(*rules: Rule) -> dict[str, Any]:
    """Rules for a schema, to be merged into it."""
    return {"x-kubernetes-validations": list(rules)}


NAME: Final[dict[str, Any]] = {
    "maxLength": 63,
    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
    **cel_rules(cel("self != ''", "a DNS label such as worker", reason="FieldValueRequired")),
}
"""Schema of a name that goes into host names: a DNS label. That it must not be empty is said apart, as one problem."""


_SIDES: Final = ("self", "oldSelf")
_FIXED: Final = "cannot change: must stay as it was"


def kept(field: str) -> Rule:
    """A field that is there stays as it is; one that is not may still be set."""
    rule = f"!has(oldSelf.{field}) || (has(self.{field}) && self.{field} == oldSelf.{field})"
    return cel(rule, _FIXED, field=f".{field}")


def kept_text(field: str) -> Rule:
    """As `kept`, for a text; an empty one is an absent one."""
    rule = f"!has(oldSelf.{field}) || oldSelf.{field} == '' || (has(self.{field}) && self.{field} == oldSelf.{field})"
    return cel(rule, _FIXED, field=f".{field}")


def kept_list(field: str) -> Rule:
    """A list stays as it is; an empty one is an absent one."""
    return cel(f"{_list('self', field)} == {_list('oldSelf', field)}", _FIXED, field=f".{field}")


def kept_presence(field: str) -> Rule:
    """A field is neither added nor removed later."""
    return cel(f"has(self.{field}) == has(oldSelf.{field})", "cannot be added or removed later", field=f".{field}")


def _list(owner: str, field: str) -> str:
    return f"(has({owner}.{field}) ? {owner}.{field} : [])"


NVLINK_GROUP_KEPT: Final = cel(
    " == ".join(f"(has({side}.annotations) && '{MNNVL_GROUP}' in {side}.annotations)" for side in _SIDES),
    f"the annotation {MNNVL_GROUP} cannot be added or removed later",
    field=".annotations",
)

REPLICAS: Final = cel(
    "(has(self.replicas) ? self.replicas : 1) == 0 || (has(self.replicas) ? self.replicas : 1) >= "
    "(has(self.minAvailable) ? self.minAvailable : 1)",
    "replicas must be 0 (idle) or at least minAvailable",
    field=".replicas",
)
"""Of a clique, a scaling group, and the objects made from them: it holds for `kubectl scale` and autoscalers too."""

AUTOSCALER: Final = cel(
    "!has(self.minReplicas) || self.maxReplicas >= self.minReplicas",
    "maxReplicas must be at least minReplicas",
    field=".maxReplicas",
)


def autoscaler_minimum(config: str) -> Rule:
    """An autoscaler does not go below minAvailable."""
    rule = f"!has(self.{config}) || !has(self.{config}.minReplicas) || !has(self.minAvailable) || "
    rule += f"self.{config}.minReplicas >= self.minAvailable"
    return cel(rule, "minReplicas must be at least minAvailable", field=f".{config}")


AUTOSCALER_MAXIMUM: Final = cel(
    "!has(self.autoScalingConfig) || !has(self.replicas) || self.autoScalingConfig.maxReplicas >= self.replicas",
    "maxReplicas must be at least replicas",
    field=".autoScalingConfig",
)

_SCHEDULERS: Final = tuple(
    f"(has({side}.podSpec.schedulerName) ? {side}.podSpec.schedulerName : '')" for side in _SIDES
)
CLIQUE: Final = (
    REPLICAS,
    autoscaler_minimum("autoScalingConfig"),
    AUTOSCALER_MAXIMUM,
    kept_text("roleName"),
    kept("minAvailable"),
    cel(
        f"[{', '.join(_SCHEDULERS)}].exists(name, name == '') || {' == '.join(_SCHEDULERS)}",
        "the scheduler cannot change",
        field=".podSpec",
    ),
)
"""The spec of a clique in a set's template."""

CLIQUE_LIMITS: Final[dict[str, Any]] = {
    "x-grove-limits": {
        "roleName": OBJECT_NAME,
        "startsAfter": {"maxItems": MAX_CLIQUES},
        "startsAfter.[]": OBJECT_NAME,
        "podSpec.schedulerName": OBJECT_NAME,
    }
}
"""Limits that those rules need, by the path of a field below it; a PodClique, of the same type, has none of them."""

CLIQUE_TEMPLATE: Final = (kept_presence("topologyConstraint"), kept_list("resourceSharing"), NVLINK_GROUP_KEPT)
_MEMBERS: Final = "{}.cliqueNames.map(name, name)".format
SCALING_GROUP: Final = (
    REPLICAS,
    autoscaler_minimum("scaleConfig"),
    # A set of names is compared without regard to their order, a list that was made from it is not.
    cel(f"{_MEMBERS('self')} == {_MEMBERS('oldSelf')}", _FIXED, field=".cliqueNames"),
    kept("minAvailable"),
    kept_presence("topologyConstraint"),
    kept_list("resourceSharing"),
    NVLINK_GROUP_KEPT,
)

_GROUPS: Final = "self.podCliqueScalingGroups"
_ANY_ORDER: Final = "CliqueStartupTypeAnyOrder"
_ORDER: Final = "self.cliques.map(c, c.name) == oldSelf.cliques.map(c, c.name)"
TEMPLATE: Final = (
    # As many names in groups as cliques in groups: then every name is a clique's, and every clique's is there once.
    cel(
        f"!has({_GROUPS}) || {_GROUPS}.map(g, size(g.cliqueNames)).sum() == "
        f"size(self.cliques.filter(c, {_GROUPS}.exists(g, c.name in g.cliqueNames)))",
        "cliqueNames must be names of cliques, and a clique can be in one scaling group",
        field=".podCliqueScalingGroups",
    ),
    cel(
        f"!has({_GROUPS}) || !self.cliques.exists(c, has(c.spec.autoScalingConfig) && "
        f"{_GROUPS}.exists(g, c.name in g.cliqueNames))",
        "a clique in a scaling group cannot have an autoScalingConfig: the group scales as one, by its scaleConfig",
        field=".cliques",
    ),
    cel(
        "size(self.cliques) == size(oldSelf.cliques) && "
        "self.cliques.all(c, oldSelf.cliques.exists(o, o.name == c.name))",
        "cliques cannot be added or removed",
        field=".cliques",
    ),
    cel(
        f"self.cliqueStartupType == '{_ANY_ORDER}' || size(self.cliques) != size(oldSelf.cliques) || {_ORDER}",
        f"the order of cliques cannot change, except with {_ANY_ORDER}",
        field=".cliques",
    ),
    cel("self.cliqueStartupType == oldSelf.cliqueStartupType", _FIXED, field=".cliqueStartupType"),
    cel(
        f"size({_list('self', 'podCliqueScalingGroups')}) == size({_list('oldSelf', 'podCliqueScalingGroups')}) && "
        f"(!has({_GROUPS}) || {_GROUPS}.all(g, oldSelf.podCliqueScalingGroups.exists(o, o.name == g.name)))",
        "scaling groups cannot be added or removed",
        field=".podCliqueScalingGroups",
    ),
    kept_list("resourceClaimTemplates"),
    kept_list("resourceSharing"),
    kept_presence("topologyConstraint"),
)
"""A set's template. A role that is left out is not compared: it is the clique's name."""

UNIQUE_ROLES: Final = cel(
    "self.all(c, !has(c.spec.roleName) || c.spec.roleName == '' || "
    "self.exists_one(o, has(o.spec.roleName) && o.spec.roleName == c.spec.roleName))",
    "role names must be unique",
)

POSITIVE_DURATION: Final = cel("duration(self) > duration('0s')", "must be more than 0, e.g. 4h")


def unique(key: str) -> Rule:
    """No two entries of a list have the same `key`."""
    return cel(f"self.all(x, self.exists_one(y, y.{key} == x.{key}))", f"{key} must be unique in the list")


CONSTRAINT_KEPT: Final = (
    cel(
        " == ".join(f"(has({side}.topologyName) ? {side}.topologyName : '')" for side in _SIDES)
        + " || (has(oldSelf.packDomain) && (!has(oldSelf.topologyName) || oldSelf.topologyName == ''))",
        _FIXED,
        field=".topologyName",
    ),
    cel(
        " == ".join(
            f"(has({side}.packDomain) ? {side}.packDomain : "
            f"has({side}.pack) && has({side}.pack.required) ? {side}.pack.required : '')"
            for side in _SIDES
        ),
        "the required level cannot change",
        field=".pack",
    ),
    cel(
        " == ".join(
            f"(has({side}.pack) && has({side}.pack.preferred) ? {side}.pack.preferred : '')" for side in _SIDES
        ),
        "the preferred level cannot change",
        field=".pack",
    ),
)
"""A constraint stays, but packDomain may become pack.required, and an old one may get the name that it lacks."""

_STARTS_AFTER: Final = tuple(
    f"{side}.spec.template.cliques.map(c, has(c.spec.startsAfter) ? c.spec.startsAfter : [])" for side in _SIDES
)
_ERRORS: Final = "oldSelf.status.lastErrors"
STARTS_AFTER_KEPT: Final = cel(
    f"self.spec.template.cliqueStartupType == '{_ANY_ORDER}' || {' == '.join(_STARTS_AFTER)} || "
    f"(has(oldSelf.status) && has({_ERRORS}) && size({_ERRORS}) > 0 && {_ERRORS}[0].code == '{INVALID_SPEC}')",
    "startsAfter cannot change: must stay as it was",
    field=".spec.template.cliques",
)
"""The cliques' startsAfter stays, until the operator says that the spec is invalid: a circle of a set that was stored
without webhooks can be opened; the operator makes nothing of an invalid set. Where startsAfter has no effect, only the
webhook compares it.
"""

NAME_LENGTHS: Final = (
    cel(
        f"self.spec.template.cliques.all(c, size(self.metadata.name) + size(c.name) <= {MAX_NAME_LENGTH})",
        f"the names of the set and of a clique can have {MAX_NAME_LENGTH} characters together",
        field=".spec.template.cliques",
    ),
    cel(
        "!has(self.spec.template.podCliqueScalingGroups) || self.spec.template.podCliqueScalingGroups.all(g, "
        f"g.cliqueNames.all(n, size(self.metadata.name) + size(g.name) + size(n) <= {MAX_NAME_LENGTH}))",
        f"the names of the set, of a scaling group and of a clique can have {MAX_NAME_LENGTH} characters together",
        field=".spec.template.podCliqueScalingGroups",
    ),
)
