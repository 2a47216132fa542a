"""Checks of the machine that would start Spark: each problem is one line that names the fix."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

MIN_JAVA = 17
SPARK_VERSIONS = ("3.5", "4.0", "4.1")


class EnvironmentProblem(RuntimeError):
    """Something Spark needs is missing or of the wrong version on this machine."""


def check_spark_environment() -> None:
    """Raise EnvironmentProblem unless this machine can start a local Spark driver."""
    check_java()
    check_pyspark()
    find_spark_submit()


def check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not java or not Path(java).exists():
        where = f"JAVA_HOME is {home!r}, which holds no bin/java" if home else "no `java` on PATH"
        raise EnvironmentProblem(
            f"Java {MIN_JAVA} or newer is needed to run Spark, but {where}; install it, or set JAVA_HOME"
        )
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', output.stderr + output.stdout)
    if not match:
        raise EnvironmentProblem(
            f"`{java} -version` did not tell a version; set JAVA_HOME to a Java {MIN_JAVA} or newer"
        )
    if int(match[1]) < MIN_JAVA:
        raise EnvironmentProblem(
            f"Java {match[1]} at {java} is too old, Spark needs {MIN_JAVA} or newer; install it and set JAVA_HOME"
        )


def check_pyspark() -> None:
    """pyspark and pyspark-client share one directory, so two versions of them silently overwrite each other."""
    pyspark, client = _version("pyspark"), _version("pyspark-client")
    if pyspark is None:
        raise EnvironmentProblem("pyspark is not installed; pip install 'airflow-iceberg-compaction[spark]'")
    if client is not None and client != pyspark:
        raise EnvironmentProblem(
            f"pyspark {pyspark} and pyspark-client {client} overwrite each other's files; "
            f"pip install --force-reinstall 'pyspark-client=={pyspark}' 'pyspark=={pyspark}'"
        )
    if _minor(pyspark) not in SPARK_VERSIONS:
        raise EnvironmentProblem(
            f"no Iceberg runtime exists for Spark {pyspark}; pip install 'pyspark==4.1.3' 'pyspark-client==4.1.3'"
        )


def spark_version() -> str:
    """The minor version of the Spark this machine would start, 4.1 when it starts one that is not Python's."""
    minor = _minor(_version("pyspark") or "")
    return minor if minor in SPARK_VERSIONS else SPARK_VERSIONS[-1]


def find_spark_submit() -> str:
    """spark-submit of this Python environment, else of SPARK_HOME, else of PATH."""
    beside_python = Path(sys.executable).parent / "spark-submit"
    if beside_python.exists():
        return str(beside_python)
    if (home := os.environ.get("SPARK_HOME")) and Path(home, "bin", "spark-submit").exists():
        return str(Path(home, "bin", "spark-submit"))
    found = shutil.which("spark-submit")
    if not found:
        raise EnvironmentProblem(
            "no spark-submit found; pip install 'airflow-iceberg-compaction[spark]', or set SPARK_HOME"
        )
    return found


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
