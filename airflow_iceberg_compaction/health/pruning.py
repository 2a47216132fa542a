"""Which manifests can hold a partition at all, from what the manifest list says about them."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.health.manifests import FieldSummary, Manifest
from airflow_iceberg_compaction.health.model import PartitionTuple, Spec
from airflow_iceberg_compaction.health.types import primitive_type

if TYPE_CHECKING:
    from pyiceberg.types import PrimitiveType


def may_hold(manifest: Manifest, spec: Spec, keys: Collection[tuple[int, PartitionTuple]]) -> bool:
    """False only if the manifest certainly holds none of ``keys``."""
    if not manifest.is_live:
        return False
    tuples = [partition for spec_id, partition in keys if spec_id == spec.spec_id]
    summaries = manifest.field_summaries
    if not tuples or summaries is None or len(summaries) != len(spec.fields):
        return bool(tuples)
    tests = [_Test(summary, field.result_type) for summary, field in zip(summaries, spec.fields, strict=True)]
    return any(all(test(value) for test, value in zip(tests, values, strict=False)) for values in tuples)


class _Test:
    def __init__(self, summary: FieldSummary, type_name: str) -> None:
        from pyiceberg.conversions import from_bytes

        kind: PrimitiveType | None = primitive_type(type_name) if type_name else None
        self._summary = summary
        self._lower = self._upper = None
        if kind is not None and summary.lower is not None and summary.upper is not None:
            self._lower = from_bytes(kind, summary.lower)
            self._upper = from_bytes(kind, summary.upper)

    def __call__(self, value: Any) -> bool:
        if value is None:
            return self._summary.contains_null
        if isinstance(value, float) and math.isnan(value):
            return self._summary.contains_nan is not False
        if self._lower is None or self._upper is None:
            # No bounds: all values are null or NaN, unless the type is one we cannot read.
            return True
        return bool(self._lower <= value <= self._upper)
