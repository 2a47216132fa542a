"""Cuts a long policy file down to one table, so that a task does not parse a thousand others to start."""

from __future__ import annotations

import re
from bisect import bisect_right

_TABLES = re.compile(r"^tables:[ \t]*(?:#.*)?\r?$", re.MULTILINE)
_FIRST_ITEM = re.compile(r"\n(?:[ \t]*(?:#.*)?\r?\n)*( *)- ")
_NEXT_KEY = re.compile(r"^[^\s#-]", re.MULTILINE)


def excerpt(text: str, table: str) -> str | None:
    """``text`` with every item of `tables` blanked that does not contain ``table``; line numbers stay true.

    None where the file is not laid out so that this is certain: then it must be read as a whole. Items of a block list begin
    with a dash at one indentation, and whatever else YAML allows inside an item is indented more.
    """
    headings = list(_TABLES.finditer(text))
    if len(headings) != 1:
        return None
    first = _FIRST_ITEM.match(text, headings[0].end())
    if first is None:
        return None
    following = _NEXT_KEY.search(text, first.end())
    end = following.start() if following else len(text)
    dash = re.compile(rf"^{first[1]}- ", re.MULTILINE)
    starts = [match.start() for match in dash.finditer(text, headings[0].end(), end)]
    wanted = set()
    position = text.find(table, starts[0], end)
    while position >= 0:
        wanted.add(bisect_right(starts, position) - 1)
        position = text.find(table, position + 1, end)
    if not wanted:
        return None
    pieces = [text[: starts[0]]]
    for index, (start, stop) in enumerate(zip(starts, [*starts[1:], end], strict=True)):
        pieces.append(text[start:stop] if index in wanted else "\n" * text.count("\n", start, stop))
    return "".join([*pieces, text[end:]])
