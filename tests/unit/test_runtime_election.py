"""Leader election, in virtual time: seconds here are exact. Times are those of the defaults: 15, 10 and 2 seconds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from grove.runtime.client import NOT_LEADING
from grove.runtime.election import LEASE, Election
from grove.runtime.errors import ApiError
from tests.fake_api import FakeApi, Object
from tests.fake_api.seen import WIDGETS, until, widget
from tests.fake_api.virtual import cancel, elapsed, settle, virtual_time

NAMESPACE, NAME = "grove-system", "grove-operator-leader-election"


class Candidate:
    """A process that notes when it began and ceased to lead. `api` is the server as it sees it."""

    def __init__(self, api: FakeApi, identity: str) -> None:
        self.election = Election(api.client(timeout=5.0), NAMESPACE, NAME, identity)
        self.client = api.client(may_write=self.election.leads)
        self.began: list[float] = []
        self.aborted: list[float] = []
        self.ended: list[float] = []
        self.farewell = 0.0
        self.task = asyncio.ensure_future(self.election.run(self.work, lambda: self.aborted.append(elapsed())))

    async def work(self) -> None:
        self.began.append(elapsed())
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(self.farewell)
            self.ended.append(elapsed())


@asynccontextmanager
async def candidates(api: FakeApi, *names: str) -> AsyncIterator[list[Candidate]]:
    """Candidates, the first of them leading."""
    made: list[Candidate] = []
    for name in names:
        made.append(Candidate(api, name))
        await until(lambda: made[0].began)
    try:
        yield made
    finally:
        await cancel(*(candidate.task for candidate in made))


def servers() -> FakeApi:
    return FakeApi([LEASE, WIDGETS])


def lease(api: FakeApi) -> Object:
    (found,) = api.objects(LEASE)
    return found


def holder(api: FakeApi) -> str:
    return str(lease(api)["spec"]["holderIdentity"])


@virtual_time
async def test_the_first_leads_and_the_second_stands_by() -> None:
    api = servers()
    async with candidates(api, "a", "b") as (a, b):
        await asyncio.sleep(120)
        assert (len(a.began), len(b.began)) == (1, 0)
        assert a.election.leads()
        assert not b.election.leads()
        spec = lease(api)["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 0)
        renewals = [request for request in api.requests if request.resource == "leases" and request.verb == "patch"]
        assert len(renewals) == pytest.approx(120 / 2, abs=2)


@virtual_time
async def test_who_ends_hands_over_at_once() -> None:
    api = servers()
    async with candidates(api, "a", "b") as (a, b):
        a.farewell = 7.0
        await asyncio.sleep(30)
        a.task.cancel()
        await asyncio.sleep(6.9)
        assert not b.began, "what is under way may end before"
        await until(lambda: b.began)
        assert b.began[0] - a.ended[0] < 0.5
        assert not a.aborted
        assert lease(api)["spec"]["leaseTransitions"] == 1


@virtual_time
async def test_who_vanishes_is_followed_when_the_lease_ends() -> None:
    api = servers()
    async with candidates(api, "a", "b") as (a, b):
        await asyncio.sleep(30)
        api.faults.reset(verb="patch", resource="leases", name=NAME, times=None, probability=1.0)
        died = elapsed()
        await until(lambda: a.ended, timeout=60)
        assert a.aborted[0] - died <= 10
        assert not b.began
        api.faults.clear()
        await cancel(a.task)
        await until(lambda: b.began, timeout=60)
        assert 13 <= b.began[0] - died <= 18


@virtual_time
async def test_without_an_answer_the_work_ends_before_the_lease_does() -> None:
    """The API server hangs: it answers neither, and then only after each has given up."""
    api = servers()
    async with candidates(api, "a", "b") as (a, b):
        await asyncio.sleep(30)
        api.faults.latency = 300.0
        hung = elapsed()
        await until(lambda: a.ended, timeout=60)
        assert a.aborted[0] - hung <= 10
        assert not a.election.leads()
        api.faults.latency = 0.0
        await until(lambda: len(a.began) == 2 or b.began, timeout=60)
        assert (len(a.began) == 2) != bool(b.began), "one of them leads again"


@virtual_time
async def test_after_an_outage_one_leads_again() -> None:
    api = servers()
    async with candidates(api, "a", "b") as (a, b):
        await asyncio.sleep(30)
        api.faults.down = True
        await asyncio.sleep(300)
        assert [a.election.leads(), b.election.leads()] == [False, False]
        api.faults.down = False
        await asyncio.sleep(30)
        assert [a.election.leads(), b.election.leads()].count(True) == 1
        assert holder(api) == ("a" if a.election.leads() else "b")


@virtual_time
async def test_a_brief_outage_changes_nothing() -> None:
    api = servers()
    async with candidates(api, "a", "b") as (a, b):
        await asyncio.sleep(30)
        api.faults.down = True
        await asyncio.sleep(7)
        api.faults.down = False
        await asyncio.sleep(60)
        assert (len(a.began), a.aborted, b.began) == (1, [], [])


@virtual_time
async def test_a_lost_answer_changes_nothing() -> None:
    api = servers()
    async with candidates(api, "a", "b") as (a, b):
        api.faults.lose_response(verb="patch", resource="leases", times=3)
        await asyncio.sleep(60)
        assert (len(a.began), a.aborted, b.began) == (1, [], [])


@virtual_time
async def test_a_lease_taken_away_ends_the_work_at_the_next_renewal() -> None:
    api = servers()
    async with candidates(api, "a") as (a,):
        await asyncio.sleep(30)
        stolen = {"holderIdentity": "other", "leaseDurationSeconds": 30}
        api.update(LEASE, NAMESPACE, NAME, lambda obj: {**obj, "spec": stolen})
        taken = elapsed()
        await until(lambda: a.ended)
        assert a.aborted[0] - taken <= 2.5
        await until(lambda: len(a.began) == 2, timeout=60)
        assert a.began[1] - taken >= 30, "the other has its time"


@virtual_time
async def test_a_deleted_lease_is_made_again() -> None:
    api = servers()
    async with candidates(api, "a", "b") as (a, b):
        await asyncio.sleep(30)
        api.delete(LEASE, NAMESPACE, NAME)
        await asyncio.sleep(30)
        assert [a.election.leads(), b.election.leads()].count(True) == 1


@pytest.mark.parametrize("year", ["1999", "2999"])
@virtual_time
async def test_clocks_may_differ(year: str) -> None:
    """The time in the Lease of another is not compared with ours: it is waited for, from now on, in full."""
    api = servers()
    spec = {"holderIdentity": "gone", "leaseDurationSeconds": 15, "renewTime": f"{year}-01-01T00:00:00.000000Z"}
    api.create(LEASE, {"metadata": {"namespace": NAMESPACE, "name": NAME}, "spec": spec})
    started = elapsed()
    candidate = Candidate(api, "a")
    await until(lambda: candidate.began, timeout=60)
    assert candidate.began[0] - started == pytest.approx(15, abs=1)
    await cancel(candidate.task)


@virtual_time
async def test_foreign_fields_of_the_lease_stay() -> None:
    api = servers()
    metadata = {"namespace": NAMESPACE, "name": NAME, "labels": {"team": "x"}}
    api.create(LEASE, {"metadata": metadata, "spec": {"holderIdentity": "", "strategy": "OldestEmulationVersion"}})
    async with candidates(api, "a"):
        await asyncio.sleep(10)
        assert lease(api)["metadata"]["labels"] == {"team": "x"}
        assert lease(api)["spec"]["strategy"] == "OldestEmulationVersion"


@virtual_time
async def test_who_does_not_lead_writes_nothing() -> None:
    api = servers()
    async with candidates(api, "a", "b") as (a, b):
        await a.client.create(WIDGETS, widget("by-a"))
        with pytest.raises(ApiError) as refused:
            await b.client.create(WIDGETS, widget("by-b"))
        assert (refused.value.reason, refused.value.not_sent) == (NOT_LEADING, True)
        assert await b.client.get(WIDGETS, "default", "by-a"), "it may read"
        api.faults.down = True
        await asyncio.sleep(10.5)
        api.faults.down = False
        with pytest.raises(ApiError, match=NOT_LEADING):
            await a.client.create(WIDGETS, widget("late"))


@virtual_time
async def test_a_write_that_waits_to_be_repeated_is_not_sent_after_the_end() -> None:
    api = servers()
    async with candidates(api, "a") as (a,):
        api.faults.refuse(429, "TooManyRequests", verb="create", resource="widgets", retry_after=9, times=None)
        api.faults.reset(verb="patch", resource="leases", times=None)
        with pytest.raises(ApiError, match=NOT_LEADING):
            await a.client.create(WIDGETS, widget("late"))
        assert not api.objects(WIDGETS)


@virtual_time
async def test_an_error_of_the_work_ends_the_process_and_frees_the_lease() -> None:
    api = servers()
    election = Election(api.client(), NAMESPACE, NAME, "a")

    async def failing() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await election.run(failing, lambda: None)
    assert holder(api) == ""


@virtual_time
async def test_two_dozen_candidates_have_one_leader() -> None:
    api = servers()
    made = [Candidate(api, f"c{index}") for index in range(24)]
    for _ in range(20):
        await asyncio.sleep(20)
        leaders = [candidate for candidate in made if candidate.election.leads()]
        assert len(leaders) == 1
        made.remove(leaders[0])
        await cancel(leaders[0].task)
    await cancel(*(candidate.task for candidate in made))
    await settle()


@virtual_time
async def test_a_missing_namespace_or_permission_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    api = servers()
    fault = api.faults.refuse(403, "Forbidden", resource="leases", times=None)
    with caplog.at_level("INFO"):
        candidate = Candidate(api, "a")
        await asyncio.sleep(60)
    assert not candidate.began
    assert sum("Leader election goes on" in text for text in caplog.messages) == 1
    api.faults.requests.remove(fault)
    await until(lambda: candidate.began)
    await cancel(candidate.task)
