# Everything runs in .venv; `make setup` needs Python 3.11+ and, for Spark, Java 17+.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(STAMP) ## make .venv with everything pinned by constraints.txt

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is %s; set PYTHON=" % sys.version.split()[0])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[spark,slack,postgres,fast,dev]'
	@touch $@

.PHONY: demo
demo: setup ## the whole story on a local folder (.demo): real Airflow, Spark and Iceberg
	@$(BIN)/iceberg-compaction demo --folder .demo

.PHONY: test
test: setup lint ## lint, types, import contracts and all tests
	$(BIN)/python -m pytest

.PHONY: test-plan
test-plan: setup ## compare the plan with Iceberg's own planner on 2,000 random tables (about half an hour)
	PLAN_TABLES=2000 $(BIN)/python -m pytest tests/integration/plan/test_against_iceberg_planner.py

.PHONY: test-floor
test-floor: ## tests of the Airflow side on the oldest supported Airflow, in .venv-airflow31
	@test -x .venv-airflow31/bin/python || $(PYTHON) -m venv .venv-airflow31
	.venv-airflow31/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[spark,slack,dev]' 'apache-airflow>=3.1,<3.2'
	.venv-airflow31/bin/python -m pytest -p no:cacheprovider tests/unit/airflow tests/integration/airflow

.PHONY: test-spark35
test-spark35: ## the job's tests on Spark 3.5 and Iceberg 1.10, in .venv-spark35
	@test -x .venv-spark35/bin/python || $(PYTHON) -m venv .venv-spark35
	.venv-spark35/bin/python -m pip install --quiet --disable-pip-version-check 'pyspark>=3.5,<3.6' 'pyiceberg[pyarrow,sql-sqlite]>=0.12,<0.13' pydantic pyyaml rich pytest hypothesis
	PYTHONPATH=. TEST_SPARK_CONF='{"spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.1", "spark.sql.catalog.lake.type": "hadoop"}' \
		.venv-spark35/bin/python -m pytest -p no:cacheprovider tests/integration/spark_jobs tests/unit/spark_jobs

.PHONY: stress
stress: setup ## 100 rounds of writers against a running rewrite, at most 30 minutes
	$(BIN)/python tests/stress/concurrent_writers.py --rounds 100 --minutes 30

.PHONY: lint
lint: setup ## ruff, mypy --strict and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: clean
clean: ## remove the demo and caches, keep .venv
	rm -rf .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
