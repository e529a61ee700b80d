#!/bin/sh
# Makes .venv-airflow what its lock file says: Airflow, which schedules audits, and nothing of lakeaudit or Spark itself.
# Comes after install.sh, whose uv it uses. Safe to interrupt and to run again.
set -eu
cd "$(dirname "$0")/.."
venv=.venv-airflow
. requirements/steps.sh

packages="$(cat requirements/airflow.lock | cksum)"
if ! stamped .installed "$packages"; then
    other_venv .venv/bin/python
    attempt "installing Airflow" .venv/bin/uv pip sync --quiet --compile-bytecode --python "$venv/bin/python" \
        --require-hashes --build-constraints requirements/airflow.lock requirements/airflow.lock
    stamp .installed "$packages"
fi
