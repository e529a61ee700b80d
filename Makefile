# `make` alone prints this list. Needed: Python 3.11 or newer, make, git. Java is used where there is one.
.DEFAULT_GOAL := help
.PHONY: help install jars demo airflow test test-all check soak bench check-page check-airflow check-container check-spark check-installs check-deploy format schemas lock

BIN := .venv/bin
# Else every process compiles anew what it imports, and each of pytest's workers all tests.
unexport PYTHONDONTWRITEBYTECODE
COMPILE := UV_SYSTEM_CERTS=1 $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: ## set up .venv and Java (a second when done)
	@requirements/install.sh

jars: install ## fetch the jars with which Spark writes Delta tables: the demo and the tests load them
	@$(BIN)/python -m lakeaudit.runtime.install --delta

demo: jars ## break a small lake and audit it; leaves demo-lake/report.html
	@$(BIN)/lakeaudit demo

# Memory comes in large pages, which takes a third of the CPU time off where small ones are expensive: in virtual machines.
TEST = GLIBC_TUNABLES=glibc.malloc.hugetlb=1 $(BIN)/pytest -n 5 --dist loadfile --no-loadscope-reorder
ELSEWHERE := not soak and not airflow and not container and not installs
test: jars ## each rule, reader, check, action and command: 8 minutes on two cores
	@$(TEST) -m "$(ELSEWHERE) and not variant and not page"

test-all: jars ## also audits and repairs at other places, in other formats, with other faults, and pages in a browser: as the build server
	@$(TEST) -m "$(ELSEWHERE)"

soak: jars ## the long tests, and those of properties with many more examples
	@$(BIN)/pytest -m "soak or hypothesis" --hypothesis-profile=many

bench: install ## an audit beside bare Spark and DuckDB: SIZE=10m PROFILE=clean|real TABLES=8 MORE="--second --live", MORE="--format iceberg|hudi"
	@$(BIN)/python -m tests.bench $(or $(SIZE),10m) --profile $(or $(PROFILE),clean) --tables $(or $(TABLES),8) $(MORE)

check-page: install ## look at the report page in a headless Chromium
	@$(BIN)/pytest -m page

check-airflow: install ## run the DAGs in Airflow: by hand, on schedule, with parameters, tried again; AIRFLOW=3.0.6 in an older one
	@requirements/install-airflow.sh $(AIRFLOW)
	@$(if $(AIRFLOW),,requirements/install-airflow.sh platforms)
	@LAKEAUDIT_AIRFLOW=$(AIRFLOW) $(BIN)/pytest -m airflow -n 2 --dist loadfile

check-container: install ## run the Containerfile in a bare Debian, and check the systemd units: as root, with debootstrap
	@$(BIN)/pytest -m container

check-installs: install ## install each extra into a fresh environment, and resolve lakeaudit beside other tools: needs the package index
	@. requirements/steps.sh; use_own_network; $(BIN)/pytest tests/installs -m installs

check-deploy: install ## type docs/deploy.md on a standalone cluster and on YARN: needs the package index, and Maven for YARN
	@. requirements/steps.sh; use_own_network; $(BIN)/pytest tests/installs/test_deploy_page.py -m installs

SPARK_VENV = .venv-spark-$(or $(VERSION),3.5)$(if $(PYTHON),-python-$(subst python,,$(notdir $(PYTHON))))
check-spark: install ## audit on a cluster with another version of Spark or Python: VERSION=3.5|4.0|4.1 PYTHON=3.13
	@requirements/install-spark.sh $(or $(VERSION),3.5) $(SPARK_VENV)
	@SPARK_PYTHON=$(CURDIR)/$(SPARK_VENV)/bin/python $(BIN)/pytest tests/spark/test_cluster.py -m "not soak"

airflow: install ## Airflow on this machine for the lake files of CONF=folder; else for a broken demo lake
	@requirements/install-airflow.sh
	@$(BIN)/python dags/standalone.py $(CONF)

check: install ## format, lint and types, without changing anything
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: install ## put the code in order
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

schemas: install ## write docs/schemas and docs/result-columns.md from the code
	@$(BIN)/python -m tests.builders.schema_files

lock: install ## resolve the lock files anew (UPGRADE=--upgrade takes newer versions)
	@$(COMPILE) $(UPGRADE) requirements/bootstrap.in --output-file requirements/bootstrap.lock
	@$(COMPILE) $(UPGRADE) requirements/dev.in --output-file requirements/dev.lock
	@$(COMPILE) $(UPGRADE) requirements/airflow.in --output-file requirements/airflow.lock
	@$(COMPILE) $(UPGRADE) requirements/platforms.in --output-file requirements/platforms.lock
