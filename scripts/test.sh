#!/usr/bin/env bash
# Runs all tests, with nextest where it is installed and with plain cargo otherwise. Arguments go to the runner.
set -euo pipefail
cd "$(dirname "$0")/.."

if cargo nextest --version >/dev/null 2>&1; then
    exec cargo nextest run --locked --workspace "$@"
fi
exec cargo test --locked --workspace "$@"
