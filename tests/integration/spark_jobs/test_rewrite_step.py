from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark


def test_small_files_become_one_file_and_every_row_stays(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table)
    before = on_lake.rows(table)
    code, result = on_lake.run(on_lake.plan(table))
    assert code == 0
    assert on_lake.rows(table) == before
    assert on_lake.files(table) == 1
    rewrite = on_lake.step(result)
    assert rewrite.outcome == "succeeded"
    assert rewrite.numbers["files_compacted"] == 6
    assert {law.verdict for law in rewrite.laws} == {"held"}
