from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_iceberg_compaction.cli import main

VALID = "version: 1\ncatalog: {name: lake}\ntables: [{name: shop.events, owner: me}]\n"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ICEBERG_COMPACTION_POLICY", raising=False)


def test_init_writes_a_file_that_validates_and_does_not_overwrite_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["init"]) == 0
    assert main(["validate"]) == 0
    assert "valid, 1 table" in capsys.readouterr().out
    Path("iceberg_maintenance.yaml").write_text("mine")
    assert main(["init"]) == 2
    assert "--force" in capsys.readouterr().err
    assert Path("iceberg_maintenance.yaml").read_text() == "mine"
    assert main(["init", "--force"]) == 0


def test_validate_judges_several_files_and_fails_if_one_is_wrong(
    write: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    good = write(VALID)
    bad = good.with_name("bad.yaml")
    bad.write_text(VALID.replace("owner", "ownr"))
    assert main(["validate", str(good), str(bad)]) == 1
    out, err = capsys.readouterr()
    assert f"{good}: valid, 1 table, profile production" in out
    assert f"{bad}:3:30: tables[shop.events].ownr: unknown key 'ownr'; did you mean 'owner'?" in err


def test_validate_tells_programs_the_same(write: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = write(VALID.replace("owner", "ownr"))
    assert main(["validate", "--json", str(path)]) == 1
    (verdict,) = json.loads(capsys.readouterr().out)
    assert verdict["valid"] is False
    assert verdict["problems"][0] == {
        "file": str(path),
        "line": 3,
        "column": 30,
        "path": "tables[shop.events].ownr",
        "message": "unknown key 'ownr'",
        "advice": "did you mean 'owner'?",
    }


def test_a_file_that_cannot_be_read_is_not_the_same_as_one_that_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "nowhere.yaml"]) == 3
    assert "No such file" in capsys.readouterr().err


def test_show_config_prints_every_value_with_its_origin(
    write: Callable[[str], Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    path = write(VALID)
    assert main(["show-config", "shop.events", "--policy", str(path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["owner", "me", "policy.yaml:3"] in lines
    assert ["thresholds.min_small_files", "20", "profile", "production"] in lines
    assert ["retries", "2", "built", "in"] in lines
    assert ["catalog.name", "lake", "policy.yaml:2"] in lines


def test_show_config_as_json(write: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = write(VALID)
    assert main(["show-config", "shop.events", "--json", "--policy", str(path)]) == 0
    document = json.loads(capsys.readouterr().out)
    settings = {setting.pop("key"): setting for setting in document["settings"]}
    assert settings["owner"] == {"value": "me", "origin": "policy.yaml:3", "file": "policy.yaml", "line": 3}
    assert settings["rewrite.target_file_size"] == {
        "value": "128MB",
        "origin": "profile production",
        "profile": "production",
    }
    assert settings["retries"] == {"value": 2, "origin": "built in"}


def test_show_config_of_an_unknown_table_names_the_nearest(
    write: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show-config", "shop.event", "--policy", str(write(VALID))]) == 2
    assert "did you mean 'shop.events'?" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["policy", "plan", "report"])
def test_schema_prints_json_schema(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", kind]) == 0
    assert json.loads(capsys.readouterr().out)["$schema"].startswith("https://json-schema.org/")


@pytest.mark.parametrize(
    "command", [["validate", "policy.yaml"], ["show-config", "shop.events"], ["schema"], ["init", "x.yaml"]]
)
def test_these_commands_need_neither_airflow_nor_pyiceberg_nor_pyspark(
    command: list[str], write: Callable[[str], Path]
) -> None:
    path = write(VALID)
    arguments = [*command, "--policy", str(path)] if command[0] == "show-config" else command
    script = f"""
import sys
from airflow_iceberg_compaction.cli import main
assert main({arguments!r}) == 0
heavy = {{"airflow", "pyiceberg", "pyspark", "pyarrow", "slack_sdk"}} & {{name.partition(".")[0] for name in sys.modules}}
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, cwd=path.parent)
