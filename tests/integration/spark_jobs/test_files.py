from __future__ import annotations

import pytest

from spark_jobs.files import Files

pytestmark = pytest.mark.spark


def test_a_document_is_written_whole_and_read_back(on_lake, tmp_path) -> None:
    files = Files(on_lake.gateway)
    for uri in (str(tmp_path / "new folder" / "a.json"), f"file://{tmp_path}/b.json"):
        files.write_text(uri, "erst")
        files.write_text(uri, "dann ü")
        assert files.read_text(uri) == "dann ü"
    assert [p.name for p in tmp_path.glob(".*")] == []


def test_hadoop_s_filesystem_serves_other_addresses(on_lake, tmp_path) -> None:
    files = Files(on_lake.gateway)
    uri = f"viewfs://documents{tmp_path}/c.json"
    conf = on_lake.spark.sparkContext._jsc.hadoopConfiguration()
    conf.set(f"fs.viewfs.mounttable.documents.link.{tmp_path}", f"file://{tmp_path}")
    files.write_text(uri, "through Hadoop")
    assert files.read_text(uri) == "through Hadoop"
    assert (tmp_path / "c.json").read_text() == "through Hadoop"
    with pytest.raises(FileNotFoundError):
        files.read_text(uri + ".missing")


def test_a_catalog_s_file_io_reaches_what_hadoop_cannot(on_lake) -> None:
    conf = on_lake.spark.sparkContext._conf
    key = "spark.sql.catalog.documents.io-impl"
    conf.set(key, "org.apache.iceberg.inmemory.InMemoryFileIO")
    try:
        files = Files(on_lake.gateway)
        files.write_text("mem://documents/plan.json", "through Iceberg")
        assert files.read_text("mem://documents/plan.json") == "through Iceberg"
        with pytest.raises(FileNotFoundError):
            files.read_text("mem://documents/other.json")
    finally:
        conf._jconf.remove(key)  # the session is everybody's


def test_an_address_nobody_serves_says_what_to_check(on_lake) -> None:
    with pytest.raises(OSError, match="check `documents` in the policy"):
        Files(on_lake.gateway).read_text("nowhere://x/y.json")
