"""``iceberg-compaction tables``: what the name patterns of a policy match, and the companion file that lists it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.cli import common

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from pyiceberg.catalog import Catalog


def configure(parser: argparse.ArgumentParser) -> None:
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="list them in the policy's companion file, for Airflow")
    action.add_argument("--check", action="store_true", help="exit with 1 if the companion file is out of date")
    common.add_policy_argument(parser)
    common.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    from airflow_iceberg_compaction.policy.loader import load_patterns
    from airflow_iceberg_compaction.policy.model import Policy
    from airflow_iceberg_compaction.policy.names import companion_path, companion_text, matching

    path = common.find_policy(args.policy)
    catalog, patterns = load_patterns(path)
    listed: dict[str, list[str]] = {}
    if patterns:
        config = common.find_catalog(Policy(path=str(path), catalog=catalog))
        client = config.load()
        try:
            found = {pattern: list(_names(client, pattern)) for pattern in patterns}
        except Exception as error:
            raise config.unreachable(error) from error
        listed = {pattern: matching(_usable(found[pattern]), pattern, exclude) for pattern, exclude in patterns.items()}
    companion = companion_path(path)
    text = companion_text(path, listed)
    stale = bool(patterns) and (not companion.exists() or companion.read_text(encoding="utf-8") != text)
    if args.write and stale:
        _replace(companion, text)
    if args.json:
        print(json.dumps({"policy": str(path), "companion": str(companion), "stale": stale, "patterns": listed}))
    else:
        _print(listed, companion, stale=stale, written=args.write)
    return 1 if args.check and stale else 0


def _names(catalog: Catalog, pattern: str) -> Iterator[str]:
    """Names of all tables in the namespaces that a pattern can reach."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    from airflow_iceberg_compaction.policy.names import is_pattern

    namespace = tuple(pattern.split(".")[:-1])
    for found in [namespace] if not is_pattern(".".join(namespace)) else _namespaces(catalog, (), len(namespace)):
        try:
            yield from (".".join(identifier) for identifier in catalog.list_tables(found))
        except NoSuchNamespaceError:
            print(f"namespace {'.'.join(found)} does not exist in the catalog", file=sys.stderr)


def _namespaces(catalog: Catalog, parent: tuple[str, ...], depth: int) -> Iterator[tuple[str, ...]]:
    for namespace in catalog.list_namespaces(parent):
        if len(namespace) == depth:
            yield namespace
        elif len(namespace) == len(parent) + 1:
            yield from _namespaces(catalog, namespace, depth)


def _usable(names: Iterable[str]) -> Iterator[str]:
    from airflow_iceberg_compaction.policy.fields import check_table_name

    for name in names:
        try:
            yield check_table_name(name)
        except ValueError as error:
            print(f"left out: {error}", file=sys.stderr)


def _replace(companion: Path, text: str) -> None:
    draft = companion.with_name(f".{companion.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(companion)
    except OSError as error:
        raise common.UsageError(f"{companion} cannot be written ({error.strerror}); check the folder") from error
    finally:
        draft.unlink(missing_ok=True)


def _print(listed: dict[str, list[str]], companion: Path, *, stale: bool, written: bool) -> None:
    if not listed:
        print("the policy has no name patterns; its tables are listed in the file itself")
        return
    for pattern, names in listed.items():
        print(f"{pattern}: {len(names)} table{'' if len(names) == 1 else 's'}")
        for name in names:
            print(f"  {name}")
    if written:
        print(f"{companion}: {'written' if stale else 'is up to date'}")
    elif stale:
        print(f"{companion} is out of date; write it with --write")
