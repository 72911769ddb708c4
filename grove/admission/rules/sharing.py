"""Claims on devices that pods share, and the templates of such claims."""

from __future__ import annotations

from collections.abc import Iterator

from grove.admission import formats
from grove.admission.fields import Field, FieldError, Finding, cliques, group_of, scaling_groups
from grove.admission.rules.names import last_index, podclique_name, scaling_group_name, set_name_of
from grove.api import names
from grove.api.resourcesharing import ResourceSharingScope


def claim_templates(root: Field) -> Iterator[Finding]:
    """A template has a name of its own and asks for at least one device (api rules V5-V7)."""
    seen: set[str] = set()
    for entry in root["spec"]["template"]["resourceClaimTemplates"]:
        name = entry["name"]
        if name.value == "":
            yield name.required("a DNS label such as gpus")
        elif name.text and (problem := formats.dns_label_problem(name.text)):
            yield name.invalid(problem)
        elif name.text in seen:
            yield name.duplicate("names of resourceClaimTemplates must be unique")
        seen.add(name.text or "")
        requests = entry["templateSpec"]["spec"]["devices"]["requests"]
        if isinstance(entry["templateSpec"].value, dict) and not requests.value:
            yield requests.required("at least one request for a device")
        elif not isinstance(requests.value, list | None):
            yield requests.invalid("must be a list")


def sharing(root: Field) -> Iterator[Finding]:
    """An entry names a claim template, each once in its list (api rules V8-V10).

    A namespace is for templates in the cluster only, not for those of the set.
    """
    templates = root["spec"]["template"]["resourceClaimTemplates"]
    own = {entry["name"].text: entry.path for entry in templates if entry["name"].text}
    for level in _levels(root):
        seen: set[str] = set()
        for entry in level["resourceSharing"]:
            name = entry["name"]
            if name.value == "":
                yield name.required("one of resourceClaimTemplates, or a ResourceClaimTemplate in the cluster")
            elif name.text and (problem := formats.dns_label_problem(name.text)):
                yield name.invalid(problem)
            elif name.text in seen:
                yield name.duplicate("a claim template can be named once in a list")
            seen.add(name.text or "")
            if entry["namespace"].text and name.text in own:
                yield entry["namespace"].invalid(f"must be left out: {name.text} is the set's own, {own[name.text]}")


def sharing_filters(root: Field) -> Iterator[Finding]:
    """A filter names cliques that are there (for the set, groups too), and at least one (api rules V12-V16)."""
    names_of_cliques = {clique["name"].text for clique in cliques(root)}
    names_of_groups = {group["name"].text for group in scaling_groups(root)}
    for entry in root["spec"]["template"]["resourceSharing"]:
        chosen = entry["filter"]
        if isinstance(chosen.value, dict) and not (
            chosen["childCliqueNames"].value or chosen["childScalingGroupNames"].value
        ):
            yield chosen.required("childCliqueNames or childScalingGroupNames; without a filter all pods take part")
        yield from _known(chosen["childCliqueNames"], names_of_cliques, "clique of this name in the template")
        yield from _known(chosen["childScalingGroupNames"], names_of_groups, "scaling group of this name")
    for group in scaling_groups(root):
        members = {name.text for name in group["cliqueNames"]}
        for entry in group["resourceSharing"]:
            chosen = entry["filter"]
            if isinstance(chosen.value, dict) and not chosen["childCliqueNames"].value:
                yield chosen.required("childCliqueNames; without a filter all cliques of the group take part")
            yield from _known(chosen["childCliqueNames"], members, "clique of this name in the scaling group")


def claim_names(root: Field) -> Iterator[Finding]:
    """The name of a claim, made of its owner's and its template's, fits into a pod: 63 characters."""
    name, spec = set_name_of(root), root["spec"]
    if not name:
        return
    groups = group_of(root)
    i = last_index(spec)
    yield from _claims(spec["template"], name, i)
    for group in scaling_groups(root):
        yield from _claims(group, scaling_group_name(root, group), last_index(group, "scaleConfig"))
    for clique in cliques(root):
        podclique = podclique_name(root, clique, groups.get(clique["name"].text or ""))
        yield from _claims(clique, podclique, last_index(clique["spec"], "autoScalingConfig"))


def _claims(level: Field, owner: str, index: int) -> Iterator[FieldError]:
    for entry in level["resourceSharing"]:
        template = entry["name"]
        if not template.text or len(template.text) > formats.MAX_LABEL_LENGTH:
            continue
        if entry["scope"].value == ResourceSharingScope.PER_REPLICA:
            claim = names.replica_claim_name(owner, index, template.text)
        else:
            claim = names.shared_claim_name(owner, template.text)
        if len(claim) > formats.MAX_LABEL_LENGTH:
            yield template.invalid(
                f"the longest claim name would be {claim}: {len(claim)} characters, {formats.MAX_LABEL_LENGTH} at "
                "most; shorten the names or lower the replicas"
            )


def _levels(root: Field) -> list[Field]:
    return [root["spec"]["template"], *cliques(root), *scaling_groups(root)]


def _known(chosen: Field, known: set[str | None], what: str) -> Iterator[FieldError]:
    for name in chosen:
        if name.text is not None and name.text not in known:
            yield name.not_found(f"there is no {what}")
