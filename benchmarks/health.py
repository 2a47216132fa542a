"""How long it takes to judge every partition of a large table, and how much memory, against PyIceberg's own ways.

    python benchmarks/health.py FOLDER [--files 1000000] [--all] [--save benchmarks/results/health.json]

Makes the tables in FOLDER if they are not there (some minutes for a million files). Each way runs in a fresh process;
peak memory is that of the process and all it started. All ways run on one machine in one run, so compare ratios. Ways
that count the same thing must give the same numbers, or the benchmark fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MANY_SMALL = (10_000, 10)  # files, files per manifest: what a streaming writer leaves


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmark of health.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--all", action="store_true", help="also inspect.files() and plan_files(), which need 10 GB")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way:
        print(json.dumps(WAYS[args.way](args.folder)))
        return
    large, small = args.folder / f"files-{args.files}", args.folder / "many-small"
    _make(large, args.files, None)
    _make(small, *MANY_SMALL)
    names = [name for name in WAYS if args.all or name not in ("inspect.files()", "plan_files()")]
    results = []
    for name in names:
        folder = small if name.startswith("1,000 manifests") else large
        results.append(_measure(name, folder))
        print(
            f"{name:58s} {results[-1].seconds:8.2f} s {results[-1].cpu_seconds:6.1f} s CPU {results[-1].peak_mb:5.0f} MB",
            flush=True,
        )
    _check_agreement(results)
    _print(results, args.files)
    if args.save:
        args.save.parent.mkdir(parents=True, exist_ok=True)
        args.save.write_text(json.dumps(_document(results, args.files), indent=2) + "\n", encoding="utf-8")


@dataclass
class Result:
    way: str
    seconds: float
    cpu_seconds: float  # of all processes, start-up included: steadier than time on a machine others use
    peak_mb: float
    digest: str | None  # of the per-partition counts, where the way yields them


# ----------------------------------------------------------------------------------------------------------------- ways


def _assess(folder: Path, *, cache: bool = False, fast: bool = True, workers: int | None = None) -> dict[str, Any]:
    if not fast:
        sys.modules["isal"] = None  # type: ignore[assignment]
    import made

    from airflow_iceberg_compaction.health import reader, worker
    from airflow_iceberg_compaction.health.assessment import assess
    from airflow_iceberg_compaction.health.cache import ManifestCache
    from airflow_iceberg_compaction.policy.model import TablePolicy

    if workers is not None:
        reader.MAX_WORKERS = workers
    if not fast:
        start_worker = f"import sys; sys.modules['isal'] = None; from {worker.__name__} import main; main()"
        worker.COMMAND = ("-c", start_worker)
    table = made.load_table(folder)
    policy = TablePolicy(name="db.made")
    stored = ManifestCache(folder / "cache.db") if cache else None
    start = time.perf_counter()
    health = assess(table, policy, catalog_name="bench", table_name="db.made", now_ms=0, cache=stored)
    seconds = time.perf_counter() - start
    if health.cannot_judge:
        raise SystemExit(health.cannot_judge)
    counts = {
        p.partition: [p.data_files, p.data_bytes, p.rows, p.small_files, p.delete_files] for p in health.partitions
    }
    return {"seconds": seconds, "digest": _digest(counts), "stage": health.stage, "read": health.manifests_read}


def _cold(**options: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda folder: _assess(folder, **options)


def _nothing_new(folder: Path) -> dict[str, Any]:
    _assess(folder, cache=True)
    found = _assess(folder, cache=True)
    if found["stage"] != 0:
        raise SystemExit("the second assessment was not warm")
    return found


def _one_new_manifest(folder: Path) -> dict[str, Any]:
    import made

    made.add_manifest(folder)
    found = _assess(folder, cache=True)
    if found["read"] != 1:
        raise SystemExit(f"{found['read']} manifests were read instead of the new one")
    return {"seconds": found["seconds"]}


def _public_loop(folder: Path) -> dict[str, Any]:
    """The same counts through PyIceberg's public API alone."""
    import made

    from airflow_iceberg_compaction.policy.model import Thresholds

    table = made.load_table(folder)
    small = Thresholds().small_file_size
    start = time.perf_counter()
    counts: dict[tuple[Any, ...], list[int]] = {}
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        for entry in manifest.fetch_manifest_entry(table.io):
            file = entry.data_file
            row = counts.setdefault(tuple(file.partition._data), [0, 0, 0, 0, 0])
            if file.content == 0:
                row[0] += 1
                row[1] += file.file_size_in_bytes
                row[2] += file.record_count
                row[3] += file.file_size_in_bytes < small
            else:
                row[4] += 1
    return {"seconds": time.perf_counter() - start, "digest": _digest(counts)}


def _pyiceberg(call: Callable[[Any], Any]) -> Callable[[Path], dict[str, Any]]:
    def way(folder: Path) -> dict[str, Any]:
        import made

        table = made.load_table(folder)
        start = time.perf_counter()
        call(table)
        return {"seconds": time.perf_counter() - start}

    return way


WAYS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "inspect.files()": _pyiceberg(lambda table: table.inspect.files()),
    "plan_files()": _pyiceberg(lambda table: list(table.scan().plan_files())),
    "inspect.partitions()": _pyiceberg(lambda table: table.inspect.partitions()),
    "public fetch_manifest_entry loop": _public_loop,
    "health, cold, one process": _cold(fast=False, workers=1),
    "health, cold": _cold(fast=False),
    "health, cold, one process, with the extra `fast`": _cold(workers=1),
    "health, cold, with the extra `fast`": _cold(),
    "health, warm, nothing new": _nothing_new,
    "health, warm, one new manifest of 13,250 files": _one_new_manifest,
    "1,000 manifests of 10 files: inspect.partitions()": _pyiceberg(lambda table: table.inspect.partitions()),
    "1,000 manifests of 10 files: health, cold": _cold(fast=False),
    "1,000 manifests of 10 files: health, warm": _nothing_new,
}


def _digest(counts: dict[tuple[Any, ...], list[int]]) -> str:
    return hashlib.sha256(repr(sorted(counts.items())).encode()).hexdigest()


# ------------------------------------------------------------------------------------------------------------ measuring


def _make(folder: Path, files: int, per_manifest: int | None) -> None:
    if (folder / "done").exists():
        return
    import made

    print(f"making a table of {files:,} files", flush=True)
    made.make_table(folder, files, per_manifest=per_manifest)
    (folder / "done").touch()


def _measure(name: str, folder: Path) -> Result:
    command = [sys.executable, __file__, str(folder), "--way", name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = 0.0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        peak = max(peak, _memory_mb(process.pid))
        time.sleep(0.05)
    output = process.stdout.read() if process.stdout else ""
    if status != 0:
        raise SystemExit(f"{name} failed")
    found = json.loads(output.splitlines()[-1])
    cpu_seconds = round(usage.ru_utime + usage.ru_stime, 1)
    return Result(name, round(found["seconds"], 3), cpu_seconds, round(peak), found.get("digest"))


def _memory_mb(pid: int) -> float:
    """Memory of a process and its children; pages they share count once."""
    total = 0.0
    for one in [pid, *_children(pid)]:
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return total


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        found = [int(child) for task in tasks for child in (task / "children").read_text(encoding="ascii").split()]
    except OSError:
        return []
    return found


def _check_agreement(results: list[Result]) -> None:
    for prefix in ("1,000", ""):
        chosen = [r for r in results if r.way.startswith("1,000") == bool(prefix)]
        digests = {result.digest for result in chosen if result.digest is not None}
        if len(digests) > 1:
            raise SystemExit("ways that count the same thing disagree")


def _print(results: list[Result], files: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{files:,} data files, {platform.machine()}, {os.cpu_count()} cores")
    table.add_column("way")
    for name in ("seconds", "CPU seconds", "peak MB", "faster than inspect.partitions()"):
        table.add_column(name, justify="right")
    for result in results:
        ratio = _ratio(result, results)
        table.add_row(
            result.way,
            f"{result.seconds:.2f}",
            f"{result.cpu_seconds:.1f}",
            f"{result.peak_mb:.0f}",
            "" if ratio is None else f"{ratio:.1f} x",
        )
    Console(width=120).print(table)


def _ratio(result: Result, results: list[Result]) -> float | None:
    small = result.way.startswith("1,000")
    reference = next(
        r for r in results if r.way.endswith("inspect.partitions()") and r.way.startswith("1,000") == small
    )
    return reference.seconds / result.seconds if "one new" not in result.way else None


def _document(results: list[Result], files: int) -> dict[str, Any]:
    import pyiceberg

    rows = []
    for result in results:
        ratio = _ratio(result, results)
        row = asdict(result) | {"times_faster_than_inspect_partitions": None if ratio is None else round(ratio, 1)}
        row.pop("digest")
        rows.append(row)
    return {
        "files": files,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "pyiceberg": pyiceberg.__version__,
        "results": rows,
    }


if __name__ == "__main__":
    main()
