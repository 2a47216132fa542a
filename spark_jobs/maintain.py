"""What spark-submit runs: carry out one plan and leave one result document.

    spark-submit maintain.py --plan URI --result URI [--section NAME ...]

Exit codes: 0 every section succeeded or had nothing to do, 1 something failed, was refused or violated a law, 2 the
arguments or the plan cannot be used, 4 somebody else's commits won every race.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import traceback
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import SECTIONS, DocumentError, Plan, StepResult
from spark_jobs.context import Context
from spark_jobs.errors import ConflictError, JobError, RefusedError
from spark_jobs.files import Files
from spark_jobs.jvm import Gateway, translate
from spark_jobs.progress import note
from spark_jobs.results import ResultDocument
from spark_jobs.steps import deletes, expire, manifests, orphans, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from airflow_iceberg_compaction.documents import Outcome, Section

STEPS: dict[Section, Callable[[Context], StepResult]] = {
    "rewrite": rewrite.run,
    "delete_files": deletes.run,
    "manifests": manifests.run,
    "expire": expire.run,
    "orphans": orphans.run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="maintain.py", description="Carry out a maintenance plan.")
    parser.add_argument("--plan", required=True, help="URI of the plan document")
    parser.add_argument("--result", required=True, help="URI of the result document to write")
    parser.add_argument("--section", action="append", choices=SECTIONS, help="only this section; may be repeated")
    options = parser.parse_args(arguments)

    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("iceberg-compaction").getOrCreate()
    try:
        files = Files(Gateway(spark))
        try:
            plan = Plan.from_json(files.read_text(options.plan))
        except (OSError, DocumentError) as error:
            print(f"error: cannot use the plan {options.plan}: {error}", file=sys.stderr)
            return 2
        return carry_out(spark, plan, options.result, options.section)
    finally:
        spark.stop()


def carry_out(
    spark: SparkSession,
    plan: Plan,
    result_uri: str,
    sections: Sequence[Section] | None = None,
    configure: Callable[[Context], Context] = lambda context: context,
) -> int:
    """Run the sections in their order, the result written as they go; ``configure`` lets tests change the context."""
    gateway = Gateway(spark)
    document = ResultDocument.open(
        Files(gateway),
        result_uri,
        plan,
        application_id=spark.sparkContext.applicationId,
        versions=(spark.version, gateway.iceberg_version),
    )
    context = configure(Context(gateway=gateway, plan=plan, document=document))
    steps: list[StepResult] = []
    for section in SECTIONS:
        if section in (sections or SECTIONS) and plan.has_work(section) and not plan.dry_run:
            harmed = next((s.section for s in steps if any(law.verdict == "violated" for law in s.laws)), None)
            if harmed is None:
                step = _one(context, section)
            else:  # the snapshots and files of before may be needed
                reason = f"{harmed} violated a law, so nothing else is done to the table before somebody looked at it"
                step = StepResult(section=section, outcome="refused", reason=reason)
            document.update(step)
            steps.append(step)
            note(f"{section} {step.outcome} {step.reason}".rstrip())
    bad = [step for step in steps if step.outcome in ("failed", "refused")]
    document.finish(error=" | ".join(f"{step.section}: {step.reason}" for step in bad))
    if bad:
        return 1
    return 4 if any(step.outcome == "conflicted" for step in steps) else 0


def _one(context: Context, section: Section) -> StepResult:
    """A section's result, whatever happened in it."""
    try:
        return STEPS[section](context)
    except Exception as error:
        known = translate(error, f"{section} failed")
        if not isinstance(error, JobError):
            traceback.print_exc()
        outcome: Outcome = (
            "refused"
            if isinstance(known, RefusedError)
            else "conflicted"
            if isinstance(known, ConflictError)
            else "failed"
        )
        so_far = next((s for s in context.document.result.steps if s.section == section), None)
        if so_far is None:
            return StepResult(section=section, outcome=outcome, reason=str(known))
        return dataclasses.replace(so_far, outcome=outcome, reason=str(known))


if __name__ == "__main__":
    sys.exit(main())
