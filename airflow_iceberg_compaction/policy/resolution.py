"""From a file's tree to resolved tables: layers are merged, then validated once, and every error keeps its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping as Environment
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from airflow_iceberg_compaction.policy import names
from airflow_iceberg_compaction.policy.catalog_properties import is_secret
from airflow_iceberg_compaction.policy.contradictions import contradictions
from airflow_iceberg_compaction.policy.errors import Problem
from airflow_iceberg_compaction.policy.fields import FROM_FILE
from airflow_iceberg_compaction.policy.messages import Location, describe, problem_at, problems_of
from airflow_iceberg_compaction.policy.model import (
    PolicyFile,
    PolicyHeader,
    Profile,
    TableEntry,
    TablePolicy,
    TableSettings,
)
from airflow_iceberg_compaction.policy.nodes import (
    Mapping,
    Node,
    Scalar,
    Sequence,
    find,
    merge,
    scalars,
    to_plain,
    without,
)
from airflow_iceberg_compaction.policy.profiles import BUILT_IN, DEFAULT_PROFILE, built_in_profile
from airflow_iceberg_compaction.policy.source import MAX_PROBLEMS, Source
from airflow_iceberg_compaction.policy.suggestions import did_you_mean
from airflow_iceberg_compaction.policy.variables import expand, has_reference, literal_part

Model = TypeVar("Model", bound=BaseModel)

_BODY = ("version", "profiles", "defaults", "tables")
_MAX_TABLE_PROBLEMS = 50
_MAX_ALL_PROBLEMS = 2000
_LOOKS = 3
_ANY_NAME = Mapping({"name": Scalar("any.table", "any.table")})


@dataclass
class Entry:
    """One item of `tables`, resolved or with its problems."""

    name: str  # as written; its index where it has none
    node: Node
    tree: Mapping = field(default_factory=Mapping)  # profile, defaults and table, merged
    table: TablePolicy | None = None
    exclude: tuple[str, ...] = ()
    problems: list[Problem] = field(default_factory=list)

    @property
    def is_pattern(self) -> bool:
        return names.is_pattern(self.name)


@dataclass
class Resolution:
    """A file, judged. ``problems`` are those that touch every table; an entry has its own."""

    header: PolicyHeader | None
    tree: Mapping
    entries: list[Entry]
    problems: list[Problem]


def resolve(source: Source, root: Mapping, environment: Environment[str, str], only: str | None = None) -> Resolution:
    """Judge the whole file, or with ``only`` what concerns that table."""
    return _Resolver(source, root, environment).resolve(only)


class _Resolver:
    def __init__(self, source: Source, root: Mapping, environment: Environment[str, str]) -> None:
        self.source = source
        self.root = root
        self.environment = environment
        self.problems: list[Problem] = []
        self.by_item: dict[int, list[Problem]] = {}  # problems found before validation, by index in `tables`

    def resolve(self, only: str | None) -> Resolution:
        self._take_duplicates()
        self._check_version()
        for properties in self._text_maps():
            _read_as_text(properties)
        self._expand_variables()
        header = self._header()
        profile = self._profile(header.profile if header else None)
        base = self._defaults(profile)
        entries = list(self._entries(base, only))
        return Resolution(header, self.root, entries, self.problems)

    # ------------------------------------------------------------------------------------------ before validation

    def _take_duplicates(self) -> None:
        for node, line in self.source.duplicates:
            shown = str(node.key) if len(str(node.key)) <= 60 else f"{str(node.key)[:57]}..."
            self._add(
                problem_at(self.source, node, f"the key {shown!r} is already on line {line}; keep one", at_key=True),
                node,
            )

    def _check_version(self) -> None:
        node = self.root.entries.get("version")
        if node is None:
            self._add(
                self.source.problem(1, 1, "version", "the key 'version' is missing; begin the file with version: 1")
            )
        elif not isinstance(node, Scalar) or node.value is True or node.value != 1:
            complaint = f"{describe(node)} is not a version this release reads; write version: 1"
            self._add(problem_at(self.source, node, complaint))

    def _text_maps(self) -> Iterator[Mapping]:
        """The maps whose values are text whatever they look like: ``4`` and ``true`` need no quotes there."""
        tables, profiles = self.root.entries.get("tables"), self.root.entries.get("profiles")
        holders: list[Node] = [self.root.entries.get("defaults", Mapping())]
        holders += tables.items if isinstance(tables, Sequence) else []
        holders += profiles.entries.values() if isinstance(profiles, Mapping) else []
        paths: list[tuple[Node, tuple[str, ...]]] = [(holder, ("write_properties",)) for holder in holders]
        paths += [(self.root, ("catalog", "properties")), (self.root, ("spark", "conf"))]
        for holder, path in paths:
            node, depth = find(holder, path)
            if depth == len(path) and isinstance(node, Mapping):
                yield node

    def _expand_variables(self) -> None:
        properties, depth = find(self.root, ("catalog", "properties"))
        allowed = [self.root.entries.get(key) for key in ("profile", "documents")]
        if depth == 2 and isinstance(properties, Mapping):
            allowed += properties.entries.values()
            self._refuse_secrets(properties)
        if "${" not in self.source.text:
            return
        for node in scalars(self.root):
            if not isinstance(node.value, str):
                continue
            if any(node is other for other in allowed):
                try:
                    node.value = expand(node.value, self.environment)
                except ValueError as error:
                    self._add(problem_at(self.source, node, str(error)), node)
                    node.value = literal_part(node.value)
            elif has_reference(node.value):
                complaint = (
                    "environment variables are not expanded here; write the value out (they are in profile, documents "
                    "and catalog.properties)"
                )
                self._add(problem_at(self.source, node, complaint), node)

    def _refuse_secrets(self, properties: Mapping) -> None:
        for key, node in properties.entries.items():
            if isinstance(node, Scalar) and is_secret(key, literal_part(node.text).strip(": ")):
                variable = re.sub(r"\W", "_", key).upper()
                complaint = (
                    f"a secret must not be in the file; write ${{{variable}}} and set that environment variable, or use an "
                    "Airflow connection (conn_id)"
                )
                self._add(problem_at(self.source, node, complaint, at_key=True))

    # ------------------------------------------------------------------------------------------------- validation

    def _header(self) -> PolicyHeader | None:
        tree = self.root
        for key in _BODY:
            tree = without(tree, (key,))
        header, problems, _ = self._validate(tree, PolicyHeader, PolicyFile, MAX_PROBLEMS)
        for problem in problems:
            self._add(problem)
        return header

    def _profile(self, chosen: str | None) -> Mapping:
        """The tree of the chosen profile. Every profile of the file is checked, chosen or not."""
        profiles = {name: built_in_profile(name) for name in BUILT_IN}
        node = self.root.entries.get("profiles")
        if isinstance(node, Mapping):
            for name, own in node.entries.items():
                if name in BUILT_IN:
                    complaint = f"the profile {name!r} is built in; give yours another name and extends: {name}"
                    self._add(problem_at(self.source, own, complaint, at_key=True))
                elif not isinstance(own, Mapping):
                    complaint = f"{describe(own)} is not a mapping; write the profile's settings below it"
                    self._add(problem_at(self.source, own, complaint))
                else:
                    extends = own.entries.get("extends")
                    below = extends.value if isinstance(extends, Scalar) else DEFAULT_PROFILE
                    tree = merge(built_in_profile(below if below in BUILT_IN else DEFAULT_PROFILE), own)
                    self._check_layer(tree, Profile)
                    profiles[name] = without(tree, ("extends",))
        elif node is not None:
            self._add(problem_at(self.source, node, f"{describe(node)} is not a mapping; write name: settings"))
        chosen = DEFAULT_PROFILE if chosen is None else chosen
        if chosen not in profiles:
            place = self.root.entries.get("profile", self.root)
            near = did_you_mean(chosen, profiles) or f"write one of {', '.join(profiles)}"
            self._add(problem_at(self.source, place, f"there is no profile {chosen[:60]!r}; {near}"))
        return profiles.get(chosen) or profiles[DEFAULT_PROFILE]

    def _defaults(self, profile: Mapping) -> Mapping:
        node = self.root.entries.get("defaults")
        if node is None:
            return profile
        if not isinstance(node, Mapping):
            self._add(
                problem_at(
                    self.source, node, f"{describe(node)} is not a mapping; write settings below it, or remove it"
                )
            )
            return profile
        tree = merge(profile, node)
        self._check_layer(tree, TableSettings)
        return tree

    def _check_layer(self, tree: Mapping, model: type[TableSettings]) -> None:
        """Check settings that tables may still complete, so nothing is missing yet and nothing contradicts."""
        try:
            model.model_validate(to_plain(tree), strict=True, context=FROM_FILE)
        except ValidationError as error:
            for _, kind, problem in problems_of(error, self.source, tree, model, MAX_PROBLEMS):
                if kind != "missing":
                    self._add(problem)

    def _entries(self, base: Mapping, only: str | None) -> Iterator[Entry]:
        tables = self.root.entries.get("tables")
        if not isinstance(tables, Sequence) or not tables.items:
            complaint = "the file lists no tables; write tables: and below it - name: namespace.name"
            if isinstance(tables, Mapping) or (isinstance(tables, Scalar) and tables.value is not None):
                complaint = f"{describe(tables)} is not a list; write one `- name: namespace.name` per table"
            self._add(
                problem_at(self.source, tables or self.root, complaint, at_key=True, key="" if tables else "tables")
            )
            return
        seen: dict[str, Node] = {}
        count = 0
        for index, item in enumerate(tables.items):
            entry = Entry(name=f"tables[{index}]", node=item, problems=self.by_item.get(index, []))
            name = item.entries.get("name") if isinstance(item, Mapping) else None
            if isinstance(name, Scalar) and isinstance(name.value, str):
                entry.name = name.value
                if first := seen.get(name.value):
                    complaint = f"the table {name.value[:60]!r} is already on line {first.line}; keep one"
                    entry.problems.append(problem_at(self.source, name, complaint))
                seen.setdefault(name.value, name)
            if only is None or entry.name == only or entry.is_pattern:
                self._resolve_entry(entry, base)
                yield entry
                count += len(entry.problems)
            if count > _MAX_ALL_PROBLEMS:
                self._add(problem_at(self.source, item, "too many problems to look further; mend the others first"))
                return

    def _resolve_entry(self, entry: Entry, base: Mapping) -> None:
        if not isinstance(entry.node, Mapping):
            complaint = f"{describe(entry.node)} is not a mapping; write - name: namespace.name"
            entry.problems.append(problem_at(self.source, entry.node, complaint))
            return
        own = entry.node
        if "exclude" in own.entries:
            self._take_exclude(entry, own.entries["exclude"])
            own = without(own, ("exclude",))
        entry.tree = merge(base, own)
        tree = entry.tree
        if entry.is_pattern:
            tree = self._with_any_name(entry, tree)
        table, problems, wrong = self._validate(tree, TablePolicy, TableEntry, _MAX_TABLE_PROBLEMS)
        entry.problems += problems
        if table is not None:
            for contradiction in contradictions(table):
                if not any(
                    _overlap(tuple(path.split(".")), location) for path in contradiction.paths for location in wrong
                ):
                    entry.problems.append(self._contradiction(tree, *contradiction))
        entry.table = None if entry.problems else table

    def _validate(
        self, tree: Mapping, model: type[Model], known: type[BaseModel], limit: int
    ) -> tuple[Model | None, list[Problem], list[Location]]:
        """The model if all is well or could be judged without what is wrong, the problems, and what was left out for it.

        Checks across keys only run once each key is right: hence the second look, so that all is reported at once.
        """
        problems: list[Problem] = []
        wrong: list[Location] = []
        for _ in range(_LOOKS):
            try:
                return model.model_validate(to_plain(tree), strict=True, context=FROM_FILE), problems, wrong
            except ValidationError as error:
                seen = tuple(wrong)
                for location, kind, problem in problems_of(error, self.source, tree, known, limit):
                    # What is only wrong because something was left out of it is no mistake of the file.
                    if not any(_overlap(location, other) for other in seen):
                        problems.append(problem)
                    tree, left_out = _mended(tree, location, kind)
                    wrong.append(left_out)
        return None, problems, wrong

    def _take_exclude(self, entry: Entry, node: Node) -> None:
        if not entry.is_pattern:
            complaint = "exclude only goes with a name pattern such as shop.*; remove it"
            entry.problems.append(problem_at(self.source, node, complaint, at_key=True))
            return
        if not isinstance(node, Sequence):
            complaint = f"{describe(node)} is not a list; write exclude: [shop.tmp_*]"
            entry.problems.append(problem_at(self.source, node, complaint))
            return
        for item in node.items:
            try:
                if not isinstance(item, Scalar) or not isinstance(item.value, str):
                    raise ValueError(f"{describe(item)} is not a name pattern; write one such as shop.tmp_*")
                names.check_pattern(item.value)
                entry.exclude = (*entry.exclude, item.value)
            except ValueError as error:
                entry.problems.append(problem_at(self.source, item, str(error)))

    def _with_any_name(self, entry: Entry, tree: Mapping) -> Mapping:
        """The tree under a name that is valid: the settings of a pattern are judged before its tables are known."""
        try:
            names.check_pattern(entry.name)
        except ValueError as error:
            entry.problems.append(problem_at(self.source, tree.entries["name"], str(error)))
        return merge(tree, _ANY_NAME)

    def _contradiction(self, tree: Mapping, paths: tuple[str, str], complaint: str) -> Problem:
        found = [find(tree, tuple(path.split("."))) for path in paths]
        set_in_file = [node for (node, depth), path in zip(found, paths, strict=True) if depth == 2 and node.line]
        # Blame what was written closest to the table: a default cannot know what each table will make of it.
        blamed = min(set_in_file, key=_distance, default=tree)
        return problem_at(self.source, blamed, complaint)

    def _add(self, problem: Problem, node: Node | None = None) -> None:
        item = _item_of(node)
        target = self.problems if item is None else self.by_item.setdefault(item, [])
        if len(target) < MAX_PROBLEMS:
            target.append(problem)


def _mended(tree: Mapping, location: Location, kind: str) -> tuple[Mapping, Location]:
    """The tree without what is wrong at ``location``, so that the rest can be judged, and what it now lacks."""
    if kind != "missing":
        return without(tree, location), location
    if location == ("name",):
        return merge(tree, _ANY_NAME), location
    return without(tree, location[:-1]), location[:-1]


def _overlap(one: Location, other: Location) -> bool:
    """Whether one is the other, or inside of it."""
    return all(step == its for step, its in zip(one, other, strict=False))


def _read_as_text(properties: Mapping) -> None:
    for node in properties.entries.values():
        if isinstance(node, Scalar) and node.value is not None:
            node.value = node.text


def _item_of(node: Node | None) -> int | None:
    """Index of the item of `tables` that holds ``node``."""
    while node is not None and node.parent is not None:
        if isinstance(node.key, int) and node.parent.key == "tables" and _is_root(node.parent.parent):
            return node.key
        node = node.parent
    return None


def _is_root(node: Node | None) -> bool:
    return node is not None and node.parent is None


def _distance(node: Node) -> int:
    top: Node = node
    while top.parent is not None and top.parent.parent is not None:
        top = top.parent
    return {"tables": 0, "defaults": 1}.get(str(top.key), 2)
