#!/bin/sh
# Makes .venv-airflow what its lock file says: Airflow, which schedules audits, and nothing of lakeaudit or Spark itself.
# With a version, such as 3.0.6, makes .venv-airflow-VERSION: this Airflow, and the packages of its time. Airflow itself
# names no upper bounds, and 3.0 does not work with the FastAPI of today.
# With `platforms`, makes .venv-airflow-platforms: the Airflow of platforms.lock, with the operators of the platforms.
# Comes after install.sh, whose uv it uses. Safe to interrupt and to run again.
set -eu
cd "$(dirname "$0")/.."
version=${1:-}
venv=.venv-airflow${version:+-$version}
. requirements/steps.sh

install_other() {
    case $version in
        3.0.*) before=2025-09-20 ;;
        3.1.*) before=2026-03-01 ;;
        *) before= ;;
    esac
    sed "s/^apache-airflow==.*/apache-airflow==$version/" requirements/airflow.in >"$venv/airflow.in"
    attempt "installing Airflow $version" .venv/bin/uv pip install --quiet --compile-bytecode --python "$venv/bin/python" \
        ${before:+--exclude-newer "$before"} --requirement "$venv/airflow.in"
}

install_locked() {
    attempt "installing Airflow" .venv/bin/uv pip sync --quiet --compile-bytecode --python "$venv/bin/python" \
        --require-hashes --build-constraints "$lock" "$lock"
}

case $version in
    platforms) lock=requirements/platforms.lock ;;
    *) lock=requirements/airflow.lock ;;
esac
packages="$version$(cat $lock | cksum)"
if ! stamped .installed "$packages"; then
    other_venv .venv/bin/python
    case $version in
        '' | platforms) install_locked ;;
        *) install_other ;;
    esac
    stamp .installed "$packages"
fi
