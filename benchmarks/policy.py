"""How long a policy of a thousand tables takes: to validate from the shell, to load, and to load one table of it.

python benchmarks/policy.py [--tables 1000]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
HEAD = """\
version: 1
catalog: {name: lake, conn_id: iceberg_default}
defaults:
  schedule: "0 2 * * *"
  thresholds: {small_file_size: 96MB, min_small_files: 20}
  report: {slack: {channel: "#data-ops"}}
tables:
"""
TABLE = """\
  - name: shop.table_{0:05d}
    owner: team-{1}
    tags: [shop, tier-{1}]
    thresholds: {{min_small_files: 1{1}, delete_files: 5}}
    rewrite:
      strategy: sort
      sort_order: [event_ts, user_id desc nulls last]
      max_bytes: 20{1}GB
    expire_snapshots: {{older_than: 5d, retain_last: 3}}
    write_properties:
      write.target-file-size-bytes: 256MB
      write.parquet.compression-codec: zstd
"""
CLI = [sys.executable, "-c", "from airflow_iceberg_compaction.cli import main; raise SystemExit(main())"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=1000)
    tables = parser.parse_args().tables
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), tables)
    for name, value in figures.items():
        print(f"{name:34} {value}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "policy.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def measure(folder: Path, tables: int) -> dict[str, float]:
    from airflow_iceberg_compaction.policy.errors import PolicyError
    from airflow_iceberg_compaction.policy.loader import load_policy
    from airflow_iceberg_compaction.policy.origins import effective_values

    path, broken = folder / "policy.yaml", folder / "broken.yaml"
    path.write_text(HEAD + "".join(TABLE.format(i, i % 9) for i in range(tables)), encoding="utf-8")
    broken.write_text(path.read_text(encoding="utf-8").replace("delete_files:", "delete_file:"), encoding="utf-8")
    last = f"shop.table_{tables - 1:05d}"
    policy = load_policy(path)

    def load_broken() -> None:
        try:
            load_policy(broken)
        except PolicyError as error:
            str(error)

    return {
        "tables": tables,
        "file_bytes": path.stat().st_size,
        "validate_command_seconds": _best(lambda: _command("validate", str(path))),
        "help_command_seconds": _best(lambda: _command("--help")),
        "load_seconds": _best(lambda: load_policy(path)),
        "load_one_table_seconds": _best(lambda: load_policy(path, only=last)),
        "load_with_an_error_each_seconds": _best(load_broken),
        "origins_of_all_tables_seconds": _best(
            lambda: [effective_values(policy, table.name) for table in policy.tables]
        ),
    }


def _command(*arguments: str) -> None:
    subprocess.run([*CLI, *arguments], check=True, stdout=subprocess.DEVNULL)


def _best(run: Callable[[], object], rounds: int = 7) -> float:
    """The fastest of a few rounds: everything slower is the machine doing other things."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return round(min(times), 4)


if __name__ == "__main__":
    main()
