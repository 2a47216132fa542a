"""Files in a real S3 server, reached by Iceberg's own client alone: no Hadoop client for S3 is on Spark's class path."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_iceberg_compaction.catalog import CatalogConfig
from airflow_iceberg_compaction.cli import main
from airflow_iceberg_compaction.documents import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "s3cret/of+the=store"
SERVER = shutil.which("versitygw", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(SERVER is None, reason="versitygw is not installed; `make test-s3` builds it with Go"),
]


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """An S3 server on loopback: its address, and the folder of its bucket ``bkt``."""
    bucket = tmp_path / "s3" / "bkt"
    bucket.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    keys = {"ROOT_ACCESS_KEY": "key", "ROOT_SECRET_KEY": SECRET}
    command = [str(SERVER), "--port", address, "--region", "us-east-1", "posix", str(bucket.parent)]
    with subprocess.Popen(command, env={**os.environ, **keys}, stdout=subprocess.DEVNULL) as server:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(address.rpartition(":")[2]))) == 0:
                    break
            time.sleep(0.1)
        yield f"http://{address}", bucket
        server.terminate()


def test_a_table_in_s3_is_compacted_and_swept_and_its_key_is_nowhere(
    s3: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    endpoint, bucket = s3
    monkeypatch.setenv("S3_SECRET", SECRET)
    monkeypatch.chdir(tmp_path)
    store = {"s3.endpoint": endpoint, "s3.access-key-id": "key", "s3.region": "us-east-1"}
    where = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": "s3://bkt/warehouse", **store}
    catalog = CatalogConfig("lake", {**where, "s3.secret-access-key": SECRET}).load()
    catalog.create_namespace("shop")
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    table = catalog.create_table("shop.orders", rows.schema)
    for _ in range(6):
        table.append(rows)
    orphan = bucket / "warehouse" / "shop" / "orders" / "data" / "orphan of a killed=writer.parquet"
    theirs = bucket / "warehouse" / "shop" / "orders-of-others" / "data.parquet"
    theirs.parent.mkdir()
    for path in (orphan, theirs):
        path.write_bytes(b"x")
        os.utime(path, (time.time() - 10 * 86400,) * 2)
    listed = "\n".join(f"    {key}: {value}" for key, value in where.items())
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\n"
        "profile: development\n"
        f"catalog:\n  name: lake\n  properties:\n{listed}\n    s3.secret-access-key: ${{S3_SECRET}}\n"
        "spark: {conf: {spark.driver.memory: 1g}}\n"
        "defaults: {audit: checksum, orphan_files: {mode: delete, max_share: 1}}\n"
        "tables: [{name: shop.orders}]\n"
    )

    assert main(["run", "shop.orders", "--policy", str(policy), "--json"]) == 0

    out, err = capfd.readouterr()
    report = Report.from_json(out)
    assert (report.outcome, report.stats.files_before, report.stats.files_after) == ("succeeded", 6, 1)
    assert report.certificate.verdict == "proven"
    assert catalog.load_table("shop.orders").scan().to_arrow().num_rows == 60
    assert theirs.exists()
    assert not orphan.exists()
    kept = "".join(p.read_text(errors="replace") for p in (tmp_path / ".iceberg-compaction").rglob("*.json"))
    assert SECRET not in out + err + kept
