"""The whole line on a real PostgreSQL catalog with a password: assess, plan, Spark, report."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_iceberg_compaction.catalog import CatalogConfig
from airflow_iceberg_compaction.cli import main
from airflow_iceberg_compaction.documents import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSWORD = "p@ss: wörd/1"  # needs quoting in an address, a properties file and a shell


def _postgres_bin() -> Path | None:
    found = shutil.which("initdb") or next(map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None)
    return Path(found).parent if found else None


BIN = _postgres_bin()
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(BIN is None, reason="PostgreSQL's initdb is not installed (Debian package postgresql)"),
]


@pytest.fixture(scope="module")
def postgres() -> Iterator[int]:
    """A server on loopback that asks for a password; yields its port."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to the user that PostgreSQL runs as
        yield from _serve(Path(folder))


def _serve(folder: Path) -> Iterator[int]:
    as_user: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        as_user = ["runuser", "-u", "postgres", "--"]
        shutil.chown(folder, "postgres")
    secret = folder / "password"
    secret.write_text(PASSWORD, encoding="utf-8")
    if as_user:
        shutil.chown(secret, "postgres")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    data = str(folder / "data")
    initdb = [f"{BIN}/initdb", "-D", data, "-U", "iceberg", "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync"]
    subprocess.run([*as_user, *initdb, "-E", "UTF8", "--locale=C"], check=True, capture_output=True)
    options = f"-c listen_addresses=127.0.0.1 -p {port} -c unix_socket_directories='' -c fsync=off"
    control = [*as_user, f"{BIN}/pg_ctl", "-D", data, "-w", "-l", str(folder / "log")]
    subprocess.run([*control, "-o", options, "start"], check=True, capture_output=True)
    try:
        yield port
    finally:
        subprocess.run([*control, "-m", "fast", "stop"], check=True, capture_output=True)


def test_a_table_in_postgresql_is_maintained_and_its_password_is_nowhere(
    postgres: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from urllib.parse import quote

    uri = f"postgresql+psycopg2://iceberg:{quote(PASSWORD, safe='')}@127.0.0.1:{postgres}/postgres"
    monkeypatch.setenv("CATALOG_URI", uri)
    monkeypatch.chdir(tmp_path)
    catalog = CatalogConfig("pg", {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}/warehouse"}).load()
    catalog.create_namespace("shop")
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    table = catalog.create_table("shop.orders", rows.schema)
    for _ in range(6):
        table.append(rows)
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\n"
        "profile: development\n"
        f"catalog: {{name: pg, properties: {{type: sql, uri: '${{CATALOG_URI}}', warehouse: 'file://{tmp_path}/warehouse'}}}}\n"
        "spark: {conf: {spark.driver.memory: 1g}}\n"
        "defaults: {orphan_files: {mode: 'off'}}\n"
        "tables: [{name: shop.orders}]\n"
    )

    assert main(["run", "shop.orders", "--policy", str(policy), "--json"]) == 0

    out, err = capfd.readouterr()
    report = Report.from_json(out)
    assert (report.outcome, report.stats.files_before, report.stats.files_after) == ("succeeded", 6, 1)
    assert report.certificate.verdict == "proven"
    assert catalog.load_table("shop.orders").scan().to_arrow().num_rows == 60
    kept = "".join(p.read_text(errors="replace") for p in (tmp_path / ".iceberg-compaction").rglob("*.json"))
    for secret in (PASSWORD, quote(PASSWORD, safe="")):
        assert secret not in out + err + kept
