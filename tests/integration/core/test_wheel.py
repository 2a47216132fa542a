from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
SCRIPT = """
import json, sys
import airflow_iceberg_compaction
from airflow_iceberg_compaction.submit import job_files
files = job_files(sys.argv[1])
print(json.dumps({"package": airflow_iceberg_compaction.__file__, "application": files.application, "zip": files.py_files}))
"""


def test_a_wheel_carries_the_job_and_leaves_no_module_called_spark_jobs(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    elsewhere = tmp_path / "elsewhere"
    zipfile.ZipFile(wheel).extractall(elsewhere)
    assert not (elsewhere / "spark_jobs").exists()

    answer = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "job")],
        check=True, capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(elsewhere), "PATH": ""},
    ).stdout  # fmt: skip

    found = json.loads(answer)
    assert Path(found["package"]).is_relative_to(elsewhere)
    assert Path(found["application"]).is_relative_to(elsewhere)
    assert Path(found["application"]).exists()
    packed = set(zipfile.ZipFile(found["zip"]).namelist())
    assert {
        "spark_jobs/maintain.py",
        "spark_jobs/steps/rewrite.py",
        "airflow_iceberg_compaction/documents.py",
    } <= packed
