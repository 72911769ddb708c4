"""What each path answers: the rules of grove/admission, put between a request and its answer."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from grove.admission import Facts, Protection, Result, authorize, default, validate
from grove.admission.fields import ErrorKind, Field, FieldError, Finding, as_one_text
from grove.admission.validation import check_podcliqueset
from grove.api.clustertopologybinding import ClusterTopologyBinding
from grove.api.labels import API_VERSION
from grove.api.podcliqueset import PodCliqueSet
from grove.plan.kinds import CLUSTERTOPOLOGYBINDING, PODCLIQUESET
from grove.runtime.client import Client
from grove.runtime.errors import ApiError, Cause
from grove.webhooks import configurations
from grove.webhooks.dry_run import DryRun, Verdict
from grove.webhooks.reviews import Answer, Request, json_patch
from grove.webhooks.server import Handler, off_loop
from grove.webhooks.trials import Trial, trials

_REASONS: Final = {
    ErrorKind.REQUIRED: "FieldValueRequired",
    ErrorKind.INVALID: "FieldValueInvalid",
    ErrorKind.DUPLICATE: "FieldValueDuplicate",
    ErrorKind.NOT_FOUND: "FieldValueNotFound",
    ErrorKind.NOT_SUPPORTED: "FieldValueNotSupported",
    ErrorKind.TOO_LONG: "FieldValueTooLong",
    ErrorKind.FORBIDDEN: "FieldValueForbidden",
}
_ALLOWED: Final = Answer()
_SECONDS: Final = 2.0
_SELF: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Handlers:
    """The answers. `facts` tells what rules ask beside the object; `further` are rules for a defaulted PodCliqueSet
    that depend on the cluster. Without `dry_run` no pod is tried, without `protect` the authorizer allows all.

    `exempt` are user names that may change managed objects, beside the operator and Kubernetes' controllers.
    """

    def __init__(
        self,
        client: Client,
        facts: Callable[[], Facts] = Facts,
        further: Callable[[Field], Iterable[Finding]] = lambda _: (),
        *,
        dry_run: bool = True,
        protect: bool = False,
        exempt: Collection[str] = (),
    ) -> None:
        self._client = client
        self._facts = facts
        self._further = further
        self._dry_run = DryRun(client) if dry_run else None
        self._protect = protect
        self._exempt = frozenset(exempt)
        self._user = ""

    def by_path(self) -> Mapping[str, Handler]:
        """The handler of each path."""
        return {
            configurations.DEFAULT_PATH: self.default,
            configurations.VALIDATE_PATH: self.validate,
            configurations.VALIDATE_BINDING_PATH: self.validate_binding,
            configurations.AUTHORIZE_PATH: self.authorize,
        }

    async def default(self, request: Request) -> Answer:
        """Fill in the defaults of a PodCliqueSet."""
        problem = _unfit(request, PodCliqueSet.KIND)
        if problem is not None:
            return problem
        return Answer(patch=await off_loop(request.size, _defaults, request))

    async def validate(self, request: Request) -> Answer:
        """Check a PodCliqueSet, and its pods when it is right as far as the rules go."""
        problem = _unfit(request, PodCliqueSet.KIND)
        if problem is not None:
            return problem
        result, to_try = await off_loop(request.size, self._check, request, await self._known())
        verdict = await self._dry_run.check(to_try, request.namespace) if self._dry_run is not None else Verdict()
        return _answer(result, verdict)

    async def _known(self) -> Facts:
        """The facts, with the levels of the cluster where sets may ask for them; as they are now, not as cached.

        Where they cannot be had in time, nothing is refused because of them.
        """
        facts = self._facts()
        if not facts.topology_aware:
            return facts
        try:
            async with asyncio.timeout(_SECONDS):
                bindings = await self._client.list(CLUSTERTOPOLOGYBINDING, view=ClusterTopologyBinding.from_wire)
        except (ApiError, TimeoutError, ValidationError):
            return facts
        topologies = {obj.name: [level.domain for level in obj.spec.levels] for obj in bindings.items}
        return replace(facts, topologies=topologies)

    def _check(self, request: Request, facts: Facts) -> tuple[Result, list[Trial]]:
        """What the rules say, and what is to be tried of a set that is right so far."""
        old = default(request.old) if isinstance(request.old, dict) else None
        new = default(request.object, old)
        result = check_podcliqueset(new, old, facts)
        if not result.ok:  # further rules count on it that the set is right so far
            return result, []
        found = list(self._further(Field(new)))
        errors = tuple(finding for finding in found if isinstance(finding, FieldError))
        warnings = (str(finding) for finding in found if not isinstance(finding, FieldError))
        to_try = trials(new, old) if self._dry_run is not None and not errors else []
        return Result(errors, (*result.warnings, *warnings)), to_try

    async def validate_binding(self, request: Request) -> Answer:
        """Check a ClusterTopologyBinding."""
        problem = _unfit(request, ClusterTopologyBinding.KIND)
        if problem is not None:
            return problem
        return _answer(await off_loop(request.size, validate, request.object, request.old, self._facts()), Verdict())

    async def authorize(self, request: Request) -> Answer:
        """Decide whether a managed object may be changed by whoever asks.

        The set is asked for only when the answer depends on it, and then at the API server: an annotation that lifts
        the protection holds at once.
        """
        if not self._protect:
            return _ALLOWED
        wanted: list[tuple[str, str]] = []
        try:
            user = await self._own_name()
        except ApiError as error:
            return Answer(False, f"the operator cannot tell who it is: {error}")

        def look(namespace: str, name: str) -> None:
            wanted.append((namespace, name))

        decision = authorize(request.raw, Protection(user, look, self._exempt))
        if wanted:
            find = await self._lookup(*wanted[0])
            decision = authorize(request.raw, Protection(user, find, self._exempt))
        return Answer(decision.allowed, decision.message, warnings=decision.warnings)

    async def _lookup(self, namespace: str, name: str) -> Callable[[str, str], Mapping[str, Any] | None]:
        """A function that gives the metadata of the set, None, or raises what the API server said."""
        found: Mapping[str, Any] | None = None
        failure: ApiError | None = None
        try:
            found = (await self._client.get(PODCLIQUESET, namespace, name))["metadata"]
        except ApiError as error:
            failure = None if error.is_not_found else error

        def find(_namespace: str, _name: str) -> Mapping[str, Any] | None:
            if failure is not None:
                raise failure
            return found

        return find

    async def _own_name(self) -> str:
        """The operator's user name, which the API server knows best; raises ApiError."""
        if not self._user:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            answer = await self._client.request(
                "POST", _SELF, body=review, verb="create", resource="selfsubjectreviews"
            )
            self._user = str(answer["status"]["userInfo"]["username"])
        return self._user


def _unfit(request: Request, kind: str) -> Answer | None:
    """The answer to what is no create or update of an object of that kind, or of one that is about to go."""
    if request.operation not in ("CREATE", "UPDATE") or request.subresource:
        return _ALLOWED
    if (request.api_version, request.kind) != (API_VERSION, kind):
        asked = f"{request.kind or 'an unnamed kind'} of {request.api_version or 'an unnamed version'}"
        return Answer(False, f"this webhook checks {kind} of {API_VERSION}, not {asked}", 400, "BadRequest")
    if not isinstance(request.object, dict):
        return Answer(False, f"request.object: Required value: must be a {kind}", 400, "BadRequest")
    metadata = request.object.get("metadata")
    deleting = isinstance(metadata, dict) and metadata.get("deletionTimestamp") is not None
    return _ALLOWED if deleting and request.operation == "UPDATE" else None


def _defaults(request: Request) -> list[dict[str, Any]]:
    """The JSON patch that fills in the defaults."""
    return list(json_patch(request.object, default(request.object, request.old)))


def _answer(result: Result, verdict: Verdict) -> Answer:
    causes = [Cause(_REASONS[error.kind], str(error), error.path) for error in result.errors]
    causes += verdict.causes
    tried = (f"{cause.field}: {cause.message}" for cause in verdict.causes)
    return Answer(
        allowed=not causes,
        message=as_one_text([*map(str, result.errors), *tried]),
        causes=causes,
        warnings=(*result.warnings, *verdict.warnings),
    )
