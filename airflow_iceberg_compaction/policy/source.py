"""Reads YAML into a tree with places, in bounded time and memory, whatever the file holds.

Plain scalars are read as YAML 1.2 says: only ``true`` and ``false`` are booleans, ``off`` and ``no`` are text, ``010`` is no
number. Anchors, aliases, merges and tags are refused: a policy is read by people, line by line.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import yaml

from airflow_iceberg_compaction.policy.catalog_properties import may_hold_secret
from airflow_iceberg_compaction.policy.errors import PolicyError, PolicyUnreadableError, Problem
from airflow_iceberg_compaction.policy.nodes import Mapping, Node, Scalar, ScalarValue, Sequence

MAX_BYTES = 8 * 1000 * 1000
MAX_DEPTH = 32
MAX_KEYS = 1000  # of one mapping
MAX_ITEMS = 20_000  # of one list
MAX_PROBLEMS = 500

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
# What YAML forbids, and the line breaks that YAML counts but editors do not: line numbers would be off.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?(\.[0-9]{1,30}|[0-9]{1,30}\.[0-9]{0,30}|[0-9]{1,30}(?=[eE]))([eE][-+]?[0-9]{1,3})?")


@dataclass
class Source:
    """The text of one file, and the problems found in it so far."""

    file: str
    text: str
    problems: list[Problem] = field(default_factory=list)
    # Values of keys that the same mapping has already, with the line of the first; they are left out of the tree.
    duplicates: list[tuple[Node, int]] = field(default_factory=list)

    @cached_property
    def lines(self) -> list[str]:
        return _LINE_BREAK.split(self.text)

    def problem(self, line: int, column: int, path: str, complaint: str) -> Problem:
        """A problem at a place; ``complaint`` reads ``what is wrong; what is right``."""
        line = min(max(line, 1), len(self.lines))
        source = self.lines[line - 1]
        column = min(max(column, 1), len(source) + 1)
        message, _, advice = complaint.partition("; ")
        return Problem(self.file, line, column, path, message, advice, "" if may_hold_secret(source) else source)

    def complain(self, line: int, column: int, path: str, complaint: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(self.problem(line, column, path, complaint))

    def error(self) -> PolicyError:
        return PolicyError(in_file_order(self.problems))


def in_file_order(problems: list[Problem]) -> list[Problem]:
    """Sorted, each once: a mistake in `defaults` is met again in every table."""
    return sorted(set(problems), key=lambda problem: (problem.file, problem.line, problem.column, problem.message))


def read_source(path: str | Path) -> Source:
    """The file as text; PolicyError if it cannot be read, is too large, or is not UTF-8."""
    file = str(path)
    try:
        with Path(path).open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        advice = "check the path, or write a file with `iceberg-compaction init`"
        raise PolicyUnreadableError([Problem(file, 1, 1, "", f"cannot be read ({reason})", advice)]) from error
    except ValueError as error:  # a NUL in the path
        raise PolicyUnreadableError([Problem(file, 1, 1, "", f"is not a path ({error})", "check the path")]) from error
    if len(content) > MAX_BYTES:
        advice = "use name patterns, or split it into several policies"
        raise PolicyError([Problem(file, 1, 1, "", f"the file is larger than {MAX_BYTES // 10**6}MB", advice)])
    source = Source(file, _decode(file, content))
    if control := _CONTROL.search(source.text):
        line, column = _line_and_column(source.text, control.start())
        name = f"U+{ord(control[0]):04X}"
        source.complain(line, column, "", f"the character {name} is not allowed in YAML; remove it")
        raise source.error()
    return source


def parse(source: Source) -> Mapping:
    """The file's tree. Duplicate keys are added to ``source.duplicates``; what leaves no tree to judge is raised."""
    try:
        root = _Builder(source).build()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        source.complain(line, column, "", _syntax_complaint(source, error, line, column))
        raise source.error() from None
    except yaml.YAMLError as error:
        source.complain(1, 1, "", f"is not YAML ({' '.join(str(error).split())[:200]}); check it with a YAML editor")
        raise source.error() from None
    if not isinstance(root, Mapping):
        source.complain(
            root.line if root else 1,
            root.column if root else 1,
            "",
            f"{'the file is empty' if root is None else 'a policy is a mapping'}; begin with `version: 1`, or let "
            "`iceberg-compaction init` write a starter",
        )
        raise source.error()
    return root


class _Stop(Exception):
    """The rest of the file cannot change the verdict."""


class _Builder:
    """Builds the tree from parser events: nothing is expanded, nothing recurses."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.stack: list[Mapping | Sequence] = []
        self.keys: list[yaml.ScalarEvent | None] = []  # the pending key of each open mapping
        self.root: Node | None = None
        self.documents = 0
        self.refused = False

    def build(self) -> Node | None:
        try:
            for event in yaml.parse(self.source.text, Loader=_LOADER):
                self._take(event)
        except _Stop:
            pass
        except RecursionError:  # the pure Python scanner, on hosts without libyaml
            self.source.complain(1, 1, "", f"the file is nested deeper than {MAX_DEPTH} levels; a policy needs six")
            self.refused = True
        if self.refused:
            raise self.source.error()
        return self.root

    def _take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._open(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self.stack.pop()
            self.keys.pop()
        elif isinstance(event, yaml.AliasEvent):
            alias = f"aliases (*{_shorten(event.anchor or '')}) are not allowed"
            self._refuse(event, f"{alias}; put a pattern that begins with * in quotes, or write the value out")
            self._place(Scalar(None, ""), event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self._refuse(event, "the file holds more than one YAML document; keep one policy per file")
                raise _Stop

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._check_decorations(event)
        if self.stack and isinstance(self.stack[-1], Mapping) and self.keys[-1] is None:
            if event.value == "<<":
                self._refuse(event, "merge keys (<<) are not allowed; use defaults or profiles")
            self.keys[-1] = event
            return
        plain = not event.style
        self._place(Scalar(_resolve(event.value) if plain else event.value, event.value), event)

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        self._check_decorations(event)
        if len(self.stack) >= MAX_DEPTH:
            self._refuse(event, f"the file is nested deeper than {MAX_DEPTH} levels; a policy needs six")
            raise _Stop
        if self.stack and isinstance(self.stack[-1], Mapping) and self.keys[-1] is None:
            self._refuse(event, "a key must be a word; did you mean to quote it, as in '{{ x }}'?")
            raise _Stop
        node: Mapping | Sequence = Mapping() if isinstance(event, yaml.MappingStartEvent) else Sequence()
        self._place(node, event)
        self.stack.append(node)
        self.keys.append(None)

    def _place(self, node: Node, event: yaml.Event) -> None:
        node.line, node.column = _start(event)
        if not self.stack:
            self.root = node
            return
        parent = self.stack[-1]
        node.parent = parent
        if isinstance(parent, Mapping) and len(parent.entries) >= MAX_KEYS:
            self._refuse(event, f"a mapping has more than {MAX_KEYS} keys; this is no policy, or it must be split")
            raise _Stop
        if isinstance(parent, Sequence) and len(parent.items) >= MAX_ITEMS:
            self._refuse(event, f"a list has more than {MAX_ITEMS} items; use name patterns, or split the policy")
            raise _Stop
        if isinstance(parent, Sequence):
            node.key = len(parent.items)
            parent.items.append(node)
            return
        key = self.keys[-1]
        self.keys[-1] = None
        if key is None:  # _open and _scalar have seen to it
            raise _Stop
        node.key = key.value
        node.key_line, node.key_column = _start(key)
        if key.value in parent.entries:
            if len(self.source.duplicates) < MAX_PROBLEMS:
                self.source.duplicates.append((node, parent.entries[key.value].key_line))
        else:
            parent.entries[key.value] = node

    def _check_decorations(self, event: yaml.ScalarEvent | yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        if event.anchor:
            self._refuse(event, f"anchors (&{_shorten(event.anchor)}) are not allowed; use defaults or profiles")
        if event.tag:
            self._refuse(event, f"tags ({_shorten(event.tag)}) are not allowed; remove it")

    def _refuse(self, event: yaml.Event, complaint: str) -> None:
        self.refused = True
        self.source.complain(*_start(event), "", complaint)
        if len(self.source.problems) >= MAX_PROBLEMS:
            raise _Stop


def _start(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _resolve(text: str) -> ScalarValue:
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text


def _decode(file: str, content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise PolicyError([Problem(file, 1, 1, "", "the file is encoded as UTF-16", "save it as UTF-8")])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig")
        line, column = _line_and_column(before, len(before))
        message = f"the byte 0x{content[error.start]:02x} is not UTF-8"
        raise PolicyError([Problem(file, line, column, "", message, "save the file as UTF-8")]) from error


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    before = _LINE_BREAK.split(text[:offset])
    return len(before), len(before[-1]) + 1


def _syntax_complaint(source: Source, error: yaml.MarkedYAMLError, line: int, column: int) -> str:
    text = source.lines[line - 1] if line <= len(source.lines) else ""
    here = text[column - 1 : column]
    if here == "\t" or "\t" in text[: len(text) - len(text.lstrip())]:
        return "a tab cannot indent YAML; use spaces"
    if here in ("@", "`", "%"):
        return f"a value cannot begin with {here!r}; put it in quotes"
    problem = " ".join(str(error.problem or error.context or "it cannot be read").split())
    if "mapping values are not allowed" in problem:
        return "a ':' is not expected here; check the indentation, or put the value in quotes"
    if any(words in problem for words in ("could not find expected ':'", "did not find expected key", "<block end>")):
        return "this is neither a key with ':' nor the end of the value above; check indentation, quotes and brackets"
    return f"is not valid YAML: {problem}; check indentation, quotes and brackets near here"


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
