from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from airflow_iceberg_compaction.policy.excerpt import excerpt

HEAD = "version: 1\ncatalog: {name: lake}\n"

_ENTRIES = st.lists(
    st.sampled_from(
        [
            "- name: {}\n",
            "- name: {} # - name: comment\n  tags: [a,\n    b]\n",
            "- {{name: {}, owner: me}}\n",
            "- name: {}\n  probe: |\n    SELECT 1\n    - name: text\n\n",
            "- owner: 'two\n    lines'\n  name: {}\n# a comment at the margin\n",
            "-   rewrite:\n      sort_order:\n      - a\n      - b\n    name: {}\n",
        ]
    ),
    min_size=1,
    max_size=8,
)


@given(_ENTRIES, st.integers(0, 3), st.booleans(), st.data())
def test_an_excerpt_holds_the_table_as_the_whole_file_does_on_the_same_line(
    entries: list[str], indentation: int, more: bool, data: st.DataObject
) -> None:
    names = [f"shop.t{i}" for i in range(len(entries))]
    body = "".join(entry.format(name) for entry, name in zip(entries, names, strict=True))
    indented = "".join(" " * indentation + line if line.strip() else line for line in body.splitlines(keepends=True))
    text = HEAD + "tables:\n" + indented + ("defaults:\n  retries: 1\n" if more else "")
    wanted = data.draw(st.sampled_from(names))
    short = excerpt(text, wanted)
    assert short is not None
    assert short.count("\n") == text.count("\n")
    whole, part = yaml.safe_load(text), yaml.safe_load(short)
    assert {**whole, "tables": None} == {**part, "tables": None}
    assert [t for t in part["tables"] if t["name"] == wanted] == [t for t in whole["tables"] if t["name"] == wanted]
    assert len(part["tables"]) == 1


def test_only_the_wanted_table_is_left_of_a_long_file() -> None:
    text = HEAD + "tables:\n" + "".join(f"  - name: shop.t{i:04}\n    retries: {i % 9}\n" for i in range(1000))
    short = excerpt(text, "shop.t0777")
    assert short is not None
    assert len(short) < 3000
    assert short.splitlines()[text.splitlines().index("  - name: shop.t0777")] == "  - name: shop.t0777"


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "tables: [{name: shop.a}]\n",
        HEAD + "tables: # none\n",
        HEAD + '"tables":\n  - name: shop.a\n',
        HEAD + "tables:\n  - name: shop.a\ntables:\n  - name: shop.a\n",
        HEAD + "tables:\n  - name: shop.other\n",
    ],
)
def test_a_file_of_another_layout_is_read_as_a_whole(text: str) -> None:
    assert excerpt(text, "shop.a") is None
