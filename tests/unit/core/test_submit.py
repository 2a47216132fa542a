from __future__ import annotations

import stat
import sys
import zipfile
from pathlib import Path

import pytest

from airflow_iceberg_compaction import environment, submit
from airflow_iceberg_compaction.catalog import CatalogConfig
from airflow_iceberg_compaction.environment import EnvironmentProblem
from airflow_iceberg_compaction.policy.model import Spark


def test_the_job_travels_with_the_documents_module_and_nothing_heavy(tmp_path: Path) -> None:
    files = submit.job_files(tmp_path)
    names = set(zipfile.ZipFile(files.py_files).namelist())
    assert {"spark_jobs/maintain.py", "spark_jobs/audit.py", "airflow_iceberg_compaction/documents.py"} <= names
    assert not [
        n for n in names if n.startswith("airflow_iceberg_compaction/") and "documents" not in n and "__init__" not in n
    ]
    assert Path(files.application).name == "maintain.py"


def test_equal_content_gives_one_zip(tmp_path: Path) -> None:
    assert submit.job_files(tmp_path) == submit.job_files(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_the_properties_file_is_ours_alone_and_gone_afterwards(tmp_path: Path) -> None:
    with submit.properties_file({"a": "b"}, tmp_path) as name:
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
        assert Path(name).read_text() == "a=b\n"
    assert not list(tmp_path.iterdir())


def test_the_policys_spark_settings_win() -> None:
    catalog = CatalogConfig("lake", {"uri": "http://rest"})
    conf = submit.spark_conf(Spark(conf={"spark.sql.extensions": "mine"}, executor_memory="4g", packages=()), catalog)
    assert conf["spark.sql.extensions"] == "mine"
    assert conf["spark.executor.memory"] == "4g"
    assert "spark.jars.packages" not in conf


def test_a_jar_that_cannot_be_downloaded_is_one_line_that_names_it() -> None:
    lines = [
        "...\n",
        "\t\t:: unresolved dependency: org.apache.iceberg#iceberg-spark-runtime-4.1_2.13;1.12.0: not found",
    ]
    problem = submit.explain_start_failure(lines)
    assert problem is not None
    assert "could not download org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0" in problem


def test_a_failed_job_is_not_blamed_on_the_network() -> None:
    assert submit.explain_start_failure(["java.lang.RuntimeException: boom"]) is None


def test_missing_java_names_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match="Java 17 or newer is needed to run Spark, but no `java` on PATH"):
        environment.check_java()


def test_an_old_java_names_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match="Java 8 at .* is too old"):
        environment.check_java()


def test_a_second_pyspark_client_version_names_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    info = tmp_path / "pyspark_client-4.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark-client\nVersion: 4.0.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(EnvironmentProblem, match="pyspark 4.1.3 and pyspark-client 4.0.0 overwrite"):
        environment.check_pyspark()


@pytest.mark.parametrize(
    ("pyspark", "runtime"),
    [
        ("3.5.8", "iceberg-spark-runtime-3.5_2.12:1.12.0"),
        ("4.0.2", "iceberg-spark-runtime-4.0_2.13:1.11.0"),
        ("4.1.3", "iceberg-spark-runtime-4.1_2.13:1.12.0"),
    ],
)
def test_the_iceberg_runtime_is_that_of_the_spark_at_hand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pyspark: str, runtime: str
) -> None:
    info = tmp_path / f"pyspark-{pyspark}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: pyspark\nVersion: {pyspark}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    config = CatalogConfig("lake", {"type": "rest", "uri": "http://localhost:8181"})
    assert runtime in submit.spark_conf(Spark(), config)["spark.jars.packages"]
