# Verbs. Where there is more to a verb than a line, it lies in scripts/, xtask or a crate.
SHELL := /bin/bash
CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
BENCH := $(TARGET)/release/maitred-bench --maitred $(TARGET)/release/maitred
FUZZ_SECONDS ?= 60

.PHONY: help demo test lint tools bench bench-build bench-peers deny sbom fuzz ci
help: ## Show these verbs
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: ## Three simulated endpoints and a gateway in front of them
	$(CARGO) run --quiet -p maitred -- demo

tools: ## What the tests need beyond Rust, into target/tools
	@scripts/tools.sh test
test: tools ## All tests
	MAITRED_REQUIRE_TOOLS=1 scripts/test.sh
lint: ## Format, Clippy and documentation, with warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items --quiet

bench-build:
	@scripts/tools.sh bench
	$(CARGO) build --locked --release -p maitred -p maitred-bench
bench: bench-build ## maitred, nginx and HAProxy side by side, and the cores' micro benchmarks
	$(BENCH) $(ARGS)
	$(CARGO) bench --locked --workspace --bench '*'

bench-peers: bench-build ## The same with Envoy, vllm-router and smg
	@scripts/tools.sh peers
	$(BENCH) --peers target/tools/peers $(ARGS)
deny: ## Licences, sources, bans and known weaknesses of dependencies
	@scripts/tools.sh deny && PATH="$(CURDIR)/target/tools/cargo/bin:$$PATH" $(CARGO) deny check
sbom: ## The bill of materials (CycloneDX), into target/maitred.cdx.json
	@mkdir -p target && $(CARGO) run --locked --quiet -p xtask -- sbom target/maitred.cdx.json
fuzz: ## Fuzz every target for FUZZ_SECONDS; needs a nightly toolchain and cargo-fuzz
	scripts/fuzz.sh $(FUZZ_SECONDS)
ci: lint test ## What the continuous integration runs
