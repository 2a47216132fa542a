"""How the Spark job reaches Spark: its files, its configuration, and a local spark-submit for the command line."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.environment import check_spark_environment, find_spark_submit, spark_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from airflow_iceberg_compaction.catalog import CatalogConfig
    from airflow_iceberg_compaction.policy.model import Spark

_PACKAGE = Path(__file__).parent
_PROPERTIES_PREFIX = "iceberg-compaction-"
_ABANDONED_AFTER_SECONDS = 600
_ZIP_TIME = (2020, 1, 1, 0, 0, 0)  # a fixed date: equal content gives an equal file


class SubmitError(RuntimeError):
    """spark-submit could not start the job."""


@dataclass(frozen=True)
class JobFiles:
    application: str  # maintain.py
    py_files: str  # zip with spark_jobs/ and the documents module


def job_files(folder: str | Path) -> JobFiles:
    """The job's entry point and the zip that carries its modules, built once per content into ``folder``."""
    jobs = _jobs_folder()
    members = {
        f"spark_jobs/{path.relative_to(jobs).as_posix()}": path.read_bytes() for path in sorted(jobs.rglob("*.py"))
    }
    for name in ("__init__.py", "documents.py"):
        members[f"{_PACKAGE.name}/{name}"] = (_PACKAGE / name).read_bytes()
    digest = hashlib.sha256(b"".join(k.encode() + b"\0" + v for k, v in members.items())).hexdigest()[:12]
    target = Path(folder) / f"iceberg_compaction_job-{digest}.zip"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as partial,
            zipfile.ZipFile(partial, "w") as zipped,
        ):
            for name, content in members.items():
                zipped.writestr(zipfile.ZipInfo(name, _ZIP_TIME), content)
        Path(partial.name).chmod(0o644)
        Path(partial.name).replace(target)
    return JobFiles(application=str(jobs / "maintain.py"), py_files=str(target))


def private_folder() -> Path:
    """A folder for the job's zip under the temporary one that nobody else can have put anything into."""
    folder = Path(tempfile.gettempdir()) / f"iceberg-compaction-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise SubmitError(f"{folder} is not a private folder of this user; remove it, or set TMPDIR")
    return folder


def spark_conf(spark: Spark, catalog: CatalogConfig) -> dict[str, str]:
    """The job's whole Spark configuration; the policy's own settings win. Holds the catalog's secrets."""
    packages = catalog.packages(spark_version()) if spark.packages is None else spark.packages
    sized = {
        "spark.driver.memory": spark.driver_memory,
        "spark.executor.memory": spark.executor_memory,
        "spark.executor.cores": spark.executor_cores,
        "spark.executor.instances": spark.num_executors,
    }
    # The job prints its own progress; Spark's thousands of INFO lines would bury it in a task's log.
    quiet = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "WARN"}
    conf = {**spark_defaults(), **catalog.spark_properties(), **quiet}
    if packages:
        conf["spark.jars.packages"] = ",".join(packages)
    conf.update({key: str(value) for key, value in sized.items() if value is not None})
    conf.update(spark.conf)
    return conf


def spark_defaults() -> dict[str, str]:
    """Settings of spark-defaults.conf, which spark-submit does not read once it is given a properties file."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    file = Path(folder, "spark-defaults.conf") if folder else None
    if file is None or not file.is_file():
        return {}
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    settings = (re.split(r"\s*=\s*|\s+", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {setting[0]: setting[1] if len(setting) == 2 else "" for setting in settings}


@contextlib.contextmanager
def properties_file(conf: Mapping[str, str], folder: str | Path | None = None) -> Iterator[str]:
    """A file only we can read that hands ``conf`` to spark-submit and is gone afterwards; argv is public."""
    folder = Path(folder or tempfile.gettempdir())
    _remove_abandoned(folder)
    prefix = f"{_PROPERTIES_PREFIX}{os.getpid()}-"
    handle, path = tempfile.mkstemp(prefix=prefix, suffix=".conf", dir=folder)  # created with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(properties_text(conf))
        yield path
    finally:
        Path(path).unlink(missing_ok=True)


def _remove_abandoned(folder: Path) -> None:
    """Remove properties files of processes that were killed before they could: they hold credentials."""
    for path in folder.glob(f"{_PROPERTIES_PREFIX}*.conf"):
        pid = path.name.removeprefix(_PROPERTIES_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError, ValueError):
            # Another container may share the folder but not our process ids: its young files are left alone.
            if time.time() - path.stat().st_mtime > _ABANDONED_AFTER_SECONDS and not Path(f"/proc/{int(pid)}").exists():
                path.unlink()


def properties_text(conf: Mapping[str, str]) -> str:
    """``conf`` in the format of java.util.Properties, whatever bytes the values hold."""
    return "".join(f"{_escape(key, key=True)}={_escape(value)}\n" for key, value in conf.items())


def _escape(text: str, *, key: bool = False) -> str:
    escaped = []
    for position, char in enumerate(text):
        if char in "\\=:#!" or (char == " " and (key or position == 0)):
            escaped.append("\\" + char)
        elif char in "\n\r\t\f":
            escaped.append({"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}[char])
        elif " " <= char <= "~":
            escaped.append(char)
        else:
            units = char.encode("utf-16-be")
            escaped += [f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2)]
    return "".join(escaped)


def run_locally(
    *,
    spark: Spark,
    catalog: CatalogConfig,
    folder: str | Path,
    plan_uri: str,
    result_uri: str,
    sections: Sequence[str] = (),
    on_line: Callable[[str], None] = lambda _: None,
) -> int:
    """Run the job with this environment's spark-submit and return its exit code; ``on_line`` sees its output."""
    check_spark_environment()
    files = job_files(folder)
    conf = {"spark.master": "local[*]", "spark.ui.enabled": "false", **spark_conf(spark, catalog)}
    if conf["spark.master"].startswith("local"):
        conf = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", **conf}
    with properties_file(conf) as properties:
        command = [find_spark_submit(), "--properties-file", properties, "--name", "iceberg-compaction"]
        command += ["--py-files", files.py_files, files.application, "--plan", plan_uri, "--result", result_uri]
        for section in sections:
            command += ["--section", section]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        environment.pop("SPARK_HOME", None) if find_spark_submit().startswith(sys.prefix) else None
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
        )
        recent: deque[str] = deque(maxlen=500)
        try:
            for line in process.stdout or ():
                recent.append(line)
                on_line(catalog.redact(line.rstrip("\n")))
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if code and (problem := explain_start_failure(recent)):
        raise SubmitError(problem)
    return code


def explain_start_failure(lines: Sequence[str] | deque[str]) -> str | None:
    """One line about a driver that never reached our job, from what spark-submit printed; None when it is not that."""
    for line in lines:
        if match := re.search(r"unresolved dependency: ([^\s:]+)#([^\s;]+);([^\s:]+)", line):
            coordinate = f"{match[1]}:{match[2]}:{match[3]}"
            return (
                f"Spark could not download {coordinate}; check the network, or put the jar on the machine and set "
                "`spark.packages: []` with `spark.conf: {spark.jars: /path/to.jar}` in the policy"
            )
    return None


def _jobs_folder() -> Path:
    """`spark_jobs/` beside the package in a checkout, inside it in a wheel."""
    for folder in (_PACKAGE / "_spark_jobs" / "spark_jobs", _PACKAGE.parent / "spark_jobs"):
        if (folder / "maintain.py").exists():
            return folder
    raise SubmitError("the Spark job is missing from this installation; reinstall airflow-iceberg-compaction")
