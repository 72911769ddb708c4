"""Sends the writes of a plan."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grove.runtime.client import Client
from grove.runtime.errors import ApiError
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Create, Delete, Patch, Write

logger = logging.getLogger(__name__)

OnObject = Callable[[ResourceType, dict[str, Any]], None]
OnDeleted = Callable[[ResourceType, str, str, str], None]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one write.

    ``object`` is what the server returned, unless ``on_object`` took it. ``existing``: a create found an object under
    its name, always kept in ``object``; whether it is ours is for the caller to judge by its owner. ``skipped``: not
    sent, since writes before it failed.
    """

    write: Write
    object: dict[str, Any] | None = None
    error: ApiError | None = None
    existing: bool = False
    skipped: bool = False

    @property
    def ok(self) -> bool:
        """Whether the cluster is as the write wants it; an existing object counts."""
        return self.error is None and not self.skipped


async def apply(
    client: Client,
    writes: Sequence[Write],
    *,
    on_object: OnObject | None = None,
    on_deleted: OnDeleted | None = None,
    concurrency: int = 32,
) -> list[Result]:
    """Send writes in batches of 8, 16, 32, … up to ``concurrency`` at once; return one Result per write, in order.

    Writes of a batch race each other: what must come first goes into an earlier call. After a batch with a failure
    that the next writes would share (refused, server down) the rest is skipped, so that a quota or a policy is not met
    a thousand times. ``on_object`` gets every object the server returned and ``on_deleted`` (resource, namespace,
    name, uid) every removal, so that caches can take them over at once.
    """
    results: list[Result] = []
    size = min(8, concurrency)
    while len(results) < len(writes):
        batch = writes[len(results) : len(results) + size]
        done = await asyncio.gather(*(_send(client, write, on_object, on_deleted) for write in batch))
        results += done
        if any(result.error is not None and not _is_about_one_object(result.error) for result in done):
            results += [Result(write, skipped=True) for write in writes[len(results) :]]
        size = min(size * 2, concurrency)
    return results


def _is_about_one_object(error: ApiError) -> bool:
    """Whether the error says that one object has changed, which tells nothing about the others."""
    return error.is_not_found or error.status == 409 or (error.is_invalid and error.verb == "patch")


async def _send(client: Client, write: Write, on_object: OnObject | None, on_deleted: OnDeleted | None) -> Result:
    try:
        match write:
            case Create():
                result = await _create(client, write)
            case Patch():
                result = Result(write, await _patch(client, write))
            case Delete():
                result = await _delete(client, write)
    except ApiError as error:
        return Result(write, error=error)
    try:
        taken = _report(result, on_object, on_deleted)
    except Exception:
        # The write is done and must not look failed; the watch will bring the same news.
        logger.exception("The answer about %s %s/%s was not taken", write.resource.label, write.namespace, write.name)
        return result
    # Thousands of objects would otherwise stay in memory until the last write of the plan is done.
    return replace(result, object=None) if taken and not result.existing else result


def _report(result: Result, on_object: OnObject | None, on_deleted: OnDeleted | None) -> bool:
    """Tell the caches; return whether ``on_object`` took the object."""
    write, obj = result.write, result.object
    if obj is None or _is_gone(obj):
        if on_deleted is not None:
            uid = obj["metadata"]["uid"] if obj is not None else getattr(write, "uid", "")
            on_deleted(write.resource, write.namespace, write.name, uid)
        return False
    if on_object is None or getattr(write, "subresource", None) not in (None, "status"):  # /scale answers with a Scale
        return False
    on_object(write.resource, obj)
    return True


async def _create(client: Client, write: Create) -> Result:
    try:
        return Result(write, await client.create(write.resource, write.body))
    except ApiError as error:
        if not error.is_already_exists:
            raise
        try:
            found = await client.get(write.resource, write.namespace, write.name)
        except ApiError as vanished:
            raise error from vanished  # it exists no more: the next pass creates it
        return Result(write, found, existing=True)


async def _patch(client: Client, write: Patch) -> dict[str, Any]:
    body = write.body
    if write.uid:
        if isinstance(body, list):
            body = [{"op": "test", "path": "/metadata/uid", "value": write.uid}, *body]
        else:
            body = {**body, "metadata": {**(body.get("metadata") or {}), "uid": write.uid}}
    return await client.patch(write.resource, write.namespace, write.name, body, write.subresource)


async def _delete(client: Client, write: Delete) -> Result:
    name = f"{write.namespace}/{write.name}" if write.namespace else write.name
    logger.info("Deleting %s %s: %s", write.resource.label, name, write.reason or "no longer wanted")
    try:
        answer = await client.delete(
            write.resource,
            write.namespace,
            write.name,
            uid=write.uid,
            grace_period_seconds=write.grace_period_seconds,
            propagation_policy=write.propagation_policy,
        )
    except ApiError as error:
        if error.is_not_found or (error.is_conflict and await _is_another(client, write)):
            return Result(write)
        raise
    return Result(write, None if "deletionTimestamp" not in answer.get("metadata", {}) else answer)


async def _is_another(client: Client, write: Delete) -> bool:
    """Whether the name belongs to another object by now, so that the one we meant exists no more.

    The conflict itself does not tell, as admission may answer a delete with one too.
    """
    try:
        found = await client.get(write.resource, write.namespace, write.name)
    except ApiError as error:
        return error.is_not_found
    return bool(write.uid) and found["metadata"]["uid"] != write.uid


def _is_gone(obj: dict[str, Any]) -> bool:
    """Whether this is the last state of an object: deleted, with neither a finalizer nor a grace period to wait for."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )
