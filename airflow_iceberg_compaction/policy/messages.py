"""Turns validation errors into problems at their places, in words for the person who wrote the file."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from airflow_iceberg_compaction.policy.errors import Misfit, Problem
from airflow_iceberg_compaction.policy.nodes import Mapping, Node, Scalar, Sequence, find, path_of
from airflow_iceberg_compaction.policy.source import Source
from airflow_iceberg_compaction.policy.suggestions import did_you_mean

Location = tuple[str | int, ...]
# The places whose values may be secrets: they are never shown.
_PRIVATE = ("catalog.properties", "spark.conf")
_TRUE_WORDS = frozenset({"yes", "on", "y", "1"})
_FALSE_WORDS = frozenset({"no", "off", "n", "0"})


def problem_at(source: Source, node: Node, complaint: str, *, at_key: bool = False, key: str = "") -> Problem:
    """A problem at a node: at its value where that is a scalar somebody wrote, else, or with ``at_key``, at its key.

    :param key: a key that is missing below ``node``, for the path.
    """
    is_written = isinstance(node, Scalar) and (node.text or node.value is not None)
    on_key = (at_key or not is_written) and node.key_line
    line, column = (node.key_line, node.key_column) if on_key else (node.line, node.column)
    path = ".".join(part for part in (path_of(node), key) if part)
    return source.problem(line, column, path, complaint)


def problems_of(
    error: ValidationError, source: Source, tree: Mapping, model: type[BaseModel], limit: int
) -> Iterator[tuple[Location, str, Problem]]:
    """Location, error type and problem of each of the first ``limit`` errors; ``tree`` is what was validated."""
    for detail in error.errors(include_url=False)[:limit]:
        location, kind = detail["loc"], detail["type"]
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, Misfit):
            for path, complaint in cause.complaints:
                node, depth = find(tree, (*location, *path))
                missing = "" if depth == len(location) + len(path) else path[-1]
                yield (*location, *path), kind, problem_at(source, node, complaint, key=missing)
            continue
        node, depth = find(tree, location)
        if kind == "missing":
            key = str(location[-1])
            complaint = f"the key {key!r} is missing; add it"
            yield location, kind, problem_at(source, node, complaint, key=key)
        elif kind == "extra_forbidden":
            complaint = unknown_key(str(location[-1]), known_keys(model, location[:-1]))
            yield location, kind, problem_at(source, node, complaint, at_key=True)
        else:
            complaint = str(cause) if cause is not None else _complaint(kind, detail, node)
            yield location[:depth], kind, problem_at(source, node, complaint)


def known_keys(model: type[BaseModel], location: Location) -> list[str]:
    """The keys that the schema knows at ``location``."""
    current: type[BaseModel] | None = model
    for step in location:
        if current is None:
            return []
        field = current.model_fields.get(str(step))
        current = model_in(field.annotation) if field else None
    return list(current.model_fields) if current else []


def describe(node: Node) -> str:
    """What a value is, shortly; never a value that may be a secret."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    if path_of(node).startswith(_PRIVATE):
        return "this value"
    if node.value is None:
        return "nothing" if not node.text else node.text
    text = repr(node.value) if isinstance(node.value, str) else node.text
    return text if len(text) <= 60 else f"{text[:57]}..."


def unknown_key(key: str, known: list[str]) -> str:
    shown = key if len(key) <= 60 else f"{key[:57]}..."
    return f"unknown key {shown!r}; {did_you_mean(key, known) or f'known keys are {_join(sorted(known))}'}"


def _complaint(kind: str, detail: Any, node: Node) -> str:
    got, context = describe(node), detail.get("ctx", {})
    if kind.startswith("bool"):
        return f"{got} is not true or false; write {_likely_bool(node)}"
    if kind.startswith("int"):
        return f"{got} is not a whole number; write {_likely_int(node)}"
    if kind.startswith("float"):
        return f"{got} is not a number; write digits without quotes, such as 10.0"
    if kind == "string_type":
        return f"{got} is not text; {'put it in quotes' if isinstance(node, Scalar) and node.text else 'write a value'}"
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", context["expected"])
        word = node.text if isinstance(node, Scalar) else ""
        near = did_you_mean(word, allowed) if word else ""
        return f"{got} is not allowed here; {near or 'write ' + _join(allowed, last=' or ')}"
    if kind in ("tuple_type", "list_type"):
        return f"{got} is not a list; write [a, b], or one item per line after '- '"
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return f"{got} is not a mapping; write keys below it, or remove it"
    if kind in ("greater_than_equal", "greater_than"):
        return f"{got} is too small; the smallest allowed value is {context.get('ge', context.get('gt'))}"
    if kind in ("less_than_equal", "less_than"):
        return f"{got} is too large; the largest allowed value is {context.get('le', context.get('lt'))}"
    if kind == "string_too_short":
        return "is empty; write a value, or remove it"
    if kind == "string_too_long":
        return f"is too long; write at most {context['max_length']} characters"
    if kind == "finite_number":
        return f"{got} is not a finite number; write a number such as 10.0"
    return f"{got} does not fit ({detail['msg']}); see docs/policy.md"


def _likely_bool(node: Node) -> str:
    word = node.text.lower() if isinstance(node, Scalar) else ""
    return "true" if word in _TRUE_WORDS else "false" if word in _FALSE_WORDS else "true or false"


def _likely_int(node: Node) -> str:
    digits = re.sub(r"[_, ]|\.0*$", "", node.text) if isinstance(node, Scalar) else ""
    return str(int(digits)) if re.fullmatch(r"\d{1,18}", digits, re.ASCII) else "digits only, such as 20"


def _join(words: list[str], last: str = ", ") -> str:
    return last.join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside ``X``, ``X | None``, ``Annotated[X, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated):
        return next(filter(None, map(model_in, typing.get_args(annotation))), None)
    return None
