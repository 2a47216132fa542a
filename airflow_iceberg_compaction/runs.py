"""Where the documents of one Airflow run lie, and how its tasks find them."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_iceberg_compaction import store
from airflow_iceberg_compaction.documents import Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow.sdk import Context

    from airflow_iceberg_compaction.health.cache import ManifestCache
    from airflow_iceberg_compaction.policy.model import Policy

CONFIG_SECTION = "iceberg_compaction"

ASSESS_TASK_ID = "assess"
REPORT_TASK_ID = "report"
SECTION_TASK_IDS: Mapping[Section, str] = {
    "rewrite": "rewrite_data_files",
    "delete_files": "rewrite_deletes",
    "manifests": "rewrite_manifests",
    "expire": "expire_snapshots",
    "orphans": "remove_orphan_files",
}

# XCom keys. Values are plain JSON: Airflow refuses to read other people's classes back.
PLAN_URI = "plan_uri"
HEALTH = "health"
RESULT_URI = "result_uri"
REPORT_URI = "report_uri"
ERROR = "error"


def documents_uri(policy: Policy) -> str:
    """The policy's ``documents``, else the deployment's setting, else a folder under AIRFLOW_HOME."""
    if policy.documents:
        return policy.documents
    from airflow.providers.common.compat.sdk import conf

    configured: str | None = conf.get(CONFIG_SECTION, "documents", fallback=None)
    if configured:
        return configured
    return str(_home_folder())


def manifest_cache(policy: Policy) -> ManifestCache:
    """Summaries of manifests this machine has read: beside local documents, else in a folder under AIRFLOW_HOME."""
    from airflow_iceberg_compaction.health.cache import ManifestCache

    folder = store.local_path(documents_uri(policy)) or _home_folder()
    return ManifestCache(folder / "manifests.db")


def _home_folder() -> Path:
    return Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "iceberg-compaction"


def run_folder(policy: Policy, context: Context) -> str:
    """``<documents>/<dag_id>/<run_id>``, and the task group below it where the task sits in one."""
    instance = context["ti"]
    group = instance.task_id.rpartition(".")[0]
    parts = [instance.dag_id, instance.run_id, *([group] if group else [])]
    return store.join(documents_uri(policy), *(path_segment(part) for part in parts))


def run_name(context: Context) -> str:
    """How documents, commits and the history name the run."""
    return f"{context['ti'].dag_id}/{context['ti'].run_id}"


def sibling(task_id: str, name: str) -> str:
    """The id of task ``name`` in the same task group as ``task_id``."""
    group = task_id.rpartition(".")[0]
    return f"{group}.{name}" if group else name


@contextmanager
def failure_told(context: Context) -> Iterator[None]:
    """Leave the reason of a failure in an XCom for the report: a failed task leaves nothing else behind."""
    from airflow.providers.common.compat.sdk import redact

    from airflow_iceberg_compaction._compat import no_failures

    try:
        yield
    except no_failures():
        raise
    except Exception as error:
        # Every catalog secret has been handed to the masker; the report carries this text to people.
        first_line = str(redact((str(error).splitlines() or [""])[0]))[:500]
        context["ti"].xcom_push(key=ERROR, value=first_line or type(error).__name__)
        raise


def path_segment(text: str) -> str:
    """``text`` as one path segment. Run ids hold colons, which Hadoop takes for a URI scheme."""
    safe = re.sub(r"[^A-Za-z0-9._=-]", "_", text)
    if safe == text and safe.strip("."):
        return safe
    return f"{safe}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
