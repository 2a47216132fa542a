"""Files that want to hurt: each must end in a clear error, in bounded time and memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_iceberg_compaction.policy.errors import PolicyError, Problem
from airflow_iceberg_compaction.policy.loader import load_policy
from airflow_iceberg_compaction.policy.source import MAX_BYTES

HEAD = "version: 1\ncatalog: {name: lake}\ntables: [{name: a.b}]\n"

BOMB = "a: &a [x, x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


def _problems(path: Path, content: bytes) -> tuple[Problem, ...]:
    path.write_bytes(content)
    with pytest.raises(PolicyError) as caught:
        load_policy(path, environment={})
    assert all(problem.advice for problem in caught.value.problems), "every message ends in what to do"
    return caught.value.problems


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(b"", "the file is empty", id="empty"),
        pytest.param(b"# nothing\n", "the file is empty", id="only a comment"),
        pytest.param(b"just text\n", "a policy is a mapping", id="text"),
        pytest.param(b"- a\n", "a policy is a mapping", id="list"),
        pytest.param(BOMB.encode(), "anchors (&a) are not allowed", id="billion laughs"),
        pytest.param(HEAD.encode() + b"x: *a\n", "aliases (*a) are not allowed", id="alias"),
        pytest.param(HEAD.encode() + b"defaults: {<<: {retries: 1}}\n", "merge keys (<<) are not allowed", id="merge"),
        pytest.param(HEAD.encode() + b"x: !!python/object/apply:os.system [id]\n", "tags (", id="tag"),
        pytest.param(HEAD.encode() + b"---\nversion: 1\n", "more than one YAML document", id="two documents"),
        pytest.param(HEAD.encode() + b"defaults:\n\tretries: 1\n", "a tab cannot indent YAML", id="tab"),
        pytest.param(b"[" * 100_000, "nested deeper than 32 levels", id="deep list"),
        pytest.param(b"{a: " * 100_000, "nested deeper than 32 levels", id="deep mapping"),
        pytest.param(b"- " * 100_000, "nested deeper than 32 levels", id="deep items"),
        pytest.param(HEAD.encode() + b"? [a, b]\n: c\n", "a key must be a word", id="key that is a list"),
        pytest.param(HEAD.encode() + b"documents: {{ var }}\n", "a key must be a word", id="unquoted Jinja"),
        pytest.param(HEAD.encode("utf-16"), "encoded as UTF-16", id="UTF-16"),
        pytest.param("version: 1 # caf\u00e9\n".encode("latin-1"), "the byte 0xe9 is not UTF-8", id="Latin-1"),
        pytest.param(HEAD.encode() + b"x: \x00\n", "U+0000 is not allowed", id="NUL"),
        pytest.param(HEAD.encode() + "x: a\u2028b\n".encode(), "U+2028 is not allowed", id="hidden line break"),
        pytest.param(HEAD.encode() + b"documents: @x\n", "a value cannot begin with '@'", id="reserved character"),
        pytest.param(HEAD.encode() + b"x: 'open\n", "is not valid YAML", id="open quote"),
        pytest.param(HEAD.encode() + b"defaults:\n  retries: 1\n owner: x\n", "neither a key", id="bad indentation"),
    ],
)
def test_a_file_that_is_no_policy_is_refused_in_words(tmp_path: Path, content: bytes, complaint: str) -> None:
    assert complaint in _problems(tmp_path / "policy.yaml", content)[0].message


def test_wrong_bytes_are_found_at_their_line_and_column(tmp_path: Path) -> None:
    (problem,) = _problems(tmp_path / "policy.yaml", b"version: 1\r\nowner: \xe9\r\n")
    assert (problem.line, problem.column) == (2, 8)


def test_duplicate_keys_are_found_wherever_they_are_together_with_everything_else(
    problems: Callable[..., tuple[Problem, ...]],
) -> None:
    found = problems(
        HEAD + "defaults: {retries: 1, retries: 2, rewrite: {max_cost: 5, max_cost: 6, x: 1}}\nversion: 1\n"
    )
    assert [(problem.path, problem.message) for problem in found] == [
        ("defaults.retries", "the key 'retries' is already on line 4"),
        ("defaults.rewrite.max_cost", "the key 'max_cost' is already on line 4"),
        ("defaults.rewrite.x", "unknown key 'x'"),
        ("version", "the key 'version' is already on line 1"),
    ]


def test_a_file_of_50_mb_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    with path.open("wb") as stream:
        stream.truncate(50_000_000)
    with pytest.raises(PolicyError, match="larger than 8MB"):
        load_policy(path)


def test_a_file_full_of_mistakes_gives_a_message_that_can_be_read(tmp_path: Path) -> None:
    entries = "".join(f"  - {{name: a.t{i}, key_{i}: 1}}\n" for i in range(5000))
    found = _problems(tmp_path / "policy.yaml", f"version: 1\ncatalog: {{name: lake}}\ntables:\n{entries}".encode())
    assert 1000 < len(found) < 5000
    assert "too many problems" in found[-2].message + found[-1].message
    assert len(str(PolicyError(found))) < 100_000
    assert str(PolicyError(found)).endswith("more problems; mend these first")


def test_a_mapping_with_more_keys_than_any_policy_has_is_refused(tmp_path: Path) -> None:
    entries = "".join(f"  key_{i}: 1\n" for i in range(5000))
    (problem,) = _problems(tmp_path / "policy.yaml", (HEAD + "defaults:\n" + entries).encode())
    assert "more than 1000 keys" in problem.message


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("b'[' * 7_000_000", id="brackets"),
        pytest.param("b'a: &a [b, c]\\n' * 500_000", id="anchors"),
        pytest.param("b'x' * 7_900_000", id="one word"),
        pytest.param("b'version: 1\\ntables:\\n' + b'- {name: a.b, x: 1}\\n' * 350_000", id="broken tables"),
        pytest.param("b'version: 1\\n' + b''.join(b'k%d: 1\\n' % i for i in range(700_000))", id="unknown keys"),
    ],
)
def test_the_largest_allowed_file_stays_within_its_bounds_of_memory_and_time(tmp_path: Path, content: str) -> None:
    assert MAX_BYTES == 8_000_000
    script = f"""
import sys
from airflow_iceberg_compaction.policy.errors import PolicyError
from airflow_iceberg_compaction.policy.loader import load_policy
open(sys.argv[1], "wb").write({content})
try:
    load_policy(sys.argv[1])
except PolicyError as error:
    print(len(str(error)))
"""
    limits = {resource.RLIMIT_AS: 2 * 2**30, resource.RLIMIT_CPU: 30}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "policy.yaml")],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: [resource.setrlimit(kind, (most, most)) for kind, most in limits.items()],
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 0
