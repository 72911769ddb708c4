"""The store: which news count, in whatever order they come."""

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.runtime.cache import Store
from tests.fake_api.seen import Seen


def seen(name: str, version: int, uid: str = "", **spec: Any) -> Seen:
    return Seen("default", name, uid or f"uid-{name}", version, spec)


def known(store: Store[Seen]) -> dict[str, int]:
    return {obj.name: obj.resource_version for obj in store}


@pytest.fixture
def store() -> Store[Seen]:
    return Store({"colour": lambda obj: obj.spec.get("colours", ())})


def test_put_takes_newer_versions_only(store: Store[Seen]) -> None:
    assert store.put(seen("a", 5))
    assert not store.put(seen("a", 5)), "the watch event of our own write changes nothing"
    assert not store.put(seen("a", 4))
    assert store.put(seen("a", 6))
    assert known(store) == {"a": 6}
    assert store.get("default", "a") == seen("a", 6)
    assert store.get("default", "b") is None


def test_a_removed_object_is_not_resurrected_by_a_late_answer(store: Store[Seen]) -> None:
    store.put(seen("a", 5))
    assert store.remove("default", "a", "uid-a", 7)
    assert not store.put(seen("a", 6))
    assert not store.put(seen("a", 7))
    assert len(store) == 0
    assert store.put(seen("a", 8)), "an object that comes back into a label selection is newer"


def test_a_removal_seen_before_the_object_counts(store: Store[Seen]) -> None:
    assert not store.remove("default", "a", "uid-a", 7)
    assert not store.put(seen("a", 6)), "the answer to our create came after the whole life of the object"


def test_removal_for_good(store: Store[Seen]) -> None:
    store.put(seen("a", 5))
    assert store.remove("default", "a", "uid-a")
    assert not store.put(seen("a", 10**9))
    assert store.put(seen("a", 8, uid="another")), "another object may take the name"


def test_a_removal_older_than_the_object_or_of_another_uid_is_ignored(store: Store[Seen]) -> None:
    store.put(seen("a", 9))
    assert not store.remove("default", "a", "uid-a", 8)
    assert not store.remove("default", "a", "another", 20)
    assert known(store) == {"a": 9}


def test_a_new_object_under_the_same_name(store: Store[Seen]) -> None:
    changes: list[tuple[Seen | None, Seen | None]] = []
    store.put(seen("a", 5, uid="old"))
    store.on_change(lambda old, new: changes.append((old, new)))
    assert not store.put(seen("a", 4, uid="older"))
    assert store.put(seen("a", 8, uid="new"))
    assert changes == [(seen("a", 5, uid="old"), seen("a", 8, uid="new"))]
    assert not store.put(seen("a", 7, uid="old"))
    assert not store.remove("default", "a", "old", 8), "the late removal of the old one leaves the new one"
    assert known(store) == {"a": 8}


def test_the_object_that_was_replaced_does_not_come_back_after_the_end_of_the_new_one(store: Store[Seen]) -> None:
    store.put(seen("a", 5, uid="old"))
    store.put(seen("a", 8, uid="new"))
    store.remove("default", "a", "new", 9)
    assert not store.put(seen("a", 7, uid="old"))
    assert len(store) == 0


def test_replace_removes_what_the_list_lacks_but_no_newer_write(store: Store[Seen]) -> None:
    for obj in (seen("gone", 5), seen("stays", 6), seen("unreadable", 6), seen("newer", 21)):
        store.put(obj)
    assert not store.synced.is_set()
    store.replace([seen("stays", 6), seen("fresh", 19)], 20, keep={("default", "unreadable")})
    assert known(store) == {"stays": 6, "unreadable": 6, "newer": 21, "fresh": 19}
    assert store.synced.is_set()
    assert not store.put(seen("gone", 20))
    assert not store.put(seen("never-seen", 18)), "created and deleted before the list"
    assert store.put(seen("later", 21))


def test_replace_after_a_restore_from_backup_starts_over(store: Store[Seen]) -> None:
    store.replace([seen("a", 1000), seen("b", 1001)], 2000)
    store.remove("default", "c", "uid-c", 1500)
    store.replace([seen("a", 500), seen("c", 501)], 900)
    assert known(store) == {"a": 500, "c": 501}


def test_clear_forgets_and_tells(store: Store[Seen]) -> None:
    gone: list[str] = []
    store.put(seen("a", 1))
    store.put(seen("b", 2))
    store.on_change(lambda old, new: gone.append(old.name) if old and not new else None)
    store.clear()
    assert sorted(gone) == ["a", "b"]
    assert len(store) == 0
    assert store.synced.is_set()


def test_indexes_follow_the_objects(store: Store[Seen]) -> None:
    store.put(seen("a", 1, colours=["red", "blue"]))
    store.put(seen("b", 2, colours=["red"]))
    assert [obj.name for obj in store.by_index("colour", "red")] == ["a", "b"]
    store.put(seen("a", 3, colours=["blue", "green"]))
    assert [obj.name for obj in store.by_index("colour", "red")] == ["b"]
    assert store.by_index("colour", "blue") == [seen("a", 3, colours=["blue", "green"])]
    store.remove("default", "b", "uid-b", 9)
    assert store.by_index("colour", "red") == []
    with pytest.raises(KeyError):
        store.by_index("size", "red")


def test_an_index_keeps_no_empty_buckets(store: Store[Seen]) -> None:
    for number in range(100):
        store.put(seen("a", number + 1, colours=[number]))
    store.remove("default", "a", "uid-a", 200)
    assert store._indexes == {"colour": {}}


def test_subscribers_see_the_changed_store_and_may_fail(store: Store[Seen], caplog: pytest.LogCaptureFixture) -> None:
    found: list[int] = []

    def failing(old: Seen | None, new: Seen | None) -> None:
        raise RuntimeError("on purpose")

    store.on_change(failing)
    store.on_change(lambda old, new: found.append(len(store)))
    store.put(seen("a", 1))
    store.put(seen("a", 1))
    store.remove("default", "a", "uid-a", 2)
    assert found == [1, 0]
    assert len(caplog.records) == 2


def test_iteration_survives_changes(store: Store[Seen]) -> None:
    for name in "abc":
        store.put(seen(name, 1))
    for obj in store:
        store.remove("default", obj.name, obj.uid, 5)
    assert len(store) == 0


def test_tombstones_are_bounded(store: Store[Seen]) -> None:
    for number in range(store.TOMBSTONES + 10):
        store.remove("default", "a", f"uid-{number}", number)
    assert len(store._tombstones) == store.TOMBSTONES


async def test_wait_synced(store: Store[Seen]) -> None:
    waiter = asyncio.ensure_future(store.wait_synced())
    await asyncio.sleep(0)
    assert not waiter.done()
    store.replace([], 1)
    await asyncio.wait_for(waiter, 10)


# The life of one name: created at 1, changed at 2, deleted at 3, created again (new uid) at 4, changed at 5. The watch
# tells in order; answers to writes carry versions 1, 2, 4 and 5 and may come at any moment.
_WATCH: list[tuple[str, int, str]] = [
    ("put", 1, "first"),
    ("put", 2, "first"),
    ("remove", 3, "first"),
    ("put", 4, "second"),
    ("put", 5, "second"),
]


@given(st.lists(st.integers(0, 5), min_size=4, max_size=4))
def test_late_answers_never_change_the_outcome(places: list[int]) -> None:
    answers = [(version, uid) for kind, version, uid in _WATCH if kind == "put"]
    store: Store[Seen] = Store()
    for step in range(len(_WATCH) + 1):
        for place, (version, uid) in zip(places, answers, strict=True):
            if place == step and version <= step + 1:
                store.put(seen("a", version, uid=uid))
        if step < len(_WATCH):
            kind, version, uid = _WATCH[step]
            if kind == "put":
                store.put(seen("a", version, uid=uid))
            else:
                store.remove("default", "a", uid, version)
            current = store.get("default", "a")
            assert current is None or current.resource_version >= version
            assert current is None or version < 3 or current.uid == "second", "the first object never comes back"
    assert store.get("default", "a") == seen("a", 5, uid="second")


def test_every_order_of_two_writers_converges() -> None:
    news = [seen("a", 1), seen("a", 2), seen("a", 3)]
    for order in itertools.permutations(news):
        store: Store[Seen] = Store()
        for obj in order:
            store.put(obj)
        assert known(store) == {"a": 3}
