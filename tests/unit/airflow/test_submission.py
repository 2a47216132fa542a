from __future__ import annotations

import os
import subprocess
import sys
import time

from airflow_iceberg_compaction import submit
from airflow_iceberg_compaction.policy.model import Spark


def test_the_clusters_own_defaults_still_hold_below_ours(tmp_path, monkeypatch, lake):
    (tmp_path / "spark-defaults.conf").write_text(
        "# comment\nspark.master            yarn\nspark.executor.memory=9g\nspark.driver.memory  5g\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    conf = submit.spark_conf(Spark(driver_memory="2g"), lake)
    assert conf["spark.master"] == "yarn"
    assert conf["spark.executor.memory"] == "9g"
    assert conf["spark.driver.memory"] == "2g"


def test_credentials_that_a_killed_worker_left_behind_are_removed_by_the_next_submission(tmp_path):
    code = (
        "import os, sys\nfrom airflow_iceberg_compaction.submit import properties_file\n"
        f"with properties_file({{'a': 'secret'}}, {str(tmp_path)!r}) as path: os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (left,) = tmp_path.iterdir()
    an_hour_ago = time.time() - 3600
    os.utime(left, (an_hour_ago, an_hour_ago))
    with submit.properties_file({}, tmp_path):
        assert not left.exists()


def test_the_file_of_a_process_that_still_runs_is_left_alone(tmp_path):
    with submit.properties_file({}, tmp_path) as path:
        os.utime(path, (0, 0))
        with submit.properties_file({}, tmp_path):
            assert os.path.exists(path)  # noqa: PTH110
