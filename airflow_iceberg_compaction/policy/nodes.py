"""The policy file as a tree whose every node knows its place, so that each value can be traced to where it was set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

ScalarValue: TypeAlias = "str | int | float | bool | None"


@dataclass(slots=True, eq=False)
class Scalar:
    value: ScalarValue
    text: str  # as written; what maps of text properties take, whatever it looks like
    line: int = 0  # from 1; 0: not from a file
    column: int = 0
    key_line: int = 0  # of the key that holds this node; 0: an item of a list, or the root
    key_column: int = 0
    parent: Node | None = field(default=None, repr=False)
    key: str | int = ""
    layer: str = ""  # the built-in profile this comes from; empty: the file


@dataclass(slots=True, eq=False)
class Sequence:
    items: list[Node] = field(default_factory=list)
    line: int = 0
    column: int = 0
    key_line: int = 0
    key_column: int = 0
    parent: Node | None = field(default=None, repr=False)
    key: str | int = ""
    layer: str = ""


@dataclass(slots=True, eq=False)
class Mapping:
    entries: dict[str, Node] = field(default_factory=dict)
    line: int = 0
    column: int = 0
    key_line: int = 0
    key_column: int = 0
    parent: Node | None = field(default=None, repr=False)
    key: str | int = ""
    layer: str = ""
    plain: dict[str, Any] | None = field(default=None, repr=False)  # what `to_plain` made of it


Node: TypeAlias = "Scalar | Sequence | Mapping"


def to_plain(node: Node) -> Any:
    """The node as dicts, tuples and scalars; the same object for the same mapping, as merged trees share branches."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return tuple(to_plain(item) for item in node.items)
    if node.plain is None:
        node.plain = {key: to_plain(value) for key, value in node.entries.items()}
    return node.plain


def from_plain(value: Any, layer: str) -> Node:
    """A tree that comes from no file but from ``layer``."""
    if isinstance(value, dict):
        return Mapping({key: from_plain(item, layer) for key, item in value.items()}, layer=layer)
    return Scalar(value, str(value), layer=layer)


def merge(below: Mapping, above: Mapping) -> Mapping:
    """``above`` laid over ``below``: mappings merge by key, everything else is replaced. Neither is changed."""
    entries = dict(below.entries)
    for key, node in above.entries.items():
        lower = entries.get(key)
        both = isinstance(lower, Mapping) and isinstance(node, Mapping)
        entries[key] = merge(lower, node) if both else node  # type: ignore[arg-type]
    return _copy(above if above.line else below, entries)


def without(node: Mapping, path: tuple[str | int, ...]) -> Mapping:
    """A copy of ``node`` that lacks the value at ``path``; a value inside a list takes the whole list with it."""
    if not path or not isinstance(path[0], str) or path[0] not in node.entries:
        return node
    entries = dict(node.entries)
    child = entries[path[0]]
    if len(path) > 1 and isinstance(child, Mapping):
        entries[path[0]] = without(child, path[1:])
    else:
        del entries[path[0]]
    return _copy(node, entries)


def find(node: Node, path: tuple[str | int, ...]) -> tuple[Node, int]:
    """The deepest node on ``path`` and how many steps of it were found."""
    for depth, step in enumerate(path):
        if isinstance(node, Mapping) and isinstance(step, str) and step in node.entries:
            node = node.entries[step]
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            return node, depth
    return node, len(path)


def scalars(node: Node) -> Iterator[Scalar]:
    """Every scalar of the tree, in file order."""
    if isinstance(node, Scalar):
        yield node
    else:
        for child in node.items if isinstance(node, Sequence) else node.entries.values():
            yield from scalars(child)


def path_of(node: Node) -> str:
    """Where the node is in the file, as people say it: ``tables[shop.events].rewrite.max_files``."""
    parts: list[str] = []
    current: Node | None = node
    while current is not None and current.parent is not None:
        if isinstance(current.key, int):
            parts.append(f"[{_label(current)}]")
        else:
            parts.append(f".{current.key}")
        current = current.parent
    return "".join(reversed(parts)).removeprefix(".")


def _copy(node: Mapping, entries: dict[str, Node]) -> Mapping:
    return Mapping(entries, node.line, node.column, node.key_line, node.key_column, node.parent, node.key, node.layer)


def _label(item: Node) -> str:
    name = item.entries.get("name") if isinstance(item, Mapping) else None
    if (
        isinstance(name, Scalar)
        and isinstance(name.value, str)
        and 0 < len(name.value) <= 200
        and name.value.isprintable()
    ):
        return name.value
    return str(item.key)
