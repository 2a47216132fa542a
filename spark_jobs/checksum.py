"""An order-independent hash over all rows and columns, computed by Spark where the data is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

LINEAGE = ("_row_id", "_last_updated_sequence_number")


@dataclass(frozen=True)
class Checksum:
    """Equal for equal bags of rows, whatever their order and files."""

    rows: int
    digest: str

    def __str__(self) -> str:
        return f"{self.rows} rows {self.digest}"


NOTHING = Checksum(0, f"0:{0:016x}")


def checksum(rows: DataFrame, columns: list[str] | None = None) -> Checksum:
    """Row count, sum and xor of a 64-bit hash per row over ``columns`` (all but the lineage columns when not given)."""
    names = [f.name for f in rows.schema if f.name not in LINEAGE] if columns is None else columns
    types = {f.name: f.dataType for f in rows.schema}
    quoted = {name: F.col("`" + name.replace("`", "``") + "`") for name in names}
    # xxhash64 skips nulls, so (null, 1) and (1, null) would be equal: every value goes in with its own null flag.
    row = F.xxhash64(*[part for name in names for part in _parts(quoted[name], types[name])])
    line = rows.select(row.alias("h")).agg(
        F.count(F.lit(1)).alias("rows"),
        F.sum(F.col("h").cast(DecimalType(38, 0))).alias("total"),
        F.bit_xor("h").alias("mixed"),
    ).collect()[0]  # fmt: skip
    return Checksum(
        rows=int(line["rows"]), digest=f"{int(line['total'] or 0):x}:{int(line['mixed'] or 0) & (2**64 - 1):016x}"
    )


def live_rows(rows: DataFrame) -> dict[str, int]:
    """Rows by the data file that holds them; files without any are not named."""
    return {line["_file"]: int(line["count"]) for line in rows.groupBy("_file").count().collect()}


def _parts(value: Column, kind: DataType) -> list[Column]:
    """What of a value goes into the hash: whether it is there, how long it is, and what it holds."""
    if isinstance(kind, StructType):
        inner = [part for f in kind.fields for part in _parts(value.getField(f.name), f.dataType)]
        return [value.isNull(), *inner]
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return [_size(value), F.transform(value, lambda item: F.xxhash64(*_parts(item, element)))]
    if isinstance(kind, MapType):
        # Spark hashes no maps; their entries keep the order in which they were written.
        return [
            _size(value),
            F.transform(F.map_keys(value), lambda key: F.xxhash64(*_parts(key, kind.keyType))),
            F.transform(F.map_values(value), lambda item: F.xxhash64(*_parts(item, kind.valueType))),
        ]
    if kind.typeName() == "variant":
        return [value.isNull(), F.to_json(value)]
    return [value.isNull(), value]


def _size(value: Column) -> Column:
    return F.when(value.isNull(), F.lit(-1)).otherwise(F.size(value))
