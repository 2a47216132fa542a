from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_iceberg_compaction.cli import main
from airflow_iceberg_compaction.policy.errors import PolicyError, Problem
from airflow_iceberg_compaction.policy.loader import load_policy, load_policy_isolated

SNAPSHOTS = Path(__file__).parent / "snapshots"

Problems = Callable[..., tuple[Problem, ...]]


def test_seven_mistakes_are_shown_in_one_go_each_at_its_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SNAPSHOTS)
    assert main(["validate", "seven_mistakes.yaml"]) == 1
    assert capsys.readouterr().err == (SNAPSHOTS / "seven_mistakes.txt").read_text(encoding="utf-8")


HEAD = "version: 1\ncatalog: {name: lake}\n"
ONE_TABLE = "tables: [{name: shop.events}]\n"


@pytest.mark.parametrize(
    ("text", "place", "path", "complaint"),
    [
        pytest.param("catalog: {name: lake}\n" + ONE_TABLE, (1, 1), "version", "is missing", id="no version"),
        pytest.param(
            "version: 2\ncatalog: {name: lake}\n" + ONE_TABLE, (1, 10), "version", "version: 1", id="version 2"
        ),
        pytest.param("version: 1\n" + ONE_TABLE, (1, 1), "catalog", "is missing", id="no catalog"),
        pytest.param(HEAD, (1, 1), "tables", "lists no tables", id="no tables"),
        pytest.param(HEAD + "tables: []\n", (3, 1), "tables", "lists no tables", id="empty tables"),
        pytest.param(HEAD + "tables: {shop.events: {}}\n", (3, 1), "tables", "not a list", id="tables as mapping"),
        pytest.param(HEAD + "tables: [shop.events]\n", (3, 10), "tables[0]", "- name:", id="table as text"),
        pytest.param(
            HEAD + "tables: [{owner: me}]\n", (3, 10), "tables[0].name", "is missing", id="table without name"
        ),
        pytest.param(
            HEAD + "tables: [{name: events}]\n", (3, 17), "tables[events].name", "namespace.name", id="no namespace"
        ),
        pytest.param(
            HEAD + "tabels: []\n" + ONE_TABLE, (3, 1), "tabels", "did you mean 'tables'?", id="typo at the top"
        ),
        pytest.param(HEAD + "defaults:\n" + ONE_TABLE, (3, 1), "defaults", "write settings", id="empty defaults"),
        pytest.param(
            HEAD + "defaults: {rewrite: }\n" + ONE_TABLE, (3, 12), "defaults.rewrite", "remove it", id="empty section"
        ),
        pytest.param(
            HEAD + "spark: {conf: {executor.memory: 4g}}\n" + ONE_TABLE,
            (3, 33),
            "spark.conf.executor.memory",
            "spark.executor.memory",
            id="not a Spark setting",
        ),
        pytest.param(
            HEAD + "prices: {throughput: 50}\n" + ONE_TABLE, (3, 22), "prices.throughput", "50MB", id="no unit"
        ),
        pytest.param(HEAD + "history: runs\n" + ONE_TABLE, (3, 10), "history", "namespace.name", id="history"),
        pytest.param(
            HEAD + "profiles: {production: {retries: 1}}\n" + ONE_TABLE,
            (3, 12),
            "profiles.production",
            "built in",
            id="shadow",
        ),
        pytest.param(
            HEAD + "profiles: {ci: {extends: prod}}\n" + ONE_TABLE,
            (3, 26),
            "profiles.ci.extends",
            "did you mean 'production'?",
            id="profile extends nothing",
        ),
        pytest.param(
            HEAD + "profiles: {ci: {retrys: 1}}\n" + ONE_TABLE,
            (3, 17),
            "profiles.ci.retrys",
            "did you mean 'retries'?",
            id="typo in a profile nobody chose",
        ),
    ],
)
def test_a_mistake_in_the_file_is_reported_at_its_place(
    problems: Problems, text: str, place: tuple[int, int], path: str, complaint: str
) -> None:
    (problem,) = problems(text)
    assert ((problem.line, problem.column), problem.path) == (place, path)
    assert complaint in problem.headline


@pytest.mark.parametrize(
    ("settings", "key", "complaint"),
    [
        ("enabled: yes", "enabled", "write true"),
        ("enabled: off", "enabled", "write false"),
        ("retries: '2'", "retries", "write 2"),
        ("retries: 2.5", "retries", "not a whole number"),
        ("retries: -1", "retries", "smallest allowed value is 0"),
        ("retries: 99999999999999999999999", "retries", "not a whole number"),
        ("owner: 5", "owner", "put it in quotes"),
        ("owner: ''", "owner", "is empty"),
        ("tags: a", "tags", "not a list"),
        ("tags: [1]", "tags[0]", "put it in quotes"),
        ("audit: checksums", "audit", "did you mean 'checksum'?"),
        ("audit: all", "audit", "write metadata or checksum"),
        ("schedule: 5", "schedule", "cron expression in quotes"),
        ("schedule: 0 2 * *", "schedule", "has 4 fields"),
        ("schedule: {cron: 0 2 * * *, timezone: Europe/Olso}", "schedule.timezone", "time zone"),
        ("schedule: {croon: 0 2 * * *}", "schedule.croon", "did you mean 'cron'?"),
        ("schedule: {timetable: mine.Own, cron: 0 2 * * *}", "schedule.timetable", "keep one"),
        ("schedule: {}", "schedule", "says nothing"),
        ("execution_timeout: 0s", "execution_timeout", "longer than 0s"),
        ("thresholds: {small_file_size: 0MB}", "thresholds.small_file_size", "larger than 0"),
        ("thresholds: {delete_ratio: 10}", "thresholds.delete_ratio", "10%"),
        ("thresholds: {min_small_file: 3}", "thresholds.min_small_file", "did you mean 'min_small_files'?"),
        ("thresholds: {min-small-files: 3}", "thresholds.min-small-files", "did you mean 'min_small_files'?"),
        ("rewrite: {max_cost: .inf}", "rewrite.max_cost", "not a number"),
        ("rewrite: {max_cost: cheap}", "rewrite.max_cost", "not a number"),
        ("rewrite: {strategy: sort, sort_order: [ts sideways]}", "rewrite.sort_order[0]", "nulls first|last"),
        ("rewrite: {strategy: zorder}", "rewrite.strategy", "needs columns"),
        ("rewrite: {strategy: zorder, sort_order: [a desc]}", "rewrite.sort_order", "no direction"),
        ("rewrite: {sort_order: [a]}", "rewrite.sort_order", "strategy: sort"),
        ("rewrite: {strategy: sort, sort_order: [a, a desc]}", "rewrite.sort_order", "twice"),
        ("rewrite: {max_files: 2, min_input_files: 1}", "rewrite.max_files", "min_small_files"),
        ("rewrite: {target_file_size: 32MB}", "rewrite.target_file_size", "not below target_file_size"),
        ("thresholds: {small_file_size: 128MB}", "thresholds.small_file_size", "not below target_file_size"),
        ("orphan_files: {older_than: 23h}", "orphan_files.older_than", "below 24h"),
        ("orphan_files: {mode: delete, older_than: 2d}", "orphan_files.older_than", "below 3d"),
        ("orphan_files: {mode: no}", "orphan_files.mode", "report, delete or off"),
        ("probe: DROP TABLE x", "probe", "SELECT"),
        ("probe: SELECT 1; DROP TABLE x", "probe", "single statement"),
        ("write_properties: {write.target-file-size-byte: 1MB}", None, "did you mean 'write.target-file-size-bytes'?"),
        ("write_properties: {write.target-file-size-bytes: 1M}", None, "write 1MB"),
        ("write_properties: {write.data.path: s3://else}", None, "ALTER TABLE"),
        ("report: {slack: {channel: '#x', when: never}}", "report.slack.when", "always, worked or failed"),
        ("report: {slack: {when: always}}", "report.slack.channel", "is missing"),
        ("owner: ${USER}", "owner", "not expanded here"),
        ("exclude: [shop.tmp]", "exclude", "only goes with a name pattern"),
    ],
)
def test_a_wrong_setting_is_reported_at_its_key_with_what_would_be_right(
    problems: Problems, settings: str, key: str | None, complaint: str
) -> None:
    (problem,) = problems(HEAD + f"tables:\n  - name: shop.events\n    {settings}\n")
    assert problem.line == 5
    assert key is None or problem.path == f"tables[shop.events].{key}"
    assert complaint in problem.headline


def test_a_mistake_in_defaults_is_reported_once_however_many_tables_meet_it(problems: Problems) -> None:
    tables = "".join(f"  - name: shop.t{i}\n" for i in range(20))
    (problem,) = problems(HEAD + "defaults: {retries: many}\ntables:\n" + tables)
    assert problem.path == "defaults.retries"


def test_a_default_that_every_table_overrides_is_checked_all_the_same(problems: Problems) -> None:
    (problem,) = problems(HEAD + "defaults: {retries: many}\ntables: [{name: a.b, retries: 1}]\n")
    assert problem.path == "defaults.retries"


def test_the_value_closest_to_the_table_is_blamed_for_a_contradiction(problems: Problems) -> None:
    (problem,) = problems(
        HEAD
        + "defaults: {thresholds: {small_file_size: 100MB}}\ntables: [{name: a.b, rewrite: {target_file_size: 90MB}}]\n"
    )
    assert problem.path == "tables[a.b].rewrite.target_file_size"


def test_contradictions_are_found_even_beside_other_mistakes(problems: Problems) -> None:
    found = problems(HEAD + "tables: [{name: a.b, retries: many, rewrite: {strategy: zorder}}]\n")
    assert [problem.path for problem in found] == ["tables[a.b].retries", "tables[a.b].rewrite.strategy"]


def test_a_wrong_value_is_not_blamed_a_second_time_for_being_left_out(problems: Problems) -> None:
    (problem,) = problems(HEAD + "tables: [{name: a.b, rewrite: {strategy: zorder, sort_order: [a b c]}}]\n")
    assert problem.path == "tables[a.b].rewrite.sort_order[0]"


def test_the_error_shows_the_line_and_a_caret_under_the_value(problems: Problems) -> None:
    (problem,) = problems(HEAD + "tables: [{name: a.b, retries: many}]\n")
    shown = str(problem).splitlines()[1:]
    assert shown[0].endswith("tables: [{name: a.b, retries: many}]")
    assert shown[0][shown[1].index("^")] == "m"


def test_a_caret_finds_its_value_in_a_very_long_line(problems: Problems) -> None:
    (problem,) = problems(HEAD + f"tables: [{{name: a.b, owner: {'x' * 200}, retries: many, pool: {'y' * 200}}}]\n")
    _, line, caret = str(problem).splitlines()
    assert line[caret.index("^") :].startswith("many")


@pytest.mark.parametrize(
    "properties",
    [
        "{token: hunter2}",
        "{s3.secret-access-key: hunter2}",
        "{credential: 'me:hunter2'}",
        "{credential: '${ID}:hunter2'}",
        "{token: '${TOKEN:-hunter2}'}",
        "{uri: 'postgresql://me:hunter2@host/db'}",
        "{adls.account-key: hunter2}",
        "{header.Authorization: hunter2}",
    ],
)
def test_a_secret_in_the_file_is_refused_and_never_shown(problems: Problems, properties: str) -> None:
    text = f"version: 1\ncatalog: {{name: lake, properties: {properties}}}\n" + ONE_TABLE
    found = problems(text, ID="me")
    assert any("secret must not be in the file" in problem.message for problem in found)
    assert "hunter2" not in "".join(map(str, found))


def test_a_mistake_beside_a_secret_does_not_show_its_line(problems: Problems) -> None:
    found = problems("version: 1\ncatalog: {name: lake, nmae: x, properties: {token: hunter2}}\n" + ONE_TABLE)
    assert "hunter2" not in "".join(map(str, found))
    assert "hunter2" not in "".join(map(str, problems("catalog: {properties: {token: hunter2, uri: [}}\n")))


def test_a_secret_from_the_environment_is_not_shown_by_an_error(problems: Problems) -> None:
    text = "version: 1\ncatalog: {name: lake, conn_id: x, properties: {token: '${TOKEN}', type: [rest]}}\n" + ONE_TABLE
    assert "hunter2" not in "".join(map(str, problems(text, TOKEN="hunter2")))


@pytest.mark.parametrize("key", ["py-catalog-impl", "py-io-impl", "s3.retry-strategy-impl", "catalog-impl"])
def test_a_catalog_property_that_names_code_is_refused(problems: Problems, key: str) -> None:
    (problem,) = problems(f"version: 1\ncatalog: {{name: lake, properties: {{{key}: os.system}}}}\n" + ONE_TABLE)
    assert "names code to load" in problem.message


def test_a_catalog_has_a_connection_or_properties(problems: Problems) -> None:
    (problem,) = problems("version: 1\ncatalog: {name: lake, conn_id: x, properties: {type: rest}}\n" + ONE_TABLE)
    assert (problem.path, problem.message) == ("catalog.properties", "excludes conn_id")


def test_a_missing_environment_variable_is_an_error_at_its_place(problems: Problems) -> None:
    (problem,) = problems(HEAD + "documents: s3://${BUCKET}/x\n" + ONE_TABLE)
    assert (problem.line, problem.column, problem.path) == (3, 12, "documents")
    assert "BUCKET is not set" in problem.message


def test_a_broken_reference_is_an_error(problems: Problems) -> None:
    (problem,) = problems(HEAD + "documents: s3://${BUCKET\n" + ONE_TABLE)
    assert "write ${NAME}" in problem.advice


def test_a_missing_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="iceberg-compaction init"):
        load_policy(tmp_path / "nowhere.yaml")


def test_isolation_keeps_valid_tables_and_tells_what_is_wrong_with_each_other_one(write: Callable[[str], Path]) -> None:
    path = write(
        HEAD
        + """tables:
  - name: shop.good
  - name: shop.typo
    retrys: 1
  - name: shop.twice
  - name: shop.twice
  - name: shop.duplicate_key
    retries: 1
    retries: 2
  - owner: nameless
"""
    )
    policy, errors = load_policy_isolated(path)
    assert [table.name for table in policy.tables] == ["shop.good"]
    assert {name: [p.line for p in error.problems] for name, error in errors.items()} == {
        "shop.typo": [6],
        "shop.twice": [8],
        "shop.duplicate_key": [11],
        "tables[5]": [12],
    }


def test_isolation_does_not_hide_a_mistake_that_all_tables_share(write: Callable[[str], Path]) -> None:
    with pytest.raises(PolicyError, match=r"defaults\.retries"):
        load_policy_isolated(write(HEAD + "defaults: {retries: many}\n" + ONE_TABLE))
