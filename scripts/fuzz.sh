#!/usr/bin/env bash
# Fuzzes every target in turn for the given number of seconds, starting from the corpora that the ordinary tests run too.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "fuzzing needs a nightly toolchain: rustup toolchain install nightly" >&2
    exit 1
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "fuzzing needs cargo-fuzz: cargo install cargo-fuzz" >&2
    exit 1
fi
# fuzz TARGET [SEEDS]: new inputs go to fuzz/corpus, which is not kept; the seeds of the crates are only read.
fuzz() {
    local target=$1 own=fuzz/corpus/$1
    echo "fuzzing $target for $seconds s"
    mkdir -p "$own"
    cargo +nightly fuzz run "$target" "$own" "${@:2}" -- -max_total_time="$seconds"
}
fuzz request crates/maitred-llm/corpus/request
fuzz chain crates/maitred-llm/corpus/request
fuzz sse crates/maitred-llm/corpus/sse
fuzz metrics_page crates/maitred-engines/fixtures
fuzz kv_events
fuzz response crates/maitred-proxy/corpus/response
fuzz config examples
fuzz prefixes
fuzz trace
fuzz token crates/maitred-tenant/corpus/token
