from __future__ import annotations

import dataclasses
import os

import pytest

from spark_jobs.checksum import Checksum
from spark_jobs.probe import Measured, compare

pytestmark = pytest.mark.spark

EVERY_TYPE = """
    id bigint, flag boolean, i int, f float, d double, money decimal(20, 4), day date, ts timestamp, local timestamp_ntz,
    s string, bin binary, nested struct<a: int, b: struct<c: string>>, items array<struct<x: int, y: string>>,
    tags map<string, array<int>>
"""
EVERY_VALUE = """
    SELECT id, id % 2 = 0, cast(id as int), float(id) / 3, if(id % 7 = 0, double('NaN'), id / 3.0D),
      cast(id * 1.25 as decimal(20, 4)), date_add(DATE '2024-01-01', cast(id % 100 as int)),
      timestamp_micros(1700000000000000 + id * 1001), cast(timestamp_micros(1600000000000000 + id) as timestamp_ntz),
      if(id % 5 = 0, null, concat('a long text that is cut in bounds ', id)), cast(concat('b', id) as binary),
      if(id % 3 = 0, null, named_struct('a', cast(id as int), 'b', named_struct('c', concat('c', id)))),
      if(id % 4 = 0, null, array(named_struct('x', cast(id as int), 'y', null), named_struct('x', null, 'y', 'q'))),
      if(id % 6 = 0, null, map('k', array(cast(id as int), null), concat('k', id), array()))
    FROM range({start}, {end})
"""


def compact(on_lake, table: str, **changes):
    """Run a plan over the whole table; the rows before and after, and the rewrite's result."""
    before = on_lake.rows(table)
    plan = on_lake.plan(table, **changes)
    code, result = on_lake.run(plan)
    step = on_lake.step(result)
    assert (code, step.outcome) == (0, "succeeded"), step.reason
    assert on_lake.rows(table) == before
    return step


def verdicts(step) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for law in step.laws:
        found.setdefault(law.verdict, set()).add(law.name)
    return found


def unread_lineage(version: str, audit: str) -> set[str]:
    """Row ids of a v3 table can only be compared by reading them."""
    return {"row_lineage"} if version == "3" and audit == "metadata" else set()


def test_small_files_become_one_file_and_every_law_holds(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table)
    step = compact(on_lake, table)
    assert on_lake.files(table) == 1
    assert step.numbers["files_compacted"] == 6
    assert step.numbers["files_added"] == 1
    assert verdicts(step) == {
        "held": {
            "rows", "value_counts", "null_counts", "nan_counts", "lower_bounds", "upper_bounds", "published_files",
            "head_rows",
        }
    }  # fmt: skip


def test_the_commit_carries_the_stamps_of_run_and_batch(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table)
    plan = on_lake.plan(table)
    on_lake.run(plan)
    summary = on_lake.iceberg(table).head().summary
    assert summary["iceberg-compaction.run-id"] == plan.run_id
    assert summary["iceberg-compaction.batch-id"] == "b-0001"


def test_only_the_partitions_of_the_filter_are_touched(on_lake) -> None:
    table = on_lake.create(by="bucket(4, id)")
    on_lake.fill(table, files=5)
    compact(on_lake, table, filters=[on_lake.bucket(1), on_lake.bucket(2)])
    counts = on_lake.sql(f"SELECT partition.id_bucket, count(*) FROM lake.{table}.data_files GROUP BY 1")
    assert dict(counts) == {0: 5, 1: 1, 2: 1, 3: 5}


def test_a_batch_with_nothing_left_is_skipped_without_a_commit(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table, files=1)
    head = on_lake.iceberg(table).head().snapshot_id
    code, result = on_lake.run(on_lake.plan(table))
    assert code == 0
    assert on_lake.step(result).outcome == "nothing_to_do"
    assert on_lake.iceberg(table).head().snapshot_id == head


def test_drift_between_plan_and_table_is_reported(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table, files=4)
    plan = on_lake.plan(table)
    batch = dataclasses.replace(plan.rewrite.batches[0], input_files=3, groups=1)
    plan = dataclasses.replace(plan, rewrite=dataclasses.replace(plan.rewrite, batches=(batch,)))
    _, result = on_lake.run(plan)
    assert "input files: 3 planned, 4 found" in on_lake.step(result).batches[0].drift


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize("audit", ["metadata", "checksum"])
def test_every_type_survives_in_every_format_version(on_lake, version, audit) -> None:
    table = on_lake.create(EVERY_TYPE, format_version=version)
    for number in range(3):
        on_lake.sql(f"INSERT INTO lake.{table} " + EVERY_VALUE.format(start=number * 40, end=number * 40 + 40))
    step = compact(on_lake, table, rewrite={"audit": audit})
    assert verdicts(step).get("not_checked", set()) == unread_lineage(version, audit)
    names = {law.name for law in step.laws}
    assert ("checksum" in names) == (audit == "checksum")
    assert ("row_lineage" in names) == (version == "3")


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_other_file_formats_are_rewritten_and_audited(on_lake, file_format) -> None:
    table = on_lake.create(write__format__default=file_format)
    on_lake.fill(table)
    assert on_lake.files(table) == 6
    step = compact(on_lake, table)
    assert on_lake.files(table) == 1
    # Avro files carry no column statistics: the certificate must not claim otherwise.
    assert ("not_checked" in verdicts(step)) == (file_format == "avro")
    assert "rows" in verdicts(step)["held"]


def test_a_checksum_covers_what_statistics_cannot(on_lake) -> None:
    table = on_lake.create(write__format__default="avro")
    on_lake.fill(table, files=3)
    assert set(verdicts(compact(on_lake, table, rewrite={"audit": "checksum"}))) == {"held"}


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("audit", ["metadata", "checksum"])
def test_deleted_rows_are_applied_and_their_files_go(on_lake, version, audit) -> None:
    table = on_lake.create(format_version=version)
    on_lake.fill(table)
    # Another number of rows in every file, so that no delete can be counted for another.
    on_lake.sql(f"DELETE FROM lake.{table} WHERE id % 10 = 3 AND id > 20 OR id BETWEEN 60 AND 80")
    on_lake.sql(f"UPDATE lake.{table} SET name = null WHERE id % 10 = 4")
    left = len(on_lake.rows(table))
    step = compact(on_lake, table, rewrite={"audit": audit})
    assert verdicts(step).get("not_checked", set()) == unread_lineage(version, audit)
    assert ("checksum" in verdicts(step)["held"]) == (audit == "checksum")  # statistics alone raised no suspicion
    rows = next(law for law in step.laws if law.name == "rows")
    assert (rows.before, rows.after) == (left, left)
    if version == "3":  # deletion vectors go in the same commit; v2 deletes dangle until the next step
        assert on_lake.sql(f"SELECT count(*) FROM lake.{table}.delete_files") == [(0,)]


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("audit", ["metadata", "checksum"])
def test_files_of_which_every_row_is_deleted_go(on_lake, version, audit) -> None:
    table = on_lake.create(by="bucket(2, id)", format_version=version)
    on_lake.fill(table)
    on_lake.sql(f"DELETE FROM lake.{table} WHERE lake.system.bucket(2, id) = 0 AND length(name) > 0")
    step = compact(on_lake, table, filters=[on_lake.bucket(0, of=2)], rewrite={"audit": audit})
    assert "violated" not in verdicts(step)
    assert step.numbers["files_added"] == 0
    assert on_lake.sql(f"SELECT count(*) FROM lake.{table}.data_files WHERE partition.id_bucket = 0") == [(0,)]


def test_files_of_a_spec_without_any_field_left_are_rewritten(on_lake) -> None:
    """Dropping the only field of a v1 spec leaves a `void` one, and files with a partition of nulls."""
    table = on_lake.create("price double, id bigint, name string", by="bucket(2, id), name", format_version="1")
    on_lake.fill(table, files=2, rows=5)
    on_lake.sql(f"ALTER TABLE lake.{table} DROP PARTITION FIELD bucket(2, id)")
    on_lake.sql(f"ALTER TABLE lake.{table} DROP PARTITION FIELD name")
    on_lake.fill(table, files=4, start=1000)
    assert set(verdicts(compact(on_lake, table))) == {"held"}
    assert on_lake.files(table) == 1


def test_row_ids_of_a_v3_table_stay_the_same(on_lake) -> None:
    table = on_lake.create(format_version="3")
    on_lake.fill(table)
    on_lake.sql(f"DELETE FROM lake.{table} WHERE id % 10 = 3")
    query = f"SELECT id, _row_id, _last_updated_sequence_number FROM lake.{table} ORDER BY id"
    before = on_lake.sql(query)
    compact(on_lake, table)
    assert on_lake.sql(query) == before


def test_equality_deletes_are_applied(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table)
    on_lake.equality_delete(table, "id", [5, 77, 291])
    assert on_lake.sql(f"SELECT count(*) FROM lake.{table}") == [(297,)]
    step = compact(on_lake, table)
    rows = next(law for law in step.laws if law.name == "rows")
    assert (rows.before, rows.after) == (297, 297)


def test_schema_changes_between_the_files_are_harmless(on_lake) -> None:
    table = on_lake.create("id bigint, small int, name string, gone string")
    on_lake.sql(f"INSERT INTO lake.{table} VALUES (1, 1, 'a', 'x'), (2, null, 'b', 'y')")
    on_lake.sql(f"ALTER TABLE lake.{table} ALTER COLUMN small TYPE bigint")
    on_lake.sql(f"ALTER TABLE lake.{table} RENAME COLUMN name TO title")
    on_lake.sql(f"ALTER TABLE lake.{table} DROP COLUMN gone")
    on_lake.sql(f"ALTER TABLE lake.{table} ADD COLUMN added double")
    on_lake.sql(f"INSERT INTO lake.{table} VALUES (3, 3, 'c', 1.5D), (4, 5000000000, null, double('NaN'))")
    step = compact(on_lake, table)
    assert "violated" not in verdicts(step)
    # The old file has no statistics of the new column.
    assert "null_counts" in verdicts(step)["not_checked"]
    assert set(verdicts(compact_again(on_lake, table))) == {"held"}


def compact_again(on_lake, table):
    on_lake.sql(f"INSERT INTO lake.{table} VALUES (5, 5, 'e', 2.5D)")
    return compact(on_lake, table)


def test_a_default_value_of_a_v3_column_survives(on_lake) -> None:
    table = on_lake.create("id bigint", format_version="3")
    on_lake.sql(f"INSERT INTO lake.{table} VALUES (1)")
    on_lake.add_column_with_default(table, "color", "red")
    on_lake.sql(f"INSERT INTO lake.{table} VALUES (2, 'blue'), (3, null)")
    compact(on_lake, table, rewrite={"audit": "checksum"})
    assert on_lake.sql(f"SELECT * FROM lake.{table} ORDER BY id") == [(1, "red"), (2, "blue"), (3, None)]


def test_files_written_by_pyiceberg_pass_the_audit(on_lake, catalog) -> None:
    import pyarrow as pa

    if on_lake.catalog_type == "hadoop":
        pytest.skip("PyIceberg has no client for a Hadoop catalog")
    name = f"{on_lake.namespace}.py"
    rows = pa.table(
        {"id": [1, 2, 3], "d": [1.5, None, -0.0], "s": ["x" * 40, None, "y"], "n": [{"a": 1}, None, {"a": 3}]}
    )
    table = catalog.create_table(name, schema=rows.schema)
    for _ in range(3):
        table.append(rows)
    step = compact(on_lake, name)
    assert "violated" not in verdicts(step)


def test_sort_by_the_plan_s_order_sorts_the_rows(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table)
    compact(on_lake, table, rewrite={"strategy": "sort", "sort_order": ("price desc nulls last", "id")})
    (path,) = on_lake.sql(f"SELECT file_path FROM lake.{table}.data_files")[0]
    prices = [row[0] for row in on_lake.sql(f"SELECT price FROM lake.{table} WHERE _file = '{path}'")]
    assert prices == sorted(prices, reverse=True)


def test_sort_without_an_order_uses_the_table_s_and_marks_the_files(on_lake) -> None:
    table = on_lake.create()
    on_lake.sql(f"ALTER TABLE lake.{table} WRITE ORDERED BY id DESC")
    on_lake.fill(table)
    compact(on_lake, table, rewrite={"strategy": "sort"}, options={"rewrite-all": "true"})
    marked = on_lake.iceberg_version >= (1, 11)  # older runners sort as well, but do not say so in the manifest
    assert on_lake.sql(f"SELECT sort_order_id FROM lake.{table}.data_files") == [(int(marked),)]


def test_zorder_rewrites_by_several_columns(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table)
    step = compact(on_lake, table, rewrite={"strategy": "zorder", "sort_order": ("id", "price")})
    assert set(verdicts(step)) == {"held"}


def test_files_of_an_old_spec_move_to_the_current_one(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table, files=4)
    on_lake.sql(f"ALTER TABLE lake.{table} ADD PARTITION FIELD bucket(2, id)")
    on_lake.fill(table, files=2, start=1000)
    step = compact(on_lake, table)
    assert set(verdicts(step)) == {"held"}
    assert on_lake.sql(f"SELECT DISTINCT spec_id FROM lake.{table}.data_files") == [(1,)]


def test_an_object_store_layout_and_another_data_path_are_respected(on_lake, tmp_path) -> None:
    table = on_lake.create(write__object_storage__enabled="true", write__data__path=f"file://{tmp_path}/elsewhere")
    on_lake.fill(table)
    compact(on_lake, table)
    (path,) = on_lake.sql(f"SELECT file_path FROM lake.{table}.data_files")[0]
    assert f"{tmp_path}/elsewhere/compacted/" in path


def test_a_probe_that_answers_the_same_is_a_law_and_a_measure(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table)
    step = compact(on_lake, table, rewrite={"probe": f"SELECT sum(price), count(*) FROM lake.{table}"})
    assert step.numbers["probe"]["equal"] is True
    assert {"before_ms", "after_ms"} <= step.numbers["probe"].keys()


def test_a_probe_whose_answer_others_changed_proves_nothing_and_breaks_nothing() -> None:
    before, after = (Measured(Checksum(rows, "x"), 5) for rows in (10, 11))
    assert compare(before, after, others_wrote=True)[0].verdict == "not_checked"
    assert compare(before, after, others_wrote=False)[0].verdict == "violated"
    assert compare(before, before, others_wrote=True)[0].verdict == "held"


def test_a_probe_that_cannot_run_is_refused_before_anything_changes(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table)
    code, result = on_lake.run(on_lake.plan(table, rewrite={"probe": "SELECT nothing FROM nowhere"}))
    assert (code, on_lake.step(result).outcome, on_lake.files(table)) == (1, "refused", 6)


def test_an_unknown_option_is_refused(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table)
    code, result = on_lake.run(on_lake.plan(table, options={"min-input-filez": "2"}))
    assert (code, on_lake.step(result).outcome) == (1, "refused")
    assert "min-input-filez" in on_lake.step(result).reason


def test_a_table_that_was_replaced_since_the_plan_is_refused(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table)
    plan = dataclasses.replace(on_lake.plan(table), table_uuid="11111111-2222-3333-4444-555555555555")
    code, result = on_lake.run(plan)
    assert (code, on_lake.step(result).outcome) == (1, "refused")


def test_an_encrypted_table_is_refused(on_lake) -> None:
    table = on_lake.create(format_version="3", encryption__key_id="key")
    code, result = on_lake.run(on_lake.plan(table))
    assert (code, on_lake.step(result).outcome) == (1, "refused")
    assert "encrypted" in on_lake.step(result).reason


def test_nothing_of_a_finished_run_is_left_but_its_published_files(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table)
    compact(on_lake, table)
    left = [name for _, _, names in os.walk(on_lake.data_folder(table) / "compacted") for name in names]
    assert [name for name in left if not name.endswith((".parquet", ".crc"))] == []


def test_an_unknown_iceberg_is_served_through_the_public_action(on_lake) -> None:
    table = on_lake.create(by="bucket(4, id)")
    on_lake.fill(table)
    before = on_lake.rows(table)

    def without_internals(context):
        context.gateway.__dict__["missing"] = ("org.apache.iceberg.Renamed",)
        return context

    plan = on_lake.plan(table, [on_lake.bucket(0), on_lake.bucket(1)])
    code, result = on_lake.run(plan, configure=without_internals)
    step = on_lake.step(result)
    assert (code, step.outcome) == (0, "succeeded")
    assert on_lake.rows(table) == before
    assert step.numbers["files_compacted"] == 12
    assert {law.checked for law in step.laws} == {"after_publish"}
    assert "audited after publish" in step.remarks[0]
    again = on_lake.run(plan, configure=without_internals)[1]
    assert {b.outcome for b in on_lake.step(again).batches} == {"already_committed"}
