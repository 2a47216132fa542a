"""The only module that talks to the JVM: Iceberg's tables, planner, runners and commits as Python objects.

Iceberg's runners are package-private, so they are reached by reflection. ``Gateway.missing`` says at start-up which of
the classes and signatures used here this Iceberg lacks; the caller then uses ``Gateway.public_rewrite`` instead.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from spark_jobs.errors import ConflictError, JobError, RefusedError, UnknownCommitStateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

CHUNK = 2_000  # files per call: bounds both the text that crosses the border and the driver's memory
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

# Iceberg's own exceptions and the two ways Spark reports an input that an expiry deleted under a running job.
_CONFLICTS = (
    "org.apache.iceberg.exceptions.CommitFailedException",
    "org.apache.iceberg.exceptions.ValidationException",
)
_UNKNOWN = "org.apache.iceberg.exceptions.CommitStateUnknownException"
_GONE = ("org.apache.iceberg.exceptions.NotFoundException", "java.io.FileNotFoundException")


@dataclass(frozen=True)
class SnapshotFacts:
    """The parts of a snapshot the job reasons with."""

    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    summary: Mapping[str, str]

    def number(self, key: str) -> int | None:
        text = self.summary.get(key)
        return None if text is None else int(text)


@dataclass(frozen=True)
class DeleteInput:
    kind: str  # position-deletes | equality-deletes
    rows: int
    is_dv: bool


@dataclass(frozen=True)
class InputFile:
    path: str
    bytes: int
    rows: int
    format: str
    deletes: tuple[int, ...] = ()  # indexes into Group.deletes


@dataclass
class Group:
    """Files that Iceberg's planner wants rewritten together, with what the job knows about them."""

    java: Any
    index: int
    inputs: list[InputFile]
    deletes: list[DeleteInput]
    outputs: list[dict[str, Any]] = field(default_factory=list)  # ContentFile JSON, once written

    @property
    def input_bytes(self) -> int:
        return sum(f.bytes for f in self.inputs)

    @property
    def output_bytes(self) -> int:
        return sum(int(f["file-size-in-bytes"]) for f in self.outputs)


class Gateway:
    """One Spark session's JVM."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._jvm: Any = spark._jvm
        self._java_session: Any = spark._jsparkSession
        gateway: Any = spark.sparkContext._gateway
        self._new_array = gateway.new_array

    # ------------------------------------------------------------------------------------------------------- start-up

    @cached_property
    def iceberg_version(self) -> str:
        return str(self._jvm.org.apache.iceberg.IcebergBuild.version())

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
            signatures = {
                tuple(p.getName() for p in c.getParameterTypes()) for c in java_class.getDeclaredConstructors()
            }
            absent += [f"{name}({', '.join(c)})" for c in constructors if c not in signatures]
            present = {(m.getName(), m.getParameterCount()) for m in java_class.getMethods()}
            absent += [f"{name}.{method}/{count}" for method, count in methods if (method, count) not in present]
        return tuple(absent)

    def parallelism(self) -> int:
        """Tasks the cluster runs at a time, as far as Spark knows now."""
        return int(self.spark.sparkContext.defaultParallelism)

    # --------------------------------------------------------------------------------------------------------- tables

    def table(self, identifier: str) -> IcebergTable:
        """The table's state now; ``identifier`` is ``catalog.namespace.name``."""
        return IcebergTable(self, self._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self._java_session, ".".join(f"`{part.replace('`', '``')}`" for part in identifier.split("."))
        ), identifier)  # fmt: skip

    def action(self, name: str, table: IcebergTable) -> Any:
        """Iceberg's public action ``name`` (``expireSnapshots`` ...) on ``table``."""
        actions = self._jvm.org.apache.iceberg.spark.actions.SparkActions.get(self._java_session)
        return getattr(actions, name)(table.java)

    def path_collector(self) -> Any:
        """A ``java.util.function.Consumer`` that keeps what it is given: a delete function that deletes nothing."""
        return self._jvm.java.util.stream.Stream.builder()

    def java_rows(self, rows: DataFrame) -> Any:
        """A DataFrame as Iceberg's actions take it."""
        return rows._jdf

    def hadoop_filesystem(self, uri: str) -> tuple[Any, Any]:
        """Hadoop's FileSystem for ``uri`` and the path in it."""
        conf = self.spark.sparkContext._jsc.hadoopConfiguration()
        path = self._jvm.org.apache.hadoop.fs.Path(uri)
        return path.getFileSystem(conf), path

    def read_stream(self, stream: Any) -> bytes:
        """The rest of a Java input stream, which is closed."""
        try:
            return bytes(self._jvm.org.apache.hadoop.thirdparty.com.google.common.io.ByteStreams.toByteArray(stream))
        finally:
            stream.close()

    # -------------------------------------------------------------------------------------------------------- rewrite

    def session_for_rewrites(self) -> Any:
        """A session like Iceberg's own action makes: adaptive execution would change the number of files."""
        session = self._java_session.cloneSession()
        session.conf().set("spark.sql.adaptive.enabled", "false")
        session.conf().set("spark.sql.iceberg.executor-cache.delete-files.enabled", "false")
        return session

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

    def runner_options(self, runner: Any) -> set[str]:
        return set(runner.validOptions())

    def sort_order(self, table: IcebergTable, columns: Sequence[str]) -> Any:
        """``column [asc|desc] [nulls first|last]`` entries as Iceberg's SortOrder."""
        builder = self._jvm.org.apache.iceberg.SortOrder.builderFor(table.java.schema())
        nulls = self._jvm.org.apache.iceberg.NullOrder
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
        manager = self._jvm.org.apache.iceberg.spark.ScanTaskSetManager.get()
        cache.add(name, table.java)
        manager.stageTasks(table.java, name, tasks)
        try:
            # Iceberg 1.10 wants the option, 1.11 and later go by the name alone.
            yield self.spark.read.format("iceberg").option("scan-task-set-id", name).load(name)
        finally:
            cache.remove(name)
            manager.removeTasks(table.java, name)

    def tasks_of_outputs(self, table: IcebergTable, groups: Iterable[Group]) -> Any:
        """Scan tasks over files that no snapshot holds yet."""
        iceberg = self._jvm.org.apache.iceberg
        schema = iceberg.SchemaParser.toJson(table.java.schema())
        everything = iceberg.expressions.ResidualEvaluator.unpartitioned(iceberg.expressions.Expressions.alwaysTrue())
        no_deletes = self._new_array(iceberg.DeleteFile, 0)
        tasks = self._jvm.java.util.ArrayList()
        for group in groups:
            spec = iceberg.PartitionSpecParser.toJson(table.java.specs().get(group.java.outputSpecId()))
            for file in group.java.addedFiles():
                tasks.add(iceberg.BaseFileScanTask(file, no_deletes, schema, spec, everything))
        return tasks

    def tasks_of_inputs(self, groups: Iterable[Group]) -> Any:
        tasks = self._jvm.java.util.ArrayList()
        for group in groups:
            tasks.addAll(group.java.fileScanTasks())
        return tasks

    # -------------------------------------------------------------------------------------------------------- helpers

    def _class(self, name: str) -> Any:
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return self._jvm.java.lang.Class.forName(name, True, loader)

    def _construct(self, name: str, signature: tuple[str, ...], *arguments: Any) -> Any:
        for constructor in self._class(name).getDeclaredConstructors():
            if tuple(p.getName() for p in constructor.getParameterTypes()) == signature:
                constructor.setAccessible(True)
                values = self._new_array(self._jvm.java.lang.Object, len(arguments))
                for i, argument in enumerate(arguments):
                    values[i] = self._jvm.java.util.ArrayList(argument) if isinstance(argument, list) else argument
                return constructor.newInstance(values)
        raise JobError(f"{name} has no constructor {signature}; use Iceberg 1.10 to 1.12")

    def _static(self, name: str, method: str) -> Any:
        # py4j cannot call a static method that shares its name with an instance method.
        found = self._class(name).getMethod(method, self._new_array(self._jvm.java.lang.Class, 0))
        return found.invoke(None, self._new_array(self._jvm.java.lang.Object, 0))


class IcebergTable:
    """One loaded Iceberg table."""

    def __init__(self, gateway: Gateway, java: Any, identifier: str) -> None:
        self.gateway = gateway
        self.java = java
        self.identifier = identifier
        self._iceberg = gateway._jvm.org.apache.iceberg

    # ------------------------------------------------------------------------------------------------------------ facts

    def refresh(self) -> None:
        self.java.refresh()

    @property
    def uuid(self) -> str:
        return str(self.java.uuid())

    @property
    def location(self) -> str:
        return str(self.java.location())

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.java.properties())

    @property
    def format_version(self) -> int:
        return int(self.java.operations().current().formatVersion())

    @property
    def is_encrypted(self) -> bool:
        return "encryption.key-id" in self.properties

    @property
    def data_location(self) -> str:
        """Where new data files go, as Iceberg's location providers resolve it."""
        properties = self.properties
        for key in ("write.data.path", "write.object-storage.path", "write.folder-storage.path"):
            if key in properties:
                return properties[key].rstrip("/")
        return f"{self.location.rstrip('/')}/data"

    def schema(self) -> dict[str, Any]:
        """The current schema as the specification's JSON."""
        return dict(json.loads(self._iceberg.SchemaParser.toJson(self.java.schema())))

    def would_expire(self, older_than_ms: int, retain_last: int) -> set[int]:
        """The snapshots Iceberg's retention rules let go now; nothing is expired."""
        pending = self.java.expireSnapshots().expireOlderThan(older_than_ms).retainLast(retain_last)
        return {int(snapshot.snapshotId()) for snapshot in each(pending.apply())}

    def head(self) -> SnapshotFacts | None:
        return self._facts(self.java.currentSnapshot())

    def snapshot(self, snapshot_id: int) -> SnapshotFacts | None:
        return self._facts(self.java.snapshot(snapshot_id))

    def snapshot_ids(self) -> set[int]:
        return {int(snapshot.snapshotId()) for snapshot in each(self.java.snapshots())}

    def snapshots_since(self, timestamp_ms: int) -> Iterator[SnapshotFacts]:
        """Every snapshot in the log, of any branch, not older than ``timestamp_ms``; newest first."""
        for java in reversed(list(each(self.java.snapshots()))):
            if java.timestampMillis() >= timestamp_ms:
                facts = self._facts(java)
                if facts is not None:
                    yield facts

    def ancestors(self, until: int | None) -> Iterator[SnapshotFacts]:
        """The head and its parents, newest first, up to but without ``until``."""
        current = self.head()
        while current is not None and current.snapshot_id != until:
            yield current
            current = None if current.parent_id is None else self.snapshot(current.parent_id)

    def _facts(self, java: Any) -> SnapshotFacts | None:
        if java is None:
            return None
        parent = java.parentId()
        return SnapshotFacts(
            int(java.snapshotId()),
            None if parent is None else int(parent),
            int(java.timestampMillis()),
            dict(java.summary()),
        )

    # ------------------------------------------------------------------------------------------------------- planning

    def expression(self, filter_json: Mapping[str, Any]) -> Any:
        """An expression from the plan's JSON, typed by the table's schema."""
        try:
            return self._iceberg.expressions.ExpressionParser.fromJson(json.dumps(filter_json), self.java.schema())
        except Exception as error:
            raise RefusedError(
                f"Iceberg cannot read the plan's filter ({first_line(error)}); the schema may have changed, assess again"
            ) from error

    def plan_groups(self, expression: Any, snapshot_id: int, strategy: str, options: Mapping[str, str]) -> list[Group]:
        """What Iceberg's planner wants rewritten of ``snapshot_id``."""
        name = _BINPACK_PLANNER if strategy == "binpack" else _SHUFFLE_PLANNER
        planner = self.gateway._construct(name, _PLANNER_ARGUMENTS, self.java, expression, snapshot_id, True)
        valid = set(planner.validOptions())
        planner.init({key: value for key, value in options.items() if key in valid})
        planned: list[Group] = []
        for java in each(planner.plan().groups()):
            inputs, deletes = self._describe(java.fileScanTasks())
            planned.append(Group(java=java, index=len(planned) + 1, inputs=inputs, deletes=deletes))
        return planned

    def planner_options(self, strategy: str) -> set[str]:
        name = _BINPACK_PLANNER if strategy == "binpack" else _SHUFFLE_PLANNER
        nothing = self._iceberg.expressions.Expressions.alwaysFalse()
        return set(self.gateway._construct(name, _PLANNER_ARGUMENTS, self.java, nothing, None, True).validOptions())

    def _describe(self, tasks: Any) -> tuple[list[InputFile], list[DeleteInput]]:
        inputs: list[InputFile] = []
        deletes: list[DeleteInput] = []
        total = tasks.size()
        for start in range(0, total, CHUNK):
            document = self._describe_chunk(tasks.subList(start, min(start + CHUNK, total)))
            known = len(deletes)
            inputs += [
                InputFile(
                    path=task["data-file"]["file-path"],
                    bytes=task["data-file"]["file-size-in-bytes"],
                    rows=task["data-file"]["record-count"],
                    format=task["data-file"]["file-format"].lower(),
                    deletes=tuple(known + index for index in task.get("delete-file-references", ())),
                )
                for task in document.get("file-scan-tasks", ())
            ]
            deletes += [
                DeleteInput(kind=d["content"], rows=d["record-count"], is_dv=d["file-format"].lower() == "puffin")
                for d in document.get("delete-files", ())
            ]
        return inputs, deletes

    def _describe_chunk(self, tasks: Any) -> dict[str, Any]:
        array_list = self.gateway._jvm.java.util.ArrayList
        try:
            text = self._tasks_json(tasks, array_list())
        except Exception:
            # Iceberg refuses to serialise a task whose deletes are not listed, so this path runs only with deletes.
            found = self._iceberg.util.DeleteFileSet.create()
            for task in tasks:
                found.addAll(task.deletes())
            text = self._tasks_json(tasks, array_list(found))
        return dict(json.loads(text))

    def data_files(self, expression: Any, snapshot_id: int, *, statistics: bool) -> Iterator[list[dict[str, Any]]]:
        """The files a scan would read, as ContentFile JSON in chunks; with column statistics when asked."""
        scan = self.java.newScan().filter(expression).caseSensitive(True).ignoreResiduals().useSnapshot(snapshot_id)
        if statistics:
            scan = scan.includeColumnStats()
        files = scan.planFiles()
        try:
            for chunk in each(self._iceberg.relocated.com.google.common.collect.Iterables.partition(files, CHUNK)):
                yield [t["data-file"] for t in json.loads(self._tasks_json(chunk, None))["file-scan-tasks"]]
        finally:
            files.close()

    def everything(self) -> Any:
        return self._iceberg.expressions.Expressions.alwaysTrue()

    def _tasks_json(self, tasks: Any, deletes: Any) -> str:
        writer = self.gateway._jvm.java.io.StringWriter()
        generator = self._iceberg.util.JsonUtil.factory().createGenerator(writer)
        generator.writeStartObject()
        self._iceberg.rest.TableScanResponseParser.serializeScanTasks(tasks, deletes, self.java.specs(), generator)
        generator.writeEndObject()
        generator.close()
        return str(writer.toString())

    # ------------------------------------------------------------------------------------------------ writing, commits

    def writing_to(self, destination: str) -> IcebergTable:
        """The same state of the table, with new data files under ``destination``; it cannot be committed to."""
        properties = {**self.properties, "write.data.path": destination}
        locations = self._iceberg.LocationProviders.locationsFor(self.location, properties)
        operations = self._iceberg.StaticTableOperations(self.java.operations().current(), self.java.io(), locations)
        return IcebergTable(self.gateway, self._iceberg.BaseTable(operations, self.java.name()), self.identifier)

    def accept_outputs(self, group: Group, files: Any) -> None:
        """Attach what an engine wrote for ``group``."""
        group.java.setOutputFiles(files)
        spec = self.java.specs().get(group.java.outputSpecId())
        parser = self._iceberg.ContentFileParser
        group.outputs = [json.loads(parser.toJson(file, spec)) for file in group.java.addedFiles()]

    def commit(self, groups: Iterable[Group], snapshot_id: int, stamps: Mapping[str, str]) -> None:
        """Publish the groups in one commit; ConflictError, UnknownCommitStateError or JobError otherwise."""
        chosen = self.gateway._jvm.java.util.HashSet()
        for group in groups:
            chosen.add(group.java)
        try:
            manager = self._iceberg.actions.RewriteDataFilesCommitManager(self.java, snapshot_id, True, dict(stamps))
            manager.commitFileGroups(chosen)
        except Exception as error:
            raise translate(error, "the commit failed") from error

    def delete_file(self, path: str) -> None:
        self.java.io().deleteFile(path)

    def list_files(self, prefix: str) -> list[str]:
        """Every file under ``prefix``; RefusedError when the table's storage cannot list."""
        try:
            return [str(info.location()) for info in each(self.java.io().listPrefix(prefix))]
        except Exception as error:
            if is_missing_file(error):
                return []
            raise RefusedError(f"the table's FileIO cannot list {prefix} ({first_line(error)})") from error

    def write_text(self, path: str, text: str) -> None:
        stream = self.java.io().newOutputFile(path).createOrOverwrite()
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def read_text(self, path: str) -> str:
        return self.gateway.read_stream(self.java.io().newInputFile(path).newStream()).decode()


def each(java_iterable: Any) -> Iterator[Any]:
    """The elements of any Java Iterable; py4j itself iterates over collections only."""
    iterator = java_iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def parse_sort_column(text: str) -> tuple[str, bool, bool]:
    """``column [asc|desc] [nulls first|last]`` as (column, descending, nulls first)."""
    words = text.split()
    nulls_first: bool | None = None
    if len(words) > 2 and words[-2].lower() == "nulls" and words[-1].lower() in ("first", "last"):
        nulls_first = words[-1].lower() == "first"
        words = words[:-2]
    descending = False
    if len(words) > 1 and words[-1].lower() in ("asc", "desc"):
        descending = words[-1].lower() == "desc"
        words = words[:-1]
    return " ".join(words), descending, (not descending if nulls_first is None else nulls_first)


# ------------------------------------------------------------------------------------------------------------ exceptions


def translate(error: Exception, what: str) -> JobError:
    """A Java failure as one of ours, by the classes in its chain of causes."""
    if isinstance(error, JobError):
        return error
    names = _java_classes(error)
    message = f"{what}: {first_line(error)}"
    if _UNKNOWN in names:
        return UnknownCommitStateError(message)
    if any(name in names for name in (*_CONFLICTS, *_GONE)) or "null start snapshot" in message:
        return ConflictError(message)
    return JobError(f"{message}; see the Spark driver's log")


def is_missing_file(error: Exception) -> bool:
    return any(name in _java_classes(error) for name in _GONE)


def first_line(error: Exception) -> str:
    """The message of the innermost Java cause, or of the Python error."""
    java = _java_exception(error)
    message = str(error)
    while java is not None:
        message = f"{java.getClass().getSimpleName()}: {java.getMessage()}"
        java = java.getCause()
    return message.strip().splitlines()[0] if message.strip() else type(error).__name__


def _java_exception(error: Exception) -> Any:
    # pyspark wraps some Java exceptions in its own classes, which keep the original as `_origin`.
    origin = getattr(error, "_origin", None) or error
    return getattr(origin, "java_exception", None)


def _java_classes(error: Exception) -> set[str]:
    names: set[str] = set()
    java = _java_exception(error)
    while java is not None:
        current = java.getClass()
        while current is not None:
            names.add(current.getName())
            current = current.getSuperclass()
        java = java.getCause()
    return names
