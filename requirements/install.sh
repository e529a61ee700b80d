#!/bin/sh
# Makes .venv what the lock files say, and Spark ready. Needs Python 3.11 or newer; pip brings uv, uv the rest.
# Safe to interrupt and to run again: each stamp is written when its step is whole, never before.
set -eu
cd "$(dirname "$0")/.."
venv=.venv
log=$venv/install.log

say() { echo "lakeaudit: $1" >&2; }

fail() {
    say "$1"
    exit 1
}

# A stamp holds what its step was made from.
stamped() { [ "$(cat "$venv/$1" 2>/dev/null)" = "$2" ]; }
stamp() { echo "$2" >"$venv/$1.part" && mv "$venv/$1.part" "$venv/$1"; }

usable_python() {
    for python in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.14; do
        if [ -n "$python" ] && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    fail "no Python 3.11 or newer found: install one, or name it with PYTHON=/path/to/python3"
}

# Run a step with its words in the log; on failure tell the likely cause in one line.
attempt() {
    what=$1
    shift
    "$@" >"$log" 2>&1 && return
    if grep -qiE 'connect|dns|resolve host|resolution|timed out|timeout|tunnel|certificate|no matching distribution' "$log"; then
        fail "$what: the Python package index cannot be reached; connect this machine, or set PIP_INDEX_URL to a mirror (details: $log)"
    fi
    fail "$what failed: $(grep -v '^ *$' "$log" | tail -n 1) (details: $log)"
}

make_venv() {
    python=$(usable_python)
    rm -rf "$venv"
    mkdir "$venv"
    "$python" -m venv "$venv" >/dev/null 2>&1 || fail "$python cannot make a virtual environment: install its venv module (Debian: python3-venv)"
    attempt "installing uv" "$venv/bin/pip" install --quiet --retries 2 --require-hashes --only-binary :all: -r requirements/bootstrap.lock
}

# uv has certificates and an index of its own unless told to use this machine's.
use_own_network() {
    export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-1}"
    index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$("$venv/bin/pip" config get global.index-url 2>/dev/null || true)}}
    [ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
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
    stamp .installed "$packages"
fi

exec "$venv/bin/python" -m lakeaudit.install "$venv/spark-conf"
