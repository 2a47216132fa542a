from __future__ import annotations

import dataclasses
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from airflow_iceberg_compaction.documents import Batch, Plan, RewriteSection, RunResult, StepResult, TableNumbers
from spark_jobs.jvm import Gateway, quoted
from spark_jobs.maintain import carry_out

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from airflow_iceberg_compaction.documents import Section
    from spark_jobs.context import Context
    from spark_jobs.jvm import IcebergTable


class Lake:
    """Tables, plans and runs of the job against the shared Spark session."""

    EVERYTHING: ClassVar[dict[str, Any]] = {"type": "not-null", "term": "id"}

    def __init__(self, spark: SparkSession, namespace: str, folder: Path) -> None:
        self.spark = spark
        self.namespace = namespace
        self.folder = folder
        self.gateway = Gateway(spark)

    def create(
        self,
        columns: str = "id bigint, name string, price double",
        *,
        by: str = "",
        prefix: str = "t",
        **properties: str,
    ) -> str:
        """A new table; returns its ``namespace.name``."""
        name = f"{self.namespace}.{prefix}{uuid.uuid4().hex[:6]}"
        settings = {
            "format-version": "2",
            "write.delete.mode": "merge-on-read",
            "write.update.mode": "merge-on-read",
            "write.merge.mode": "merge-on-read",
            **{key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()},
        }
        listed = ", ".join(f"'{key}'='{value}'" for key, value in settings.items())
        partitioned = f"PARTITIONED BY ({by})" if by else ""
        self.spark.sql(
            f"CREATE TABLE lake.{quoted(name)} ({columns}) USING iceberg {partitioned} TBLPROPERTIES ({listed})"
        )
        return name

    def fill(self, table: str, *, files: int = 6, rows: int = 50, start: int = 0) -> None:
        """``files`` appends of ``rows`` rows each: one small file per append and partition."""
        for number in range(files):
            first = start + number * rows
            self.spark.range(first, first + rows, numPartitions=1).selectExpr(
                "id", "concat('name-', id) as name", "id * 0.5D as price"
            ).writeTo(f"lake.{quoted(table)}").append()

    @property
    def iceberg_version(self) -> tuple[int, int]:
        major, minor = self.gateway.iceberg_version.split(".")[:2]
        return int(major), int(minor)

    @property
    def catalog_type(self) -> str:
        return str(self.spark.conf.get("spark.sql.catalog.lake.type"))

    def data_folder(self, table: str) -> Path:
        return Path("/" + self.iceberg(table).data_location.removeprefix("file:").lstrip("/"))

    def equality_delete(
        self, table: str, column: str, values: Sequence[int], partition: str | None = None, spec_id: int | None = None
    ) -> None:
        """Commit an equality delete on a bigint column, as Flink would; Spark itself writes none."""
        import pyarrow as pa
        from pyarrow import parquet

        loaded = self.iceberg(table)
        field_id = loaded.java.schema().findField(column).fieldId()
        kind = pa.field(column, pa.int64(), metadata={"PARQUET:field_id": str(field_id)})
        path = self.data_folder(table) / f"eq-{uuid.uuid4().hex}.parquet"
        parquet.write_table(pa.table([pa.array(values, pa.int64())], schema=pa.schema([kind])), path)
        ids = self.spark.sparkContext._gateway.new_array(self.spark._jvm.int, 1)
        ids[0] = field_id
        spec = loaded.java.spec() if spec_id is None else loaded.java.specs().get(spec_id)
        builder = self.spark._jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(spec)
        builder = builder.ofEqualityDeletes(ids).withPath(f"file:{path}").withFormat("parquet")
        builder = builder.withFileSizeInBytes(path.stat().st_size).withRecordCount(len(values))
        if partition is not None:
            builder = builder.withPartitionPath(partition)
        loaded.java.newRowDelta().addDeletes(builder.build()).commit()

    def add_column_with_default(self, table: str, column: str, text: str) -> None:
        iceberg = self.spark._jvm.org.apache.iceberg
        string = iceberg.types.Types.StringType.get()
        literal = iceberg.expressions.Literal.of(text)
        self.iceberg(table).java.updateSchema().addColumn(column, string, literal).commit()

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(text).collect()]

    def rows(self, table: str) -> list[str]:
        """Every row as text, in a fixed order; as text a NaN equals itself."""
        return sorted(map(repr, self.sql(f"SELECT * FROM lake.{table}")))

    def files(self, table: str) -> int:
        return int(self.sql(f"SELECT count(*) FROM lake.{table}.data_files")[0][0])

    def iceberg(self, table: str) -> IcebergTable:
        return self.gateway.table(f"lake.{table}")

    def plan(
        self,
        table: str,
        filters: Sequence[Mapping[str, Any]] = (),
        *,
        options: Mapping[str, str] | None = None,
        rewrite: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> Plan:
        """A plan whose rewrite section has one batch per filter."""
        loaded = self.iceberg(table)
        head = loaded.head()
        batches = tuple(
            Batch(
                batch_id=f"b-{number:04d}",
                filter=dict(expression),
                options=dict(options or {"min-input-files": "2"}),
                partitions=1,
                input_files=0,
                input_bytes=0,
                output_files=0,
                groups=0,
            )
            for number, expression in enumerate(filters or (self.EVERYTHING,), start=1)
        )
        return Plan(
            run_id=f"test-{uuid.uuid4().hex[:8]}",
            catalog="lake",
            table=table,
            table_uuid=loaded.uuid,
            snapshot_id=None if head is None else head.snapshot_id,
            created_at_ms=int(time.time() * 1000),
            outcome="work",
            before=TableNumbers(),
            rewrite=RewriteSection(batches=batches, **(rewrite or {})),
            **changes,
        )

    def run(
        self,
        plan: Plan,
        *,
        sections: Sequence[Section] | None = None,
        configure: Callable[[Context], Context] = lambda context: context,
        name: str = "result.json",
    ) -> tuple[int, RunResult]:
        def patient(context: Context) -> Context:
            return configure(dataclasses.replace(context, back_off=lambda attempt: None))

        uri = str(self.folder / f"{plan.run_id}-{name}")
        code = carry_out(self.spark, plan, uri, sections, patient)
        return code, self.result(plan, name)

    def step(self, result: RunResult, section: Section = "rewrite") -> StepResult:
        return next(s for s in result.steps if s.section == section)

    def bucket(self, number: int, of: int = 4) -> dict[str, Any]:
        """The filter of one bucket of ``bucket(of, id)``."""
        term = {"type": "transform", "transform": f"bucket[{of}]", "term": "id"}
        return {"type": "eq", "term": term, "value": number}

    def result(self, plan: Plan, name: str = "result.json") -> RunResult:
        return RunResult.from_json((self.folder / f"{plan.run_id}-{name}").read_text())


@pytest.fixture
def on_lake(spark: SparkSession, namespace: str, tmp_path: Path) -> Lake:
    return Lake(spark, namespace, tmp_path)
