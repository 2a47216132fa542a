"""One Spark session's JVM, and Iceberg's classes in it."""

from __future__ import annotations

import contextlib
import uuid
from functools import cached_property
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass

from spark_jobs.errors import JobError
from spark_jobs.jvm.table import IcebergTable
from spark_jobs.jvm.values import parse_sort_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.jvm.values import Group

_ACTIONS = "org.apache.iceberg.spark.actions."
_RUNNERS = {
    "binpack": _ACTIONS + "SparkBinPackFileRewriteRunner",
    "sort": _ACTIONS + "SparkSortFileRewriteRunner",
    "zorder": _ACTIONS + "SparkZOrderFileRewriteRunner",
}
_BINPACK_PLANNER = "org.apache.iceberg.actions.BinPackRewriteFilePlanner"
_SHUFFLE_PLANNER = _ACTIONS + "SparkShufflingDataRewritePlanner"
_TABLE, _SESSION = "org.apache.iceberg.Table", "org.apache.spark.sql.SparkSession"
_PLANNER_ARGUMENTS = (_TABLE, "org.apache.iceberg.expressions.Expression", "java.lang.Long", "boolean")

# class -> (constructor signatures, method name/argument count): everything below the public actions that we rely on.
_REQUIRED: dict[str, tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, int], ...]]] = {
    _BINPACK_PLANNER: ((_PLANNER_ARGUMENTS,), (("init", 1), ("plan", 0), ("validOptions", 0))),
    _SHUFFLE_PLANNER: ((_PLANNER_ARGUMENTS,), ()),
    _RUNNERS["binpack"]: (((_SESSION, _TABLE),), ()),
    _RUNNERS["sort"]: (((_SESSION, _TABLE), (_SESSION, _TABLE, "org.apache.iceberg.SortOrder")), ()),
    _RUNNERS["zorder"]: (((_SESSION, _TABLE, "java.util.List"),), ()),
    "org.apache.iceberg.actions.FileRewriteRunner": ((), (("init", 1), ("rewrite", 1), ("validOptions", 0))),
    "org.apache.iceberg.actions.FileRewritePlan": ((), (("groups", 0),)),
    "org.apache.iceberg.actions.RewriteFileGroup": (
        (),
        (("setOutputFiles", 1), ("fileScanTasks", 0), ("addedFiles", 0), ("inputFileNum", 0), ("outputSpecId", 0)),
    ),
    "org.apache.iceberg.actions.RewriteDataFilesCommitManager": (
        ((_TABLE, "long", "boolean", "java.util.Map"),),
        (("commitFileGroups", 1),),
    ),
    "org.apache.iceberg.StaticTableOperations": (
        (
            (
                "org.apache.iceberg.TableMetadata",
                "org.apache.iceberg.io.FileIO",
                "org.apache.iceberg.io.LocationProvider",
            ),
        ),
        (),
    ),
    "org.apache.iceberg.LocationProviders": ((), (("locationsFor", 2),)),
    "org.apache.iceberg.BaseFileScanTask": (
        (
            (
                "org.apache.iceberg.DataFile",
                "[Lorg.apache.iceberg.DeleteFile;",
                "java.lang.String",
                "java.lang.String",
                "org.apache.iceberg.expressions.ResidualEvaluator",
            ),
        ),
        (),
    ),
    "org.apache.iceberg.rest.TableScanResponseParser": ((), (("serializeScanTasks", 4),)),
    "org.apache.iceberg.spark.SparkTableCache": ((), (("get", 0), ("add", 2), ("remove", 1))),
    "org.apache.iceberg.spark.ScanTaskSetManager": ((), (("get", 0), ("stageTasks", 3), ("removeTasks", 2))),
}


class Gateway:
    """One Spark session's JVM."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._jvm: Any = spark._jvm
        self._java_session: Any = spark._jsparkSession
        gateway: Any = spark.sparkContext._gateway
        self._new_array = gateway.new_array
        self._client = gateway._gateway_client
        self._classes: dict[str, Any] = {}

    def java(self, name: str) -> Any:
        """A Java class by its full name; ``jvm.a.b.C`` would search every jar for a class ``a`` and a class ``a.b`` first."""
        if name not in self._classes:
            self._classes[name] = JavaClass(name, self._client)
        return self._classes[name]

    # ------------------------------------------------------------------------------------------------------- start-up

    @cached_property
    def iceberg_version(self) -> str:
        return str(self.java("org.apache.iceberg.IcebergBuild").version())

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """The internals this job needs and this Iceberg does not have; empty on a supported version."""
        absent: list[str] = []
        for name, (constructors, methods) in _REQUIRED.items():
            try:
                java_class = self._class(name)
            except Exception:  # any failure to load is an absence
                absent.append(name)
                continue
            # As text, because reflection costs a call per parameter and this runs before every job.
            signatures = (
                {_arguments(c.toString()) for c in java_class.getDeclaredConstructors()} if constructors else set()
            )
            absent += [f"{name}({', '.join(c)})" for c in constructors if tuple(map(_source, c)) not in signatures]
            texts = [m.toString() for m in java_class.getMethods()] if methods else []
            present = {(text.partition("(")[0].rpartition(".")[2], len(_arguments(text))) for text in texts}
            absent += [f"{name}.{method}/{count}" for method, count in methods if (method, count) not in present]
        return tuple(absent)

    def parallelism(self) -> int:
        """Tasks the cluster runs at a time, as far as Spark knows now."""
        return int(self.spark.sparkContext.defaultParallelism)

    # --------------------------------------------------------------------------------------------------------- tables

    def table(self, identifier: str) -> IcebergTable:
        """The table's state now; ``identifier`` is ``catalog.namespace.name``."""
        load = self.java("org.apache.iceberg.spark.Spark3Util").loadIcebergTable
        table = IcebergTable(self, load(self._java_session, quoted(identifier)), identifier)
        if self.spark.conf.get(f"spark.sql.catalog.{identifier.partition('.')[0]}.cache-enabled", "true") != "false":
            table.refresh()  # it may be as old as the session's cache
        return table

    def action(self, name: str, table: IcebergTable) -> Any:
        """Iceberg's public action ``name`` (``expireSnapshots`` ...) on ``table``."""
        actions = self.java("org.apache.iceberg.spark.actions.SparkActions").get(self._java_session)
        return getattr(actions, name)(table.java)

    def path_collector(self) -> Any:
        """A ``java.util.function.Consumer`` that keeps what it is given: a delete function that deletes nothing."""
        return self.java("java.util.stream.Stream").builder()

    def strings(self, values: Sequence[str]) -> Any:
        """A ``String[]`` for a Java method with a variable number of arguments."""
        array = self._new_array(self.java("java.lang.String"), len(values))
        for position, value in enumerate(values):
            array[position] = value
        return array

    def java_rows(self, rows: DataFrame) -> Any:
        """A DataFrame as Iceberg's actions take it."""
        return rows._jdf

    def metadata_rows(self, table: IcebergTable, kind: str) -> DataFrame:
        """One of Iceberg's metadata tables over ``table`` as it was loaded, not as a session's cache knows it."""
        from pyspark.sql import DataFrame

        types = self.java("org.apache.iceberg.MetadataTableType")
        load = self.java("org.apache.iceberg.spark.SparkTableUtil").loadMetadataTable
        return DataFrame(load(self._java_session, table.java, types.valueOf(kind)), self.spark)

    def hadoop_filesystem(self, uri: str) -> tuple[Any, Any]:
        """Hadoop's FileSystem for ``uri`` and the path in it."""
        conf = self.spark.sparkContext._jsc.hadoopConfiguration()
        path = self.java("org.apache.hadoop.fs.Path")(uri)
        return path.getFileSystem(conf), path

    def has_hadoop_client(self, uri: str) -> bool:
        try:
            self.hadoop_filesystem(uri)
        except Exception:
            return False
        return True

    def catalog_file_ios(self) -> Iterator[Any]:
        """The FileIO of every Iceberg catalog of this application: they reach stores that Hadoop has no client for."""
        settings = dict(self.spark.sparkContext.getConf().getAll())
        prefix = "spark.sql.catalog."
        conf = self.spark.sparkContext._jsc.hadoopConfiguration()
        for name in sorted({key.removeprefix(prefix).partition(".")[0] for key in settings if key.startswith(prefix)}):
            start = f"{prefix}{name}."
            properties = {key.removeprefix(start): value for key, value in settings.items() if key.startswith(start)}
            implementation = properties.get("io-impl", "org.apache.iceberg.io.ResolvingFileIO")
            yield self.java("org.apache.iceberg.CatalogUtil").loadFileIO(implementation, properties, conf)

    def write_stream(self, stream: Any, text: str) -> None:
        """Write ``text`` to a Java output stream, which is closed."""
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def read_stream(self, stream: Any) -> bytes:
        """The rest of a Java input stream, which is closed."""
        try:
            return bytes(self.java("org.apache.hadoop.thirdparty.com.google.common.io.ByteStreams").toByteArray(stream))
        finally:
            stream.close()

    # -------------------------------------------------------------------------------------------------------- rewrite

    def session_for_rewrites(self) -> Any:
        """A session like Iceberg's own action makes: adaptive execution would change the number of files."""
        session = self._java_session.cloneSession()
        session.conf().set("spark.sql.adaptive.enabled", "false")
        session.conf().set("spark.sql.iceberg.executor-cache.delete-files.enabled", "false")
        return session

    def planner(self, table: IcebergTable, strategy: str, expression: Any, snapshot_id: int | None) -> Any:
        """Iceberg's planner for ``strategy``, before ``init``."""
        name = _BINPACK_PLANNER if strategy == "binpack" else _SHUFFLE_PLANNER
        return self._construct(name, _PLANNER_ARGUMENTS, table.java, expression, snapshot_id, True)

    def activate(self, session: Any) -> None:
        """Make ``session`` the one that Iceberg's data source finds in the calling thread."""
        find = getattr(self.spark, "_get_j_spark_session_class", None)  # Spark 4
        sessions = self._jvm.SparkSession if find is None else find(self._jvm)
        sessions.setActiveSession(session)

    def runner(
        self, table: IcebergTable, strategy: str, sort_order: Sequence[str], options: Mapping[str, str], session: Any
    ) -> Any:
        """Iceberg's runner for ``strategy``, ready for ``rewrite``."""
        if strategy == "zorder":
            runner = self._construct(
                _RUNNERS[strategy], (_SESSION, _TABLE, "java.util.List"), session, table.java, list(sort_order)
            )
        elif strategy == "sort" and sort_order:
            arguments = (session, table.java, self.sort_order(table, sort_order))
            runner = self._construct(_RUNNERS[strategy], (_SESSION, _TABLE, "org.apache.iceberg.SortOrder"), *arguments)
        else:
            runner = self._construct(_RUNNERS[strategy], (_SESSION, _TABLE), session, table.java)
        valid = set(runner.validOptions())
        runner.init({key: value for key, value in options.items() if key in valid})
        return runner

    def sort_order(self, table: IcebergTable, columns: Sequence[str]) -> Any:
        """``column [asc|desc] [nulls first|last]`` entries as Iceberg's SortOrder."""
        builder = self.java("org.apache.iceberg.SortOrder").builderFor(table.java.schema())
        nulls = self.java("org.apache.iceberg.NullOrder")
        for text in columns:
            column, descending, nulls_first = parse_sort_column(text)
            order = nulls.NULLS_FIRST if nulls_first else nulls.NULLS_LAST
            builder = builder.desc(column, order) if descending else builder.asc(column, order)
        return builder.build()

    @contextlib.contextmanager
    def rows_of(self, table: IcebergTable, tasks: Any) -> Iterator[DataFrame]:
        """The rows of these scan tasks, deletes applied, read by Iceberg."""
        name = str(uuid.uuid4())
        cache = self._static("org.apache.iceberg.spark.SparkTableCache", "get")
        manager = self.java("org.apache.iceberg.spark.ScanTaskSetManager").get()
        manager.stageTasks(table.java, name, tasks)
        try:
            cache.add(name, table.java)
            # Iceberg 1.10 wants the option, 1.11 and later go by the name alone.
            yield self.spark.read.format("iceberg").option("scan-task-set-id", name).load(name)
        finally:
            cache.remove(name)
            manager.removeTasks(table.java, name)

    def tasks_of_outputs(self, table: IcebergTable, groups: Iterable[Group]) -> Any:
        """Scan tasks over files that no snapshot holds yet."""
        schema = self.java("org.apache.iceberg.SchemaParser").toJson(table.java.schema())
        no_deletes = self._new_array(self.java("org.apache.iceberg.DeleteFile"), 0)
        residuals = self.java("org.apache.iceberg.expressions.ResidualEvaluator")
        everything = residuals.unpartitioned(table.everything())
        parse_spec = self.java("org.apache.iceberg.PartitionSpecParser").toJson
        new_task = self.java("org.apache.iceberg.BaseFileScanTask")
        tasks = self.java("java.util.ArrayList")()
        for group in groups:
            spec = parse_spec(table.java.specs().get(group.java.outputSpecId()))
            for file in group.java.addedFiles():
                tasks.add(new_task(file, no_deletes, schema, spec, everything))
        return tasks

    def tasks_of_inputs(self, groups: Iterable[Group]) -> Any:
        tasks = self.java("java.util.ArrayList")()
        for group in groups:
            tasks.addAll(group.java.fileScanTasks())
        return tasks

    # -------------------------------------------------------------------------------------------------------- helpers

    def _class(self, name: str) -> Any:
        loader = self.java("java.lang.Thread").currentThread().getContextClassLoader()
        return self.java("java.lang.Class").forName(name, True, loader)

    def _construct(self, name: str, signature: tuple[str, ...], *arguments: Any) -> Any:
        for constructor in self._class(name).getDeclaredConstructors():
            if tuple(p.getName() for p in constructor.getParameterTypes()) == signature:
                constructor.setAccessible(True)
                values = self._new_array(self.java("java.lang.Object"), len(arguments))
                for i, argument in enumerate(arguments):
                    values[i] = self.java("java.util.ArrayList")(argument) if isinstance(argument, list) else argument
                return constructor.newInstance(values)
        raise JobError(f"{name} has no constructor {signature}; use Iceberg 1.10 to 1.12")

    def _static(self, name: str, method: str) -> Any:
        # py4j cannot call a static method that shares its name with an instance method.
        found = self._class(name).getMethod(method, self._new_array(self.java("java.lang.Class"), 0))
        return found.invoke(None, self._new_array(self.java("java.lang.Object"), 0))


def quoted(identifier: str) -> str:
    """``catalog.namespace.name`` for Spark's parser, whatever characters the parts hold."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in identifier.split("."))


def _arguments(text: str) -> tuple[str, ...]:
    """The argument types in the text of a Java method or constructor."""
    inside = text.partition("(")[2].partition(")")[0]
    return tuple(inside.split(",")) if inside else ()


def _source(name: str) -> str:
    """A class name as it stands in source: arrays are written ``X[]`` there."""
    return f"{name[2:-1]}[]" if name.startswith("[L") else name
