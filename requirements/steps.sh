# What both installers do alike, for the environment in $venv. Sourced, in the project's folder.
log=$venv/install.log

say() { echo "lakeaudit: $1" >&2; }

fail() {
    say "$1"
    exit 1
}

# A stamp holds what its step was made from.
stamped() { [ "$(cat "$venv/$1" 2>/dev/null)" = "$2" ]; }
stamp() { echo "$2" >"$venv/$1.part" && mv "$venv/$1.part" "$venv/$1"; }

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

# Make an empty environment for other packages than those of .venv, whose uv it uses.
other_venv() {
    say "setting up $venv (a minute or two, once)"
    use_own_network
    rm -rf "$venv"
    .venv/bin/uv venv --quiet --python "$1" "$venv" || fail "$venv cannot be made"
}

# uv has certificates and an index of its own unless told to use this machine's.
use_own_network() {
    export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-1}"
    index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$(.venv/bin/pip config get global.index-url 2>/dev/null || true)}}
    [ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
}
