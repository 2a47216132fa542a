"""The policy that ``iceberg-compaction init`` writes: valid as it is, safe as it is, and a tour of what can be set."""

from __future__ import annotations

STARTER = """\
# yaml-language-server: $schema=iceberg_maintenance.schema.json
# The line above gives completion and checks in an editor. Write the schema beside this file with
#   iceberg-compaction schema policy > iceberg_maintenance.schema.json
# Check this file with `iceberg-compaction validate`; see what holds for a table with `iceberg-compaction show-config TABLE`.
version: 1

catalog:
  name: lake # the same name in PyIceberg and in Spark
  conn_id: iceberg_default # Airflow connection of type iceberg
  # Without Airflow, give PyIceberg's properties instead (secrets only as environment variables):
  # properties:
  #   type: rest
  #   uri: https://catalog.example.com
  #   warehouse: s3://warehouse/
  #   credential: ${ICEBERG_CREDENTIAL}

spark:
  conn_id: spark_default
  # conf: {spark.executor.memory: 4g}
  # share_app: true # one Spark application per run instead of one per step

# documents: s3://warehouse/maintenance # plans and results; must be reachable from Spark
# history: maintenance.history # Iceberg table of past runs; off: none

# development looks at 3 small files, staging at 15, production at 20.
profile: ${ICEBERG_MAINTENANCE_PROFILE:-production}

# Every table starts from these; a table's own keys win. MB is 1,000,000 bytes, MiB is 1,048,576.
defaults:
  schedule: "0 2 * * *" # UTC; or {cron: "0 2 * * *", timezone: Europe/Oslo}, or {on_commit: true}
  rewrite:
    max_files: 10000 # budgets of one run; what does not fit is done by the next
    max_bytes: 500GB
  expire_snapshots:
    older_than: 7d
    retain_last: 5
  orphan_files:
    mode: report # nothing is deleted until this says delete
  # report:
  #   slack: {conn_id: slack_default, channel: "#data-ops", when: worked}

tables:
  - name: shop.events
    owner: data-platform
    # rewrite: {strategy: sort, sort_order: [event_ts, user_id desc nulls last]}
    # write_properties: {write.target-file-size-bytes: 128MB, write.parquet.compression-codec: zstd}
    # probe: SELECT count(*) FROM lake.shop.events # equal before and after, or the run fails
  # All tables of a namespace; list them with `iceberg-compaction tables --write`:
  # - name: shop.*
  #   exclude: [shop.tmp_*]
"""
