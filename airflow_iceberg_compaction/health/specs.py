"""Partition specs and the sort order, resolved against the current schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.health.model import PartitionField, Spec
from airflow_iceberg_compaction.health.types import type_name

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField as IcebergField
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata


def resolve_specs(metadata: TableMetadata) -> tuple[tuple[Spec, ...], tuple[tuple[int, str], ...]]:
    """Every spec of the table, and for those whose partitions cannot be filtered the reason why."""
    schema = metadata.schema()
    specs, unjudged = [], []
    for spec in metadata.partition_specs:
        fields = tuple(_resolve_field(field, schema) for field in spec.fields)
        specs.append(Spec(spec_id=spec.spec_id, fields=fields))
        for field in fields:
            if field.transform == "void":
                continue
            if field.source_name is None:
                unjudged.append((spec.spec_id, f"the source column of its partition field {field.name!r} was dropped"))
            elif not is_known_transform(field.transform):
                unjudged.append(
                    (spec.spec_id, f"its partition field {field.name!r} has the unknown transform {field.transform!r}")
                )
    return tuple(specs), tuple(unjudged)


def is_known_transform(transform: str) -> bool:
    return transform.split("[")[0] in {"identity", "bucket", "truncate", "year", "month", "day", "hour", "void"}


def _resolve_field(field: IcebergField, schema: Schema) -> PartitionField:
    from pyiceberg.transforms import UnknownTransform

    transform = str(field.transform)
    if isinstance(field.transform, UnknownTransform):
        transform = field.transform._transform
    try:
        source = schema.find_field(field.source_id)
    except ValueError:
        return PartitionField(name=field.name, transform=transform, source_name=None, source_type="", result_type="")
    result = str(field.transform.result_type(source.field_type)) if is_known_transform(transform) else ""
    return PartitionField(
        name=field.name,
        transform=transform,
        source_name=schema.find_column_name(field.source_id),
        source_type=type_name(source.field_type),
        result_type=type_name(result),
    )


def partition_field_ids(metadata: TableMetadata) -> Mapping[int, tuple[int, ...]]:
    return {spec.spec_id: tuple(field.field_id for field in spec.fields) for spec in metadata.partition_specs}


def unpartitioned_spec_ids(specs: tuple[Spec, ...]) -> frozenset[int]:
    return frozenset(spec.spec_id for spec in specs if not spec.is_partitioned)


def leading_sort_column(metadata: TableMetadata, sort_order: tuple[str, ...]) -> tuple[int, str] | None:
    """Field id and type of the first sort column that is not constant within a partition, or None.

    ``sort_order`` is the policy's ("column [asc|desc] [nulls first|last]") and wins over the table's own.
    """
    from pyiceberg.transforms import IdentityTransform

    schema = metadata.schema()
    constant = {field.source_id for field in metadata.spec().fields if isinstance(field.transform, IdentityTransform)}
    if sort_order:
        columns = []
        for clause in sort_order:
            try:
                columns.append(schema.find_field(clause.split()[0]).field_id)
            except (ValueError, IndexError):
                return None
    else:
        columns = [field.source_id for field in metadata.sort_order().fields]
    for column in columns:
        if column in constant:
            continue
        try:
            kind = schema.find_field(column).field_type
        except ValueError:
            return None
        return (column, type_name(kind)) if kind.is_primitive else None
    return None
