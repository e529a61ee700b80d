#!/bin/sh
# Makes .venv what the lock files say, and prepares Spark. Needs Python 3.11 or newer; pip brings uv, uv the rest.
# Safe to interrupt and to run again: each stamp is written when its step is whole, never before.
set -eu
cd "$(dirname "$0")/.."
venv=.venv
. requirements/steps.sh

usable_python() {
    for python in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.14; do
        if [ -n "$python" ] && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    fail "no Python 3.11 or newer found: install one, or name it with PYTHON=/path/to/python3"
}

make_venv() {
    python=$(usable_python)
    rm -rf "$venv"
    mkdir "$venv"
    "$python" -m venv "$venv" >/dev/null 2>&1 || fail "$python cannot make a virtual environment: install its venv module (Debian: python3-venv)"
    attempt "installing uv" "$venv/bin/pip" install --quiet --retries 2 --require-hashes --only-binary :all: -r requirements/bootstrap.lock
}

# An interrupted sync may leave packages half written, which uv cannot see: the next one starts afresh.
sync_packages() {
    again=
    [ ! -e "$venv/.syncing" ] || again=--reinstall
    touch "$venv/.syncing"
    attempt "installing packages" "$venv/bin/uv" pip sync $again --quiet --compile-bytecode --python "$venv/bin/python" --require-hashes \
        --build-constraints requirements/dev.lock requirements/dev.lock
    rm "$venv/.syncing"
}

install_project() {
    attempt "installing lakeaudit" "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --offline --no-deps \
        --no-build-isolation --editable .
}

bootstrap="$(pwd) $(cksum <requirements/bootstrap.lock)"
if ! stamped .bootstrapped "$bootstrap" || ! "$venv/bin/python" -c '' 2>/dev/null; then
    say "setting up $venv (a minute or two, once)"
    make_venv
    stamp .bootstrapped "$bootstrap"
fi

packages="$(cat requirements/dev.lock setup.cfg pyproject.toml | cksum)"
if ! stamped .installed "$packages"; then
    use_own_network
    sync_packages
    install_project
    "$venv/bin/python" -m compileall -q -j 2 jobs dags tests/builders || :  # the first commands and tests start sooner
    stamp .installed "$packages"
fi

exec "$venv/bin/python" -m lakeaudit.runtime.install "$venv/spark-conf"
