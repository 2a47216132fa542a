from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from random_tables import Iceberg

from airflow_iceberg_compaction.health.model import RefInfo, SnapshotInfo
from airflow_iceberg_compaction.plan.retention import expired_snapshots

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000
LOGS = 150


def test_the_expired_snapshots_are_those_that_iceberg_expires(iceberg: Iceberg, namespace: str, tmp_path: Path) -> None:
    """Random logs with branches, tags and loose snapshots; Iceberg's own expireSnapshots().apply() decides."""
    iceberg.spark.sql(f"CREATE TABLE lake.{namespace}.seed (id BIGINT) USING iceberg")
    seed = json.loads(Path(_path(iceberg.load(f"{namespace}.seed").operations().current())).read_text())
    expired = kept = 0
    for number in range(LOGS):
        choose = random.Random(number)
        now_ms = int(time.time() * 1000)
        snapshots, refs, properties = random_log(choose, now_ms)
        file = tmp_path / f"{number}.metadata.json"
        file.write_text(json.dumps(metadata(seed, snapshots, refs, properties)))
        table = iceberg.catalog.registerTable(iceberg.identifier(f"{namespace}.t{number}"), f"file:{file}")
        older_than_ms, retain_last = now_ms - choose.randint(0, 40) * HOUR_MS, choose.randint(1, 4)
        theirs = table.expireSnapshots().expireOlderThan(older_than_ms).retainLast(retain_last).apply()
        ours = expired_snapshots(
            snapshots, refs, properties, older_than_ms=older_than_ms, retain_last=retain_last, now_ms=now_ms
        )
        assert set(ours) == {snapshot.snapshotId() for snapshot in theirs}, number
        expired += len(ours)
        kept += len(snapshots) - len(ours)
    assert expired > LOGS
    assert kept > LOGS


def random_log(choose: random.Random, now_ms: int) -> tuple[list[SnapshotInfo], list[RefInfo], Mapping[str, str]]:
    """Ages are odd half hours, so that the moment of the call makes no difference."""
    count = choose.randint(1, 12)
    ages = sorted((choose.randint(0, 40) * HOUR_MS + HOUR_MS // 2 for _ in range(count)), reverse=True)
    snapshots = [
        SnapshotInfo(
            snapshot_id=number,
            parent_id=choose.choice([None, *range(1, number)]) if choose.random() < 0.3 else (number - 1 or None),
            timestamp_ms=now_ms - age,
            operation="append",
        )
        for number, age in enumerate(ages, start=1)
    ]
    refs = [_ref("main", "branch", count, choose)]
    for number in range(choose.randint(0, 3)):
        refs.append(_ref(f"ref{number}", choose.choice(("branch", "tag")), choose.randint(1, count), choose))
    properties = {"history.expire.max-ref-age-ms": str(20 * HOUR_MS)} if choose.random() < 0.3 else {}
    return snapshots, refs, properties


def _ref(name: str, kind: str, snapshot_id: int, choose: random.Random) -> RefInfo:
    def maybe(low: int, high: int, unit: int = 1) -> int | None:
        return choose.randint(low, high) * unit if choose.random() < 0.4 else None

    return RefInfo(
        name=name,
        type=kind,
        snapshot_id=snapshot_id,
        max_ref_age_ms=None if name == "main" else maybe(1, 40, HOUR_MS),
        max_snapshot_age_ms=maybe(1, 40, HOUR_MS) if kind == "branch" else None,
        min_snapshots_to_keep=maybe(1, 5) if kind == "branch" else None,
    )


def metadata(
    seed: dict[str, Any], snapshots: list[SnapshotInfo], refs: list[RefInfo], properties: Mapping[str, str]
) -> dict[str, Any]:
    """The seed table's metadata with another history."""
    written_refs = {}
    for ref in refs:
        written = {
            "snapshot-id": ref.snapshot_id,
            "type": ref.type,
            "max-ref-age-ms": ref.max_ref_age_ms,
            "max-snapshot-age-ms": ref.max_snapshot_age_ms,
            "min-snapshots-to-keep": ref.min_snapshots_to_keep,
        }
        written_refs[ref.name] = {key: value for key, value in written.items() if value is not None}
    return seed | {
        "last-sequence-number": len(snapshots),
        "last-updated-ms": snapshots[-1].timestamp_ms,
        "current-snapshot-id": snapshots[-1].snapshot_id,
        "properties": dict(properties),
        "refs": written_refs,
        "snapshots": [
            {
                "snapshot-id": s.snapshot_id,
                **({} if s.parent_id is None else {"parent-snapshot-id": s.parent_id}),
                "sequence-number": s.snapshot_id,
                "timestamp-ms": s.timestamp_ms,
                "manifest-list": f"file:/nowhere/{s.snapshot_id}.avro",
                "summary": {"operation": "append"},
                "schema-id": 0,
            }
            for s in snapshots
        ],
        "snapshot-log": [{"snapshot-id": s.snapshot_id, "timestamp-ms": s.timestamp_ms} for s in snapshots],
        "metadata-log": [],
    }


def _path(table_metadata: Any) -> str:
    return "/" + str(table_metadata.metadataFileLocation()).removeprefix("file:").lstrip("/")
