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
for target in request sse metrics_page config; do
    echo "fuzzing $target for $seconds s"
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds"
done
