"""``iceberg-compaction health``: how healthy tables are, worst first, without starting anything."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.cli import common

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from pyiceberg.catalog import Catalog
    from rich.table import Table as RichTable

    from airflow_iceberg_compaction.catalog import CatalogConfig
    from airflow_iceberg_compaction.health.cache import ManifestCache
    from airflow_iceberg_compaction.health.model import TableHealth
    from airflow_iceberg_compaction.health.overview import Overview
    from airflow_iceberg_compaction.policy.model import TablePolicy

SHOWN_PARTITIONS = 20

# A bar for each power of two from 64 kB to 1 GB; what is smaller or larger goes to the ends.
FIRST_BUCKET, LAST_BUCKET = 16, 30
BARS = " ▁▂▃▄▅▆▇█"

COLOURS = {"cannot_judge": "magenta", "sick": "red", "debt": "yellow", "healthy": "green", "empty": "dim"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="namespace.name; every enabled table when left out")
    parser.add_argument("--partitions", action="store_true", help="list every partition, not only the worst")
    parser.add_argument("--branch", default="main", metavar="NAME", help="judge this branch (default: main)")
    parser.add_argument("--no-cache", action="store_true", help="read every manifest, even if it was read before")
    common.add_policy_argument(parser)
    common.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """0 when every table is healthy or empty, 1 when one is sick, in debt or cannot be judged."""
    from airflow_iceberg_compaction.health.overview import overview, to_dict, worst_first

    policy = common.load(args)
    tables = common.find_tables(policy, args.tables)
    config = common.find_catalog(policy)
    catalog = config.load()
    cache = None if args.no_cache else common.open_cache(policy)
    now_ms = time.time_ns() // 1_000_000
    found = []
    with _progress(len(tables)) as watch:
        for table in tables:
            health = _assess(config, catalog, table, args.branch, cache, now_ms, watch(table.name))
            found.append(overview(health, table, now_ms))
    found = worst_first(found)
    if args.json:
        limit = None if args.partitions else SHOWN_PARTITIONS
        print(json.dumps({"version": 1, "tables": [to_dict(one, limit) for one in found]}, ensure_ascii=False))
    else:
        console = common.stdout()
        console.print(_tables(found))
        for one in found:
            if one.partitions and (args.partitions or args.tables):
                console.print(_partitions(one, None if args.partitions else SHOWN_PARTITIONS, now_ms))
    return 1 if any(one.verdict not in ("healthy", "empty") for one in found) else 0


def _assess(
    config: CatalogConfig,
    catalog: Catalog,
    table: TablePolicy,
    branch: str,
    cache: ManifestCache | None,
    now_ms: int,
    progress: Callable[[int, int], None],
) -> TableHealth:
    """The health of one table; one that is not there must not hide the others."""
    from airflow_iceberg_compaction.catalog import TableNotFoundError
    from airflow_iceberg_compaction.health.assessment import assess
    from airflow_iceberg_compaction.health.model import TableHealth

    try:
        loaded = config.load_table(table.name, catalog)
    except TableNotFoundError as error:
        return TableHealth(
            catalog=config.name,
            table=table.name,
            table_uuid="",
            location="",
            format_version=0,
            snapshot_id=None,
            current_spec_id=0,
            judged_at_ms=now_ms,
            cannot_judge=str(error),
        )
    return assess(
        loaded,
        table,
        catalog_name=config.name,
        table_name=table.name,
        now_ms=now_ms,
        cache=cache,
        progress=progress,
        branch=branch,
    )


@contextlib.contextmanager
def _progress(tables: int) -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """A bar of tables and, for the one being read, of its manifests."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=common.stderr(), transient=True) as progress:
        all_tables = progress.add_task("tables", total=tables, visible=tables > 1)
        one_table = progress.add_task("", total=None, visible=False)
        started = 0

        def watch(name: str) -> Callable[[int, int], None]:
            nonlocal started
            progress.update(all_tables, completed=started)
            started += 1
            progress.reset(one_table, description=f"{name}: manifests", visible=False)
            return lambda done, total: progress.update(one_table, completed=done, total=total, visible=True)

        yield watch


def _tables(found: list[Overview]) -> RichTable:
    from rich.table import Table
    from rich.text import Text

    from airflow_iceberg_compaction.report import text

    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("table", no_wrap=True)
    shown.add_column("health", no_wrap=True)
    for name in ("score", "files", "size", "small", "deletes", "dangling"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("64 kB … 1 GB", no_wrap=True)
    for name in ("snapshots", "manifests"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("why")
    for one in found:
        metadata = one.health.metadata
        shown.add_row(
            one.health.table,
            Text(one.verdict.replace("_", " "), style=COLOURS[one.verdict]),
            f"{one.score:.2f}",
            f"{one.total('data_files'):,}",
            text.size(one.total("data_bytes")),
            f"{one.total('small_files'):,}",
            f"{one.total('delete_files'):,}",
            f"{one.total('dangling_delete_files'):,}",
            sparkline(one.size_histogram),
            f"{metadata.snapshots:,}",
            f"{metadata.manifests:,}",
            Text(_why(one)),
        )
    return shown


def _why(one: Overview) -> str:
    if one.verdict == "sick":
        return f"{one.sick} of {len(one.partitions)} partitions: {one.reason}"
    return one.reason


def _partitions(one: Overview, limit: int | None, now_ms: int) -> RichTable:
    from rich.table import Table
    from rich.text import Text

    from airflow_iceberg_compaction.health.values import human_partition
    from airflow_iceberg_compaction.report import text

    total = len(one.partitions)
    title = f"\n{one.health.table}: " + (
        f"the worst {limit} of {total} partitions" if limit is not None and total > limit else f"{total} partitions"
    )
    shown = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left", title_style="bold")
    several_specs = len({partition.health.spec_id for partition in one.partitions}) > 1
    if several_specs:
        shown.add_column("spec", justify="right")
    shown.add_column("partition")
    shown.add_column("needs", no_wrap=True)
    for name in ("score", "files", "size", "small", "pos", "eq", "dv", "dangling"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("64 kB … 1 GB", no_wrap=True)
    for name in ("newest", "compacted"):
        shown.add_column(name, justify="right", no_wrap=True)
    for ranked in one.partitions[:limit]:
        partition = ranked.health
        values = human_partition(one.health.spec(partition.spec_id), partition.partition)
        shown.add_row(
            *([str(partition.spec_id)] if several_specs else []),
            Text(text.partition(values)),
            Text(ranked.type, style="dim" if ranked.type == "none" else "red"),
            f"{ranked.score:.2f}",
            f"{partition.data_files:,}",
            text.size(partition.data_bytes),
            f"{partition.small_files:,}",
            f"{partition.position_delete_files:,}",
            f"{partition.equality_delete_files:,}",
            f"{partition.deletion_vectors:,}",
            f"{partition.dangling_delete_files:,}",
            sparkline(partition.size_histogram),
            _ago(partition.newest_file_ms, now_ms),
            _ago(partition.last_compaction_ms, now_ms),
        )
    return shown


def sparkline(histogram: dict[int, int]) -> str:
    """File sizes as bars, one for each power of two; any file at all shows."""
    counts = [0] * (LAST_BUCKET - FIRST_BUCKET + 1)
    for bucket, count in histogram.items():
        counts[min(max(bucket, FIRST_BUCKET), LAST_BUCKET) - FIRST_BUCKET] += count
    highest = max(counts)
    return "".join(BARS[-(-count * (len(BARS) - 1) // highest)] if count else BARS[0] for count in counts)


def _ago(moment_ms: int | None, now_ms: int) -> str:
    if moment_ms is None:
        return "-"
    seconds = max(0, now_ms - moment_ms) // 1000
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
