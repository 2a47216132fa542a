#!/usr/bin/env python
"""Stands in for spark-submit where a test needs Spark to fail in a given way, or not to take half a minute.

``STAND_IN`` names what happens; every call is recorded in ``STAND_IN_CALLS`` with the properties file it was given.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from airflow_iceberg_compaction.documents import Law, Plan, RunResult, StepResult

HELD = Law(name="rows", scope="batch b-1", before=10, after=10, verdict="held", checked="before_publish")
VIOLATED = Law(name="rows", scope="batch b-1", before=10, after=9, verdict="violated", checked="before_publish")


def main() -> int:
    arguments = sys.argv[1:]
    mode = os.environ["STAND_IN"]
    properties = Path(_value(arguments, "--properties-file"))
    with Path(os.environ["STAND_IN_CALLS"]).open("a") as calls:
        call = {"argv": arguments, "properties": properties.read_text(), "mode": oct(properties.stat().st_mode & 0o777)}
        calls.write(json.dumps(call | {"properties_file": str(properties)}) + "\n")
    plan = Plan.from_json(Path(_value(arguments, "--plan")).read_text())
    sections = [arguments[i + 1] for i, argument in enumerate(arguments) if argument == "--section"]
    result_path = Path(_value(arguments, "--result"))
    if mode == "crash":
        print('Exception in thread "main" java.lang.OutOfMemoryError: Java heap space')
        return 1
    if mode == "no result":
        return 0
    if mode == "hang":
        time.sleep(600)
    steps = [_step(section, mode) for section in sections]
    result = RunResult(
        run_id=plan.run_id,
        catalog=plan.catalog,
        table=plan.table,
        started_at_ms=int(time.time() * 1000),
        finished_at_ms=int(time.time() * 1000),
        application_id="local-1",
        steps=tuple(steps),
    )
    text = result.to_json()
    result_path.parent.mkdir(parents=True, exist_ok=True)
    result_path.write_text(text[: len(text) // 2] if mode == "truncated" else text)
    if mode == "ok, then the catalog is gone":
        Path(os.environ["STAND_IN_CATALOG"]).rename(os.environ["STAND_IN_CATALOG"] + ".gone")
    return {"fail": 1, "fail in expire": 1, "violated": 1, "conflict": 4}.get(mode, 0)


def _step(section: str, mode: str) -> StepResult:
    outcome, reason, laws = "succeeded", f"{section} done", (HELD,)
    if mode == "fail" or mode == f"fail in {section}":
        outcome, reason = "failed", "no space left on device"
    elif mode == "conflict":
        outcome, reason = "conflicted", "another writer won 3 times"
    elif mode == "violated":
        outcome, reason, laws = "failed", "a law is violated", (VIOLATED,)
    elif mode == "no certificate":
        laws = ()
    numbers = {"files_compacted": 25, "files_added": 1} if section == "rewrite" and outcome == "succeeded" else {}
    return StepResult(section=section, outcome=outcome, reason=reason, laws=laws, snapshots=(1,), numbers=numbers)


def _value(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


if __name__ == "__main__":
    sys.exit(main())
