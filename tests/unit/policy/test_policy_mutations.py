"""Ten thousand damaged policies: never a traceback, never an unknown key let through, every position inside the file."""

from __future__ import annotations

import copy
import itertools
import random
import re
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_iceberg_compaction.policy.errors import PolicyError
from airflow_iceberg_compaction.policy.loader import load_policy, load_policy_isolated
from airflow_iceberg_compaction.policy.messages import known_keys
from airflow_iceberg_compaction.policy.model import PolicyFile, Profile, TableEntry

BASE = """\
version: 1
catalog:
  name: lake
  properties: {type: rest, uri: "https://host/${PATH_PART:-x}", credential: "${CREDENTIAL}"}
spark: {conn_id: spark_default, conf: {spark.executor.memory: 4g}, executor_cores: 2, share_app: false}
documents: s3://bucket/documents
history: maintenance.history
prices: {per_compute_hour: 0.4, throughput: 50MB}
profile: nightly
profiles:
  nightly: {extends: staging, thresholds: {min_small_files: 7}}
defaults:
  schedule: "0 2 * * *"
  thresholds: {small_file_size: 96MB, delete_files: 10, delete_ratio: 10%}
  rewrite: {strategy: binpack, target_file_size: 128MB, max_files: 10000, max_cost: 10.0, min_quiet: 90m}
  expire_snapshots: {older_than: 7d, retain_last: 5}
  orphan_files: {mode: report, older_than: 7d}
  report: {slack: {channel: "#data-ops", when: worked}}
tables:
  - name: shop.events
    rewrite: {strategy: sort, sort_order: [event_ts, user_id desc nulls last]}
    tags: [a, b]
    manifests: {enabled: true}
  - name: shop.users
    schedule: {cron: "0 4 * * *", timezone: Europe/Oslo}
    probe: SELECT count(*) FROM lake.shop.users
    write_properties: {write.target-file-size-bytes: 256MB}
    report: {slack: {when: failed}}
"""
ENVIRONMENT = {"CREDENTIAL": "id:secret"}
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
ROUNDS = 2500  # of each of the four kinds of mutation

# fmt: off
ODD: list[Any] = [
    None, True, 0, -1, 3, 1.5, 10**30, -(10**400), "", "x", "é", "🦆", "7", "7days", "96M", "0x1", "1e999", ".nan", "\t", "a\nb",
    [], [1], {}, {"a": 1}, [[]], [None], {"name": None}, "${X}", "${CREDENTIAL}", "*", "shop.*",
]
WRONG = [
    "{n}", "{n}M", "{n}mb", "{n} days", "-{n}MB", "-{n}d", "{n}MBx", "{n}e3MB", "{n}T", "much", "~{n}d", "0x{n}MB", "0B",
    "{n}y", "'{n}'", "{n}.{n}", "9" * 30 + "MB", "9" * 500 + "d", "{n}µs", "{n}MB {n}MB", "{{}}", "[{n}MB]",
]
# fmt: on

Path_ = tuple[str | int, ...]
# Keys below these are the user's own words.
FREE = {("catalog", "properties"), ("spark", "conf"), ("profiles",)}


@pytest.fixture
def judge(tmp_path: Path) -> Callable[[str], PolicyError | None]:
    """Load a text both ways; None if it was accepted. Whatever else happens is a failure of the test."""
    path = tmp_path / "policy.yaml"
    rounds = itertools.count()

    def load(text: str) -> PolicyError | None:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        found: PolicyError | None = None
        try:
            load_policy(path, environment=ENVIRONMENT)
        except PolicyError as error:
            found = error
            _check_positions(text, error)
        if next(rounds) % 4:  # the second way shares most of its code with the first
            return found
        try:
            _, errors = load_policy_isolated(path, environment=ENVIRONMENT)
            assert bool(errors) == (found is not None), "both ways of loading agree on whether something is wrong"
        except PolicyError as error:
            assert found is not None
            _check_positions(text, error)
        return found

    return load


def _check_positions(text: str, error: PolicyError) -> None:
    lines = re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff"))
    assert error.problems
    for problem in error.problems:
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
        assert problem.message
        assert problem.advice
        assert str(problem)


def test_the_undamaged_policy_is_valid(judge: Callable[[str], PolicyError | None]) -> None:
    assert judge(BASE) is None


def test_no_damage_to_the_text_gets_past_as_anything_but_an_error_with_a_place(
    judge: Callable[[str], PolicyError | None],
) -> None:
    chance = random.Random(5)
    for _ in range(ROUNDS):
        text = BASE
        for _ in range(chance.randint(1, 4)):
            text = _damage(text, chance)
        judge(text)


def test_no_misspelt_key_is_ever_accepted(judge: Callable[[str], PolicyError | None]) -> None:
    chance = random.Random(6)
    base = yaml.safe_load(BASE)
    paths = [path for path, _ in _walk(base) if isinstance(path[-1], str) and not _is_free(path)]
    for _ in range(ROUNDS):
        document = copy.deepcopy(base)
        path = chance.choice(paths)
        key = _misspell(str(path[-1]), chance)
        if key in _known(path[:-1]) or key == "":
            continue
        holder = _at(document, path[:-1])
        holder[key] = holder.pop(path[-1])
        error = judge(yaml.dump(document, Dumper=DUMPER, sort_keys=False, allow_unicode=True))
        assert error is not None, f"{key!r} in place of {path} was accepted"
        assert any(problem.message.startswith("unknown key") for problem in error.problems), (path, key, str(error))


def test_no_value_of_another_type_gets_past_as_a_traceback(judge: Callable[[str], PolicyError | None]) -> None:
    chance = random.Random(7)
    base = yaml.safe_load(BASE)
    paths = [path for path, _ in _walk(base)]
    for _ in range(ROUNDS):
        document = copy.deepcopy(base)
        for _ in range(chance.randint(1, 3)):
            path = chance.choice(paths)
            holder = _at(document, path[:-1])
            if isinstance(holder, dict) or (isinstance(holder, list) and path[-1] in range(len(holder))):
                holder[path[-1]] = copy.deepcopy(chance.choice(ODD))
        judge(
            yaml.safe_dump(
                document, sort_keys=False, allow_unicode=True, default_flow_style=chance.choice([None, True])
            )
        )


def test_no_wrong_unit_or_number_is_accepted(judge: Callable[[str], PolicyError | None]) -> None:
    chance = random.Random(8)
    typed = re.compile(r"(?<=: )(96MB|128MB|50MB|90m|7d)(?=[,}\n])")
    places = list(typed.finditer(BASE))
    for _ in range(ROUNDS):
        place = chance.choice(places)
        number = re.sub(r"\D", "", place[0])
        wrong = chance.choice(WRONG).format(n=number + chance.choice(["", "0", "00"]))
        error = judge(BASE[: place.start()] + wrong + BASE[place.end() :])
        assert error is not None, f"{wrong!r} in place of {place[0]} was accepted"
        assert len(error.problems) == 1


def _damage(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    kind = chance.randrange(8)
    if kind == 0:
        return text[:at]
    if kind == 1:
        return text[:at] + text[at + chance.randint(1, 20) :]
    if kind == 2:
        return (
            text[:at] + chance.choice("\t:{}[]&*!|>'\"%@`é\u2028\x00\x07\ufeff\x85🦆-#,\n\r ${}<?~\ud800") + text[at:]
        )
    if kind == 3:
        return text[:at] + chance.choice(["[", "{a: ", "- ", "  "]) * chance.randint(1, 200) + text[at:]
    if kind == 4:
        return text[:at] + "9" * chance.randint(1, 5000) + text[at:]
    lines = text.split("\n")
    line = chance.randrange(len(lines))
    if kind == 5:
        lines.insert(line, lines[chance.randrange(len(lines))])
    elif kind == 6:
        lines[line] = chance.choice(["  ", " ", "\t", ""]) + lines[line].lstrip()
    else:
        del lines[line]
    return "\n".join(lines)


def _misspell(key: str, chance: random.Random) -> str:
    at = chance.randrange(len(key))
    letter = chance.choice(string.ascii_lowercase + "_-é ")
    return chance.choice(
        [
            key[:at] + key[at + 1 :],
            key[:at] + letter + key[at:],
            key[:at] + letter + key[at + 1 :],
            key[:at] + key[at : at + 2][::-1] + key[at + 2 :],
            key.upper(),
            key.replace("_", "-"),
            key.replace("_", ""),
            key + "s",
        ]
    )


def _walk(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key), child
        yield from _walk(child, (*path, key))


def _is_free(path: Path_) -> bool:
    return path[:-1] in FREE or path[-2:-1] == ("write_properties",)


def _known(path: Path_) -> list[str]:
    if path[:1] == ("tables",) and len(path) > 1:
        return known_keys(TableEntry, path[2:])
    if path[:1] == ("profiles",) and len(path) > 1:
        return known_keys(Profile, path[2:])
    return known_keys(PolicyFile, path)


def _at(document: Any, path: Path_) -> Any:
    for step in path:
        if not isinstance(document, dict | list):
            return None
        try:
            document = document[step]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return None
    return document
