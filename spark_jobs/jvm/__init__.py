"""The only package that talks to the JVM: Iceberg's tables, planner, runners and commits as Python objects.

Iceberg's runners are package-private, so they are reached by reflection. ``Gateway.missing`` says at start-up which of
the classes and signatures used here this Iceberg lacks; the job then goes through the public action instead.
"""

from __future__ import annotations

from spark_jobs.jvm.failures import first_line, is_missing_file, translate
from spark_jobs.jvm.gateway import Gateway, quoted
from spark_jobs.jvm.table import IcebergTable
from spark_jobs.jvm.values import DeleteInput, Group, InputFile, SnapshotFacts, each, parse_sort_column

__all__ = [
    "DeleteInput",
    "Gateway",
    "Group",
    "IcebergTable",
    "InputFile",
    "SnapshotFacts",
    "each",
    "first_line",
    "is_missing_file",
    "parse_sort_column",
    "quoted",
    "translate",
]
