"""One Iceberg table: its facts, Iceberg's plan for it, and commits to it."""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from spark_jobs.errors import CatalogError, ConflictError, RefusedError, UnknownCommitStateError
from spark_jobs.jvm.failures import CLEANABLE, first_line, is_missing_file, java_classes, translate
from spark_jobs.jvm.values import DeleteInput, Group, InputFile, SnapshotFacts, each

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from spark_jobs.jvm.gateway import Gateway

CHUNK = 2_000  # files per call: bounds both the text that crosses the border and the driver's memory


class IcebergTable:
    """One loaded Iceberg table."""

    def __init__(self, gateway: Gateway, java: Any, identifier: str) -> None:
        self.gateway = gateway
        self.java = java
        self.identifier = identifier

    def _class(self, name: str) -> Any:
        return self.gateway.java(f"org.apache.iceberg.{name}")

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
        return dict(json.loads(self._class("util.JsonUtil").mapper().writeValueAsString(self.java.properties())))

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

    @property
    def has_several_specs(self) -> bool:
        return len(self.java.specs()) > 1

    def schema(self) -> dict[str, Any]:
        """The current schema as the specification's JSON."""
        return dict(json.loads(self._class("SchemaParser").toJson(self.java.schema())))

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
        """The snapshots in the log, of any branch, that are no older than ``timestamp_ms``; in any order, as some writers do."""
        for snapshot in each(self.java.snapshots()):
            if snapshot.timestampMillis() >= timestamp_ms and (facts := self._facts(snapshot)):
                yield facts

    def lineage_since(self, timestamp_ms: int) -> Iterator[SnapshotFacts]:
        """The head and its ancestors, newest first, down to the first one older than ``timestamp_ms``."""
        facts = self.head()
        while facts is not None and facts.timestamp_ms >= timestamp_ms:
            yield facts
            facts = None if facts.parent_id is None else self.snapshot(facts.parent_id)

    def _facts(self, java: Any) -> SnapshotFacts | None:
        if java is None:
            return None
        # One call instead of one per entry of the summary: a log of hundreds of snapshots is read after every commit.
        document = json.loads(self._class("SnapshotParser").toJson(java))
        return SnapshotFacts(
            int(document["snapshot-id"]),
            document.get("parent-snapshot-id"),
            int(document["timestamp-ms"]),
            document.get("summary", {}),
            document.get("schema-id"),
        )

    # ------------------------------------------------------------------------------------------------------- planning

    def expression(self, filter_json: Mapping[str, Any]) -> Any:
        """An expression from the plan's JSON, typed by the table's schema."""
        try:
            return self._class("expressions.ExpressionParser").fromJson(json.dumps(filter_json), self.java.schema())
        except Exception as error:
            raise RefusedError(
                f"Iceberg cannot read the plan's filter ({first_line(error)}); the schema may have changed, assess again"
            ) from error

    def plan_groups(self, expression: Any, snapshot_id: int, strategy: str, options: Mapping[str, str]) -> list[Group]:
        """What Iceberg's planner wants rewritten of ``snapshot_id``."""
        planner = self.gateway.planner(self, strategy, expression, snapshot_id)
        valid = set(planner.validOptions())
        planner.init({key: value for key, value in options.items() if key in valid})
        groups = list(each(planner.plan().groups()))
        tasks = self.gateway.java("java.util.ArrayList")()
        for java in groups:
            tasks.addAll(java.fileScanTasks())
        described = self._describe(tasks)
        planned: list[Group] = []
        for index, java in enumerate(groups, start=1):
            members = [next(described) for _ in range(java.inputFileNum())]
            deletes = {delete for _, attached in members for delete in attached}
            planned.append(Group(java=java, index=index, inputs=[file for file, _ in members], deletes=list(deletes)))
        return planned

    def planner_options(self, strategy: str) -> set[str]:
        nothing = self._class("expressions.Expressions").alwaysFalse()
        return set(self.gateway.planner(self, strategy, nothing, None).validOptions())

    def _describe(self, tasks: Any) -> Iterator[tuple[InputFile, list[DeleteInput]]]:
        """Each task's file and the deletes attached to it, in order."""
        total = tasks.size()
        for start in range(0, total, CHUNK):
            document = self._describe_chunk(tasks.subList(start, min(start + CHUNK, total)))
            deletes = [_delete(delete) for delete in document.get("delete-files", ())]
            vectors = {delete.data_file: delete for delete in deletes if delete.is_dv}
            for task in document.get("file-scan-tasks", ()):
                file = _input(task["data-file"])
                attached = {deletes[index] for index in task.get("delete-file-references", ())}
                # Before 1.11 the references to all vectors of a Puffin file name the last one.
                yield file, [d for d in attached if not d.is_dv] + [v for v in (vectors.get(file.path),) if v]

    def _describe_chunk(self, tasks: Any) -> dict[str, Any]:
        array_list = self.gateway.java("java.util.ArrayList")
        try:
            text = self._tasks_json(tasks, array_list())
        except Exception:
            # Iceberg refuses to serialise a task whose deletes are not listed, so this path runs only with deletes.
            found = self._class("util.DeleteFileSet").create()
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
            for chunk in each(self._class("relocated.com.google.common.collect.Iterables").partition(files, CHUNK)):
                yield [t["data-file"] for t in json.loads(self._tasks_json(chunk, None))["file-scan-tasks"]]
        finally:
            files.close()

    def paths_in_any_snapshot(self, fragment: str) -> list[str]:
        """The data files of all snapshots whose path contains ``fragment``, found by the cluster."""
        files = self.gateway.metadata_rows(self, "ALL_DATA_FILES")
        found = files.where(files["file_path"].contains(fragment)).select("file_path").distinct()
        return [row["file_path"] for row in found.collect()]

    def everything(self) -> Any:
        return self._class("expressions.Expressions").alwaysTrue()

    def _tasks_json(self, tasks: Any, deletes: Any) -> str:
        writer = self.gateway.java("java.io.StringWriter")()
        generator = self._class("util.JsonUtil").factory().createGenerator(writer)
        generator.writeStartObject()
        self._class("rest.TableScanResponseParser").serializeScanTasks(tasks, deletes, self._specs, generator)
        generator.writeEndObject()
        generator.close()
        return str(writer.toString())

    @cached_property
    def _specs(self) -> Any:
        """The table's specs for Iceberg's parser, which refuses files of a spec of which only ``void`` fields are left.

        Such files hold a partition of nulls; any spec with as many fields that is not all void lets them pass.
        """
        no_order = ("variant", "geometry", "geography", "unknown")
        columns = [f["id"] for f in self.schema()["fields"] if isinstance(f["type"], str) and f["type"] not in no_order]
        specs = self.gateway.java("java.util.HashMap")(self.java.specs())
        parser = self._class("PartitionSpecParser")
        for spec_id, spec in dict(self.java.specs()).items():
            fields = json.loads(parser.toJson(spec))["fields"]
            if fields and columns and not spec.isPartitioned():
                stand_in = [
                    {"name": f"{n}. of nothing", "transform": "void", "source-id": columns[0], "field-id": 1000 + n}
                    for n in range(len(fields))
                ]
                stand_in[0]["transform"] = "identity"
                text = json.dumps({"spec-id": spec_id, "fields": stand_in})
                specs.put(spec_id, parser.fromJson(self.java.schema(), text))
        return specs

    # ------------------------------------------------------------------------------------------------ writing, commits

    def writing_to(self, destination: str) -> IcebergTable:
        """The same state of the table, with new data files under ``destination``; it cannot be committed to."""
        properties = {**self.properties, "write.data.path": destination}
        locations = self._class("LocationProviders").locationsFor(self.location, properties)
        operations = self._class("StaticTableOperations")(self.java.operations().current(), self.java.io(), locations)
        return IcebergTable(self.gateway, self._class("BaseTable")(operations, self.java.name()), self.identifier)

    def accept_outputs(self, group: Group, files: Any) -> None:
        """Attach what an engine wrote for ``group``."""
        group.java.setOutputFiles(files)
        spec = self.java.specs().get(group.java.outputSpecId())
        parser = self._class("ContentFileParser")
        group.outputs = [json.loads(parser.toJson(file, spec)) for file in group.java.addedFiles()]

    def commit(
        self, groups: Iterable[Group], snapshot_id: int, stamps: Mapping[str, str], *, as_old_as_start: bool = True
    ) -> None:
        """Publish the groups in one commit; ConflictError, UnknownCommitStateError or JobError otherwise.

        New files are as old as the snapshot they were planned from, so that deletes committed since keep applying. The
        plan asks for younger ones where position deletes of that very snapshot would else attach to them again.
        """
        chosen = self.gateway.java("java.util.HashSet")()
        for group in groups:
            chosen.add(group.java)
        try:
            self.refresh()
        except Exception as error:
            raise CatalogError(f"the batch was not committed, the catalog is away: {first_line(error)}") from error
        if self.java.snapshot(snapshot_id) is None:
            raise ConflictError(f"snapshot {snapshot_id}, from which the batch was planned, was expired")
        try:
            manager = self._class("actions.RewriteDataFilesCommitManager")(
                self.java, snapshot_id, as_old_as_start, dict(stamps)
            )
            manager.commitFileGroups(chosen)
        except Exception as error:
            known = translate(error, "the commit failed", of_commit=True)
            # Only Iceberg's "cleanable" failures promise that nothing was published.
            if CLEANABLE in java_classes(error):
                raise known from error
            raise UnknownCommitStateError(str(known)) from error

    def delete_file(self, path: str) -> None:
        self.java.io().deleteFile(path)

    def has_file(self, path: str) -> bool:
        return bool(self.java.io().newInputFile(path).exists())

    def list_files(self, prefix: str) -> list[str]:
        """Every file under ``prefix``; RefusedError when the table's storage cannot list."""
        try:
            found = [str(info.location()) for info in each(self.java.io().listPrefix(prefix))]
        except Exception as error:
            if is_missing_file(error):
                return []
            raise RefusedError(f"the table's FileIO cannot list {prefix} ({first_line(error)})") from error
        # Some (ADLSFileIO) leave out the container that they were asked about.
        container = re.match(r"[a-z0-9]+://[^/]+/", prefix)
        return [path if container is None or ":" in path else container[0] + path.lstrip("/") for path in found]

    def write_text(self, path: str, text: str) -> None:
        self.gateway.write_stream(self.java.io().newOutputFile(path).createOrOverwrite(), text)

    def read_text(self, path: str) -> str:
        return self.gateway.read_stream(self.java.io().newInputFile(path).newStream()).decode()


def _input(file: Mapping[str, Any]) -> InputFile:
    return InputFile(
        path=file["file-path"], bytes=file["file-size-in-bytes"], rows=file["record-count"], spec_id=file["spec-id"]
    )


def _delete(file: Mapping[str, Any]) -> DeleteInput:
    is_dv = file["file-format"].lower() == "puffin"
    return DeleteInput(
        path=file["file-path"], data_file=file["referenced-data-file"] if is_dv else "", rows=file["record-count"]
    )
