"""``iceberg-compaction run``: every stage without Airflow, for a laptop or a Kubernetes CronJob."""

from __future__ import annotations

import os
import re
import secrets
import time
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.cli import common
from airflow_iceberg_compaction.cli.parameters import add_parameter_arguments, run_parameters

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from rich.progress import Progress

    from airflow_iceberg_compaction.catalog import CatalogConfig
    from airflow_iceberg_compaction.documents import Plan, Report, RunResult, Section, TableNumbers
    from airflow_iceberg_compaction.health.cache import ManifestCache
    from airflow_iceberg_compaction.plan.parameters import RunParameters
    from airflow_iceberg_compaction.policy.model import Policy, TablePolicy


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="namespace.name; every enabled table when left out")
    add_parameter_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="stop after the plan")
    parser.add_argument("--verbose", action="store_true", help="show everything Spark prints")
    common.add_policy_argument(parser)
    common.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    from airflow_iceberg_compaction.catalog import TableNotFoundError
    from airflow_iceberg_compaction.report.console import render_report

    policy = common.load(args)
    config = common.find_catalog(policy)
    parameters = run_parameters(args, dry_run=args.dry_run)
    code = 0
    for table in common.find_tables(policy, args.tables):
        try:
            report = maintain(config, policy, table, parameters, verbose=args.verbose)
        except TableNotFoundError as error:  # one that is not there must not keep the others from being maintained
            common.stderr().print(f"iceberg-compaction: {error}", markup=False, soft_wrap=True)
            code = 2
            continue
        if report.outcome in ("failed", "refused", "conflicted"):
            code = code or 1
        if args.json:
            print(report.to_json())
        else:
            common.stdout().print(render_report(report))
    return code


def maintain(
    config: CatalogConfig, policy: Policy, table: TablePolicy, parameters: RunParameters, *, verbose: bool = False
) -> Report:
    """Assess, plan, carry out and report one table; Spark starts only when a section of the plan has work."""
    from airflow_iceberg_compaction import maintenance, store
    from airflow_iceberg_compaction.documents import SECTIONS
    from airflow_iceberg_compaction.report.summary import build_report

    run_id = f"cli-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"
    folder = store.join(common.documents_uri(policy), "runs", config.name, table.name, run_id)
    cache = common.open_cache(policy)
    _, plan = maintenance.assess_and_plan(
        config, policy, table, parameters, run_id=run_id, now_ms=_now_ms(), cache=cache
    )
    store.write_text(store.join(folder, "plan.json"), plan.to_json(indent=2))
    maintenance.set_write_properties(config, plan)
    sections = [section for section in SECTIONS if plan.has_work(section)]
    results: list[RunResult] = []
    failures: dict[Section, str] = {}
    if sections and not plan.dry_run:
        result = _submit(config, policy, plan, sections, folder, verbose=verbose)
        if isinstance(result, str):
            failures = dict.fromkeys(sections, result)
        else:
            results = [result]
    after = _measure(config, table, cache) if results else plan.before
    report = build_report(plan, results, after, _now_ms(), failures)
    store.write_text(store.join(folder, "report.json"), report.to_json(indent=2))
    maintenance.record(config, policy, report)
    _post_to_slack(table, report)
    return report


def _measure(config: CatalogConfig, table: TablePolicy, cache: ManifestCache | None) -> TableNumbers | None:
    """The totals after the run; work that was done is reported even if they cannot be had."""
    from airflow_iceberg_compaction import maintenance

    try:
        return maintenance.measure(config, table, now_ms=_now_ms(), cache=cache)
    except Exception as error:
        common.stderr().print(f"not measured after the run: {config.redact(str(error))}", markup=False, soft_wrap=True)
        return None


def _submit(
    config: CatalogConfig, policy: Policy, plan: Plan, sections: list[Section], folder: str, *, verbose: bool
) -> RunResult | str:
    """The result document, or why there is none."""
    from airflow_iceberg_compaction import store
    from airflow_iceberg_compaction.documents import DocumentError, RunResult
    from airflow_iceberg_compaction.submit import run_locally

    result_uri = store.join(folder, "result.json")
    tail: list[str] = []
    with _progress() as progress:
        show = _bar(progress, plan.table)

        def on_line(line: str) -> None:
            tail[:] = [*tail[-19:], line]
            show(line)
            if verbose:
                progress.console.print(line, markup=False)

        code = run_locally(
            spark=policy.spark,
            catalog=config,
            folder=common.job_folder(policy),
            plan_uri=store.join(folder, "plan.json"),
            result_uri=result_uri,
            sections=sections,
            on_line=on_line,
        )
    try:
        return RunResult.from_json(store.read_text(result_uri))
    except FileNotFoundError:
        common.stderr().print("\n".join(tail), markup=False)
        return f"the Spark job ended with exit code {code} and left no result document"
    except DocumentError as error:
        return f"the result document cannot be read: {error}"


def _progress() -> Progress:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=common.stderr(), transient=True)


def _bar(progress: Progress, table: str) -> Callable[[str], None]:
    """A bar fed by the job's own progress lines."""
    task = progress.add_task(f"{table}: starting Spark", total=None)

    def show(line: str) -> None:
        if match := re.search(r"^progress (\w+)(.*)", line):
            counts = re.search(r"(\d+)/(\d+)", match[2])
            done, total = (int(counts[1]), int(counts[2])) if counts else (None, None)
            progress.update(task, description=f"{table}: {match[1]}{match[2]}", completed=done, total=total)

    return show


def _post_to_slack(table: TablePolicy, report: Report) -> None:
    from airflow_iceberg_compaction.report import slack

    settings = table.report.slack
    if settings is None or not slack.is_wanted(report, settings):
        return
    token = os.environ.get("SLACK_BOT_TOKEN")
    if not token:
        common.stderr().print(
            "no Slack report: outside Airflow its token is read from SLACK_BOT_TOKEN, which is not set"
        )
        return
    try:
        slack.post(token, settings.channel, report, base_url=os.environ.get("SLACK_API_URL"))
    except (slack.SlackError, ImportError) as error:
        common.stderr().print(f"no Slack report: {error}", markup=False)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
