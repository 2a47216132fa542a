from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_iceberg_compaction import store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_text_is_read_back_from_a_folder_that_did_not_exist(tmp_path: Path, scheme: str) -> None:
    uri = store.join(f"{scheme}{tmp_path}", "a folder", "plan.json")
    assert not store.exists(uri)
    store.write_text(uri, "é")
    assert store.exists(uri)
    assert store.read_text(uri) == "é"
    assert [p.name for p in (tmp_path / "a folder").iterdir()] == ["plan.json"]


def test_a_remote_location_is_read_back() -> None:
    store.write_text("memory://documents/run/plan.json", "{}")
    assert store.exists("memory://documents/run/plan.json")
    assert store.read_text("memory://documents/run/plan.json") == "{}"


def test_a_missing_document_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.read_text(str(tmp_path / "nothing.json"))
