"""Turns the schema of an Avro file into a function that reads chosen fields and steps over the rest.

A manifest entry has some twenty statistics per column and we want six of its fields. Avro records have no length, so
everything else must still be stepped over. A reader tree does that with a Python call per value; here the writer's
schema is turned once into straight-line Python on top of PyIceberg's compiled decoder, which is three times as fast.
The generated text holds field ids and lengths only, never a name or a value from the file.

PyIceberg's decoder does not check bounds, so the generated code does.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Protocol
from uuid import UUID

from airflow_iceberg_compaction.health.model import NAN

Record = tuple[Any, ...]


class Decoder(Protocol):
    """The part of PyIceberg's Avro decoder that generated code calls."""

    def tell(self) -> int: ...
    def read(self, n: int) -> bytes: ...
    def read_int(self) -> int: ...
    def read_ints(self, count: int) -> Any: ...
    def read_bytes(self) -> bytes: ...
    def skip(self, n: int) -> None: ...
    def skip_bytes(self) -> None: ...
    def read_int_bytes_dict(self, count: int, dest: dict[int, bytes]) -> None: ...


# (decoder, number of records, bytes of the block, what to do with a record, inherited snapshot and sequence number)
Decode = Callable[[Decoder, int, int, Callable[[Record], None], int, int], None]


@dataclass(frozen=True)
class LiveEntries:
    """How manifest entries tell that they are live, by field id, and which numbers they inherit when they have none.

    Only an ADDED entry may inherit its sequence number, unless the number is 0, that of all files of format 1.
    """

    status: int
    snapshot: int
    sequence: int
    added: int = 1
    deleted: int = 2


@dataclass(frozen=True)
class Wanted:
    """Which fields of a record to read, by field id, in the order of the resulting tuple.

    A record field that is not wanted itself but holds wanted ones is entered (``data_file``). Of an int-keyed map,
    only the keys in ``keys`` are read when ``keys`` has an entry for it. Fields absent from the file read as ``defaults``
    or None, unless ``required``. A field of another kind than ``kinds`` says is an error, so values can be trusted.
    """

    fields: tuple[int, ...]
    kinds: tuple[tuple[int, str], ...]  # number, string, record or array
    required: frozenset[int]
    live: LiveEntries | None = None  # leave out records that are not
    raw: frozenset[int] = frozenset()  # strings to leave as bytes
    enter: frozenset[int] = frozenset()
    keys: tuple[tuple[int, frozenset[int]], ...] = ()
    defaults: tuple[tuple[int, int], ...] = ()


@functools.lru_cache(maxsize=256)
def compile_decoder(schema_text: str, wanted: Wanted, checked: bool) -> Decode:
    """A function that reads ``wanted`` from blocks written with ``schema_text``; memoised, since schemas repeat."""
    generator = _Generator(wanted, checked)
    generator.write(json.loads(schema_text))
    scope: dict[str, Any] = {
        "past_end": _past_end,
        "no_sequence": _no_sequence,
        "double": struct.Struct("<d").unpack,
        "single": struct.Struct("<f").unpack,
        "not_a_number": NAN,
        "decimal": _decimal,
        "uuid": _uuid,
    }
    exec("\n".join(generator.lines), scope)
    return scope["decode"]  # type: ignore[no-any-return]


def _no_sequence() -> None:
    raise ValueError("an entry that is not new has no sequence number")


def _past_end() -> None:
    raise EOFError("a length points past the end of the block")


_EXACT = Context(prec=80)  # Iceberg's decimals have up to 38 digits, Python's default context 28


def _decimal(unscaled: bytes, scale: int) -> Decimal:
    return Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale, _EXACT)


def _uuid(value: bytes) -> UUID:
    return UUID(bytes=value)


class _Generator:
    """Writes the body of one decoder."""

    def __init__(self, wanted: Wanted, checked: bool) -> None:
        self.wanted = wanted
        self.checked = checked
        self.keys = dict(wanted.keys)
        self.lines: list[str] = []
        self.named: dict[str, Any] = {}
        self.counter = 0

    def write(self, schema: dict[str, Any]) -> None:
        self.emit(0, "def decode(decoder, count, size, add, own_snapshot, own_sequence):")
        self.emit(1, "read_int = decoder.read_int; read_ints = decoder.read_ints; read = decoder.read")
        self.emit(1, "skip = decoder.skip; tell = decoder.tell")
        if not self.checked:
            self.emit(1, "skip_bytes = decoder.skip_bytes; read_pairs = decoder.read_int_bytes_dict")
            # One dictionary that is filled over and over, and never read, grows only once.
            self.emit(1, "read_bytes = decoder.read_bytes; unused = {}")
        self.emit(1, "for _ in range(count):")
        found: set[int] = set()
        self.record(schema, 2, found)
        if not found >= self.wanted.required:
            raise ValueError(f"no fields with the ids {sorted(self.wanted.required - found)}")
        missing = [
            f"f{field} = {dict(self.wanted.defaults).get(field)!r}"
            for field in self.wanted.fields
            if field not in found
        ]
        if missing:
            self.lines.insert(1, "    " + "; ".join(missing))
        indent = 2
        if (live := self.wanted.live) is not None:
            self.emit(2, f"if f{live.status} != {live.deleted}:")
            self.emit(3, f"if f{live.snapshot} is None: f{live.snapshot} = own_snapshot")
            self.emit(3, f"if f{live.sequence} is None:")
            self.emit(4, f"if f{live.status} != {live.added} and own_sequence: no_sequence()")
            self.emit(4, f"f{live.sequence} = own_sequence")
            indent = 3
        self.emit(indent, "add((" + "".join(f"f{field}, " for field in self.wanted.fields) + "))")

    def record(self, schema: Any, indent: int, found: set[int]) -> None:
        for field in self.define(schema)["fields"]:
            field_id = int(field.get("field-id", -1))
            if field_id in self.wanted.fields:
                self.check(field["type"], field_id)
                found.add(field_id)
                self.read(field["type"], indent, f"f{field_id}", field_id)
            elif field_id in self.wanted.enter:
                self.record(field["type"], indent, found)
            else:
                self.skip(field["type"], indent)

    def check(self, schema: Any, field_id: int) -> None:
        schema = self.define(schema)
        if isinstance(schema, list) and field_id not in self.wanted.required:
            schema = self.define(self.optional(schema)[1])
        kind = schema["type"] if isinstance(schema, dict) else schema
        expected = dict(self.wanted.kinds)[field_id]
        if {"int": "number", "long": "number"}.get(str(kind), kind) != expected:
            raise ValueError(f"field {field_id} is a {kind!r}, expected a {expected}")

    def emit(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    def variable(self) -> str:
        self.counter += 1
        return f"v{self.counter}"

    def define(self, schema: Any) -> Any:
        """Follows a reference to a type that was named earlier; Avro spells each named type out once."""
        while isinstance(schema, dict) and isinstance(schema.get("type"), dict | list):
            schema = schema["type"]
        if isinstance(schema, dict) and "name" in schema:
            self.named[schema["name"]] = schema
        if isinstance(schema, str) and schema in self.named:
            return self.named[schema]
        return schema

    def optional(self, schema: list[Any]) -> tuple[int, Any]:
        if len(schema) != 2 or "null" not in schema:
            raise ValueError(f"a union of {len(schema)} types")
        branch = 1 - schema.index("null")
        return branch, schema[branch]

    def read(self, schema: Any, indent: int, target: str, field_id: int = -1) -> None:
        schema = self.define(schema)
        if isinstance(schema, list):
            branch, inner = self.optional(schema)
            self.emit(indent, f"if read_int() == {branch}:")
            self.read(inner, indent + 1, target, field_id)
            self.emit(indent, "else:")
            self.emit(indent + 1, f"{target} = None")
            return
        kind = schema if isinstance(schema, str) else schema["type"]
        logical = schema.get("logicalType") if isinstance(schema, dict) else None
        if kind in ("int", "long"):
            self.emit(indent, f"{target} = read_int()")
        elif kind == "null":
            self.emit(indent, f"{target} = None")
        elif kind == "boolean":
            self.emit(indent, f"{target} = read(1) != b'\\0'")
        elif kind in ("float", "double"):
            # PyIceberg's read_double answers with single precision, which names another partition.
            size, unpack = (4, "single") if kind == "float" else (8, "double")
            self.emit(indent, f"{target} = {unpack}(read({size}))[0]")
            self.emit(indent, f"if {target} != {target}: {target} = not_a_number")
        elif kind in ("string", "bytes", "fixed"):
            self.read_blob(schema, kind, logical, indent, target, field_id in self.wanted.raw)
        elif kind == "record":
            parts = [self.variable() for _ in schema["fields"]]
            for part, field in zip(parts, schema["fields"], strict=True):
                self.read(field["type"], indent, part)
            self.emit(indent, f"{target} = (" + "".join(f"{part}, " for part in parts) + ")")
        elif kind == "array" and field_id >= 0:  # never inside a partition, whose values are keys
            self.read_array(schema, indent, target, field_id)
        else:
            raise ValueError(f"a field of type {kind!r}")

    def read_blob(self, schema: Any, kind: str, logical: str | None, indent: int, target: str, raw: bool) -> None:
        if kind == "fixed":
            self.emit(indent, f"{target} = read({int(schema['size'])})")
        elif not self.checked:
            self.emit(indent, f"{target} = read_bytes()")
        else:
            length = self.variable()
            self.emit(indent, f"{length} = read_int()")
            self.emit(indent, f"if not 0 <= {length} <= size - tell(): past_end()")
            self.emit(indent, f"{target} = read({length})")
        if logical == "decimal":
            self.emit(indent, f"{target} = decimal({target}, {int(schema.get('scale', 0))})")
        elif logical == "uuid" and kind == "fixed":
            self.emit(indent, f"{target} = uuid({target})")
        elif kind == "string" and not raw:
            self.emit(indent, f"{target} = {target}.decode('utf-8')")

    def read_array(self, schema: Any, indent: int, target: str, field_id: int) -> None:
        items = self.define(schema["items"])
        if schema.get("logicalType") == "map":
            self.read_map(items, indent, target, field_id)
            return
        self.emit(indent, f"{target} = []")
        count = self.open_blocks(indent)
        item = self.variable()
        self.emit(indent + 1, f"for _ in range({count}):")
        self.read(items, indent + 2, item)
        self.emit(indent + 2, f"{target}.append({item})")
        self.emit(indent + 1, f"{count} = read_int()")

    def read_map(self, items: Any, indent: int, target: str, field_id: int) -> None:
        """A map with integer keys, which Iceberg writes as an array of key-value records."""
        key_type, value_type = (self.define(field["type"]) for field in items["fields"])
        self.emit(indent, f"{target} = {{}}")
        count = self.open_blocks(indent)
        key, value = self.variable(), self.variable()
        self.emit(indent + 1, f"for _ in range({count}):")
        self.read(key_type, indent + 2, key)
        if field_id in self.keys:
            wanted = ", ".join(str(int(k)) for k in sorted(self.keys[field_id]))
            self.emit(indent + 2, f"if {key} in ({wanted},):" if wanted else "if False:")
            self.read(value_type, indent + 3, value)
            self.emit(indent + 3, f"{target}[{key}] = {value}")
            self.emit(indent + 2, "else:")
            self.skip(value_type, indent + 3)
        else:
            self.read(value_type, indent + 2, value)
            self.emit(indent + 2, f"{target}[{key}] = {value}")
        self.emit(indent + 1, f"{count} = read_int()")

    def open_blocks(self, indent: int) -> str:
        """Starts the loop over an array's blocks. A negative count is followed by the block's size in bytes."""
        count = self.variable()
        self.emit(indent, f"{count} = read_int()")
        self.emit(indent, f"while {count}:")
        self.emit(indent + 1, f"if {count} < 0: {count} = -{count}; read_int()")
        self.emit(indent + 1, f"if {count} > size: past_end()")
        return count

    def skip(self, schema: Any, indent: int) -> None:
        schema = self.define(schema)
        if isinstance(schema, list):
            branch, inner = self.optional(schema)
            self.emit(indent, f"if read_int() == {branch}:")
            self.skip(inner, indent + 1)
            return
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind in ("int", "long", "enum"):
            self.emit(indent, "read_int()")
        elif kind == "null":
            self.emit(indent, "pass")
        elif kind in ("boolean", "float", "double", "fixed"):
            size = int(schema["size"]) if kind == "fixed" else {"boolean": 1, "float": 4, "double": 8}[kind]
            self.emit(indent, f"skip({size})")
        elif kind in ("string", "bytes") and not self.checked:
            self.emit(indent, "skip_bytes()")
        elif kind in ("string", "bytes"):
            length = self.variable()
            self.emit(indent, f"{length} = read_int()")
            self.emit(indent, f"if not 0 <= {length} <= size: past_end()")
            self.emit(indent, f"skip({length})")
        elif kind == "record":
            self.emit(indent, "pass")
            for field in schema["fields"]:
                self.skip(field["type"], indent)
        elif kind in ("array", "map"):
            self.skip_items(schema, indent)
        else:
            raise ValueError(f"a field of type {kind!r}")

    def skip_items(self, schema: Any, indent: int) -> None:
        items = self.define(schema["items"] if schema["type"] == "array" else schema["values"])
        kinds: list[Any] = [items]
        if isinstance(items, dict):
            kinds = [self.define(field["type"]) for field in items.get("fields", [])]
        if schema["type"] == "map":
            kinds = ["string", items]
        count = self.variable()
        self.emit(indent, f"{count} = read_int()")
        self.emit(indent, f"while {count}:")
        if self.checked:
            self.emit(indent + 1, f"if not -size <= {count} <= size: past_end()")
        self.emit(indent + 1, f"if {count} < 0:")
        self.emit(indent + 2, f"{count} = read_int()")
        self.emit(indent + 2, f"if not 0 <= {count} <= size: past_end()")
        self.emit(indent + 2, f"skip({count})")
        self.emit(indent + 1, "else:")
        if kinds and all(kind in ("int", "long") for kind in kinds):
            self.emit(indent + 2, f"read_ints({count} * {len(kinds)})")
        elif kinds == ["int", "bytes"] and not self.checked:
            self.emit(indent + 2, f"read_pairs({count}, unused)")
        else:
            self.emit(indent + 2, f"for _ in range({count}):")
            self.emit(indent + 3, "pass")
            if schema["type"] == "map":
                self.skip("string", indent + 3)
            self.skip(items, indent + 3)
        self.emit(indent + 1, f"{count} = read_int()")
