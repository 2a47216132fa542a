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

# A Hadoop catalog, because Iceberg 1.10 leaves reads open in SQLite and then blocks its own commits.
.PHONY: test-spark35
test-spark35: ## the job's tests on Spark 3.5 and Iceberg 1.10, in .venv-spark35
	$(call test-job,spark35,3.5,3.6,org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.1)

.PHONY: test-spark40
test-spark40: ## the job's tests on Spark 4.0 and Iceberg 1.11, in .venv-spark40
	$(call test-job,spark40,4.0,4.1,org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0)

# name, pyspark from, pyspark below, Iceberg runtime
define test-job
	@test -x .venv-$(1)/bin/python || $(PYTHON) -m venv .venv-$(1)
	.venv-$(1)/bin/python -m pip install --quiet --disable-pip-version-check 'pyspark>=$(2),<$(3)' 'pyiceberg[pyarrow,sql-sqlite]>=0.12,<0.13' pydantic pyyaml rich pytest hypothesis
	PYTHONPATH=. TEST_SPARK_CONF='{"spark.jars.packages": "$(4)", "spark.sql.catalog.lake.type": "hadoop"}' \
		.venv-$(1)/bin/python -m pytest -p no:cacheprovider tests/integration/spark_jobs tests/unit/spark_jobs
endef

.PHONY: test-s3
test-s3: setup ## a run on a real S3 server, built once with Go into .venv
	@test -x $(BIN)/versitygw || GOBIN=$(CURDIR)/$(BIN) go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
	$(BIN)/python -m pytest tests/integration/catalogs/test_s3.py

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
