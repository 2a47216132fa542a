from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

import pyarrow as pa
import pytest

from airflow_iceberg_compaction.policy.model import Catalog
from airflow_iceberg_compaction.triggers.iceberg_health import IcebergHealthTrigger, may_need_work
from airflow_iceberg_compaction.triggers.iceberg_snapshot import IcebergCommitTrigger
from airflow_iceberg_compaction.triggers.probe import TableProbe, probe_arguments

SCHEMA = pa.schema([("id", pa.int64())])
NEVER = time.time() + 3600


@pytest.fixture
def table(catalog, namespace):
    return catalog.create_table(f"{namespace}.t", SCHEMA)


@pytest.fixture
def probe(lake, namespace):
    return {
        "table": f"{namespace}.t",
        "catalog_name": lake.name,
        "iceberg_conn_id": None,
        "properties": dict(lake.properties),
    }


def append(table, files=1):
    for number in range(files):
        table.append(pa.table({"id": [number]}))


async def first_event(trigger, seconds=10.0):
    async with aclosing(trigger.run()) as events:
        try:
            return (await asyncio.wait_for(anext(events), seconds)).payload
        except TimeoutError:
            return None


def a_health_trigger(probe, **changes):
    arguments = {"judged_snapshot_id": None, "min_small_files": 3, "recheck_at": NEVER, "deadline": NEVER}
    arguments |= {"poll_interval": 0.02}
    return IcebergHealthTrigger(probe=probe, **{**arguments, **changes})


def test_a_new_head_with_enough_files_wakes_the_sensor(table, probe):
    append(table, 3)
    event = asyncio.run(first_event(a_health_trigger(probe)))
    assert event == {"status": "changed", "deadline": NEVER}


def test_the_snapshot_that_was_judged_is_passed_over_in_silence(table, probe):
    append(table, 3)
    judged = table.current_snapshot().snapshot_id
    assert asyncio.run(first_event(a_health_trigger(probe, judged_snapshot_id=judged), 0.5)) is None


def test_a_head_that_cannot_hold_a_sick_partition_wakes_nobody(table, probe):
    append(table, 2)
    assert asyncio.run(first_event(a_health_trigger(probe), 0.5)) is None


def test_work_that_falls_due_by_the_clock_is_looked_for_in_time(table, probe):
    assert asyncio.run(first_event(a_health_trigger(probe, recheck_at=time.time() - 1))) == {
        "status": "recheck",
        "deadline": NEVER,
    }


def test_a_catalog_that_stays_dead_fails_the_trigger(probe):
    dead = {**probe, "properties": {"type": "rest", "uri": "http://127.0.0.1:9"}}
    with pytest.raises(Exception, match="does not answer"):
        asyncio.run(first_event(a_health_trigger(dead, max_failures=2), 60))


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ({"total-data-files": "2", "total-delete-files": "0"}, False),
        ({"total-data-files": "3", "total-delete-files": "0"}, True),
        ({"total-data-files": "1", "total-delete-files": "1"}, True),
        ({"total-data-files": "1"}, True),
        ({}, True),
    ],
)
def test_totals_that_are_absent_are_not_zero(summary, expected):
    assert may_need_work(summary, 3) is expected


@pytest.mark.parametrize("kind", [IcebergHealthTrigger, IcebergCommitTrigger])
def test_a_trigger_survives_the_trip_through_the_database(kind, probe):
    import json

    trigger = a_health_trigger(probe) if kind is IcebergHealthTrigger else IcebergCommitTrigger(probe=probe)
    path, arguments = trigger.serialize()
    assert path == f"{kind.__module__}.{kind.__name__}"
    assert kind(**json.loads(json.dumps(arguments))).serialize() == trigger.serialize()


def test_polling_never_blocks_the_event_loop(table, probe):
    append(table, 1)

    async def longest_pause():
        trigger = a_health_trigger(probe, min_small_files=100, poll_interval=0.01)
        polling = asyncio.create_task(first_event(trigger, 3))
        await asyncio.sleep(1)  # the first poll imports PyIceberg
        longest, last = 0.0, time.monotonic()
        while time.monotonic() - last < 1 and not polling.done():
            before = time.monotonic()
            await asyncio.sleep(0.005)
            longest = max(longest, time.monotonic() - before)
            if time.monotonic() - last > 0.9:
                break
        polling.cancel()
        return longest

    # A poll that ran on the loop would hold it for its whole length, every time; a thread only shares the interpreter.
    assert asyncio.run(longest_pause()) < 0.5


def test_polls_share_one_catalog_client(table, probe):
    found = TableProbe(**probe)

    async def clients():
        await found.load()
        first = found._catalog
        await found.load()
        return first, found._catalog

    first, second = asyncio.run(clients())
    assert first is second


class AssetStore(dict):
    def set(self, key, value):
        self[key] = value


def a_commit_trigger(probe, seen=None):
    trigger = IcebergCommitTrigger(probe=probe, poll_interval=0.02)
    trigger.asset_state_store = AssetStore({} if seen is None else {"snapshot_id": seen})
    return trigger


def test_a_commit_of_another_engine_is_an_event(table, probe):
    append(table)
    seen = table.current_snapshot().snapshot_id
    append(table)
    event = asyncio.run(first_event(a_commit_trigger(probe, seen)))
    assert event["snapshot_id"] == table.current_snapshot().snapshot_id
    assert event["previous_snapshot_id"] == seen
    assert event["operation"] == "append"


def test_what_is_there_when_watching_begins_is_no_news(table, probe):
    append(table)
    trigger = a_commit_trigger(probe)
    assert asyncio.run(first_event(trigger, 1.0)) is None
    assert trigger.asset_state_store["snapshot_id"] == table.current_snapshot().snapshot_id


def test_a_maintenance_run_never_triggers_itself(table, probe):
    append(table)
    seen = table.current_snapshot().snapshot_id
    table.append(pa.table({"id": [9]}), snapshot_properties={"iceberg-compaction.run-id": "r"})
    assert asyncio.run(first_event(a_commit_trigger(probe, seen), 1.0)) is None


def test_a_commit_hidden_below_a_maintenance_commit_is_still_an_event(table, probe):
    append(table)
    seen = table.current_snapshot().snapshot_id
    append(table)
    foreign = table.current_snapshot().snapshot_id
    table.append(pa.table({"id": [9]}), snapshot_properties={"iceberg-compaction.run-id": "r"})
    assert asyncio.run(first_event(a_commit_trigger(probe, seen)))["snapshot_id"] == foreign


def test_a_watcher_waits_for_a_table_that_does_not_exist_yet(probe):
    missing = {**probe, "table": "nowhere.t"}
    assert asyncio.run(first_event(a_commit_trigger(missing), 0.5)) is None


def test_properties_with_secrets_are_not_stored_with_a_trigger(policy):
    properties = {"type": "rest", "uri": "http://c", "token": "very-secret"}
    secret = policy.model_copy(
        update={"catalog": Catalog.model_construct(name="lake", conn_id=None, properties=properties)}
    )
    assert probe_arguments(secret, "shop.events") is None
    assert probe_arguments(policy, "shop.events")["iceberg_conn_id"] == "iceberg_default"
