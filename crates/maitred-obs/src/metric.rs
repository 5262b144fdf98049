//! Every metric that maitred exposes: its name, kind, labels and meaning, declared once.
//!
//! Names follow the OpenTelemetry semantic conventions for generative AI where those have one (dots become underscores, the
//! unit is a suffix); the rest begin with `maitred_`.

/// Whether a metric only rises, may fall, or is a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises; `_total` is appended to the name.
    Counter,
    /// May rise and fall.
    Gauge,
    /// A distribution in buckets.
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, without `_total`, `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// Its meaning and unit.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($ident:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(#[doc = $help] pub const $ident: Metric = Metric {
            name: $name,
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*

        /// All of them, in the order of the reference page.
        pub const ALL: &[Metric] = &[$($ident),*];
    };
}

metrics! {
    REQUEST_DURATION: Histogram "gen_ai_server_request_duration_seconds" ["pool", "gen_ai_request_model"]
        "Time from the arrival of a call to the end of its answer, whatever the outcome, in seconds";
    FIRST_TOKEN: Histogram "gen_ai_server_time_to_first_token_seconds" ["pool", "gen_ai_request_model"]
        "Time from the arrival of a call to its first output, retries included, in seconds";
    PER_TOKEN: Histogram "gen_ai_server_time_per_output_token_seconds" ["pool", "gen_ai_request_model"]
        "Time between first and last output divided by the output tokens after the first, in seconds";
    TOKENS: Counter "gen_ai_client_token_usage" ["pool", "gen_ai_request_model", "gen_ai_token_type"]
        "Tokens of calls: input (cached ones included), cached_input, output";
    CALLS: Counter "maitred_calls" ["pool", "gen_ai_request_model", "outcome", "fault"]
        "Calls by outcome; fault is empty when nothing went wrong";
    SERVICE_CALLS: Counter "maitred_service_calls" ["model", "tenant", "result"]
        "Calls by how well they were served: full (what was asked for answered), degraded, failed, refused (for the caller's own fault or limits) and left (by the client). Success ratio: full and degraded over full, degraded and failed; full-quality ratio: full over the same. The model is the name asked for";
    DEGRADED_ANSWERS: Counter "maitred_degraded_answers" ["kind", "reason", "model", "tenant"]
        "Answers that were said to be degraded, those included that broke off or were left by the client, by the name asked for";
    DEGRADED_RATIO: Gauge "maitred_degraded_ratio" ["model"]
        "Share of the calls of a route, over the objective's window, that something else answered than what was asked for, or would have, 0 to 1";
    DEGRADED_BURN_RATE: Gauge "maitred_degraded_burn_rate" ["model"]
        "The same divided by the share that the objective allows; above 1 is a breach";
    DEGRADATION_STATE: Gauge "maitred_degradation_state" ["model", "state"]
        "1 for how the objective of a route stands, 0 for the others: calm, warning (429 answers rise) and breach";
    ANSWER_LOOKUPS: Counter "maitred_answer_lookups" ["result"]
        "Calls that might be answered from the answer cache, by whether they were: found, missed";
    ANSWER_BYTES: Gauge "maitred_answer_cache_bytes" []
        "Memory that kept answers take, in bytes";
    USAGE_ESTIMATED: Counter "maitred_usage_estimated" ["pool", "gen_ai_request_model"]
        "Calls whose tokens the endpoint did not report, so that the gateway estimated them";
    REFUSED: Counter "maitred_refused_calls" ["fault"]
        "Calls refused before a pool was chosen: bad requests, keys and models";
    PICKS: Counter "maitred_picks" ["pool", "reason"]
        "Endpoints chosen, by the reason of the choice";
    REFUSALS: Counter "maitred_pick_refusals" ["pool", "reason"]
        "Asks for which no endpoint was chosen, by reason; those included that waited in vain, and those that were shed";
    WAITING: Gauge "maitred_waiting_calls" ["pool", "class"]
        "Calls that wait in the gateway until an endpoint has room";
    QUEUE: Histogram "maitred_queue_seconds" ["pool", "class"]
        "How long calls waited that had to wait, with success or in vain";
    RETRIES: Counter "maitred_retries" ["pool", "fault"]
        "Attempts on another endpoint, by what went wrong with the attempt before";
    RETRIES_DENIED: Counter "maitred_retries_denied" ["pool"]
        "Further attempts that the retry budget did not allow";
    LEASES_ABANDONED: Counter "maitred_leases_abandoned" ["pool"]
        "Leases dropped without an outcome; always zero unless a task of the gateway died";
    POOL_EVENTS: Counter "maitred_pool_events" ["pool", "event"]
        "Changes in a pool's life: an endpoint became ready, was ejected, returned, is draining, is gone, panic began or ended";
    SHARING_UP: Gauge "maitred_sharing_up" ["pool"]
        "Whether the shared log can be written and read; without it the gateway knows its own calls and the endpoints' pages";
    SHARING_PEERS: Gauge "maitred_sharing_peers" ["pool"]
        "Other gateways before the same pool that are heard of";
    SHARING_MESSAGES: Counter "maitred_sharing_messages" ["pool", "result"]
        "Messages among gateways: sent, heard, unreadable, and lost for want of the shared log";
    QUOTA_STORE_UP: Gauge "maitred_quota_store_up" []
        "Whether the store of shared quota answers; without it each gateway goes on with its part, or refuses, as configured";
    QUOTA_ASKS: Counter "maitred_quota_asks" ["result"]
        "What the store of shared quota was asked: answered, late (it came too late and changed nothing) and lost";
    QUOTA_BLIND: Counter "maitred_quota_blind_calls" []
        "Calls that were let go without knowing whether other gateways had left something of the quota";
    SCRAPES: Counter "maitred_scrapes" ["pool", "result"]
        "Reads of endpoints' metrics pages, by result";
    PROBES: Counter "maitred_probes" ["pool", "result"]
        "Readiness and health probes, by result";
    SHADOWS: Counter "maitred_shadow_decisions" ["pool", "profile", "agrees"]
        "Asks that a shadow profile considered beside the live one, by whether it would have chosen the same endpoint";
    KV_EVENTS: Counter "maitred_kv_events" ["pool", "result"]
        "What came of following endpoints' KV events: batches taken, played again or unreadable, gaps, restarts, connections made and lost";
    PREFIX_ON: Gauge "maitred_prefix_on" ["pool"]
        "1 while every prompt is looked up in the prefix index, 0 while only a sample is because calls share too little";
    PREFIX_BYTES: Gauge "maitred_prefix_bytes" ["pool"]
        "Bytes that the prefix index takes up";
    PREFIX_BLOCKS: Gauge "maitred_prefix_blocks" ["pool"]
        "Blocks of prompts that the prefix index knows, each counted once";
    PREFIX_BLOCKS_GONE: Counter "maitred_prefix_blocks_gone" ["pool", "cause"]
        "Blocks that left the prefix index, per endpoint: evicted for want of room in the endpoint, lost for want of bytes in the gateway";
    PREFIX_LOOKUPS: Counter "maitred_prefix_lookups" ["pool", "result"]
        "Calls whose prompt was looked up, skipped though it was cut into blocks since the index was off, or untracked for want of bytes; the last are looked up too";
    PREFIX_PROMPT: Counter "maitred_prefix_prompt_tokens" ["pool", "held_by"]
        "Prompt tokens of calls looked up: asked for, and held by the best candidate, by a random one and by the chosen one; chosen less random is what placement gained";
    PREFIX_CACHED: Counter "maitred_prefix_cached_tokens" ["pool", "figure"]
        "Cached tokens of answers that report theirs: predicted, reported, and the error summed over answers; reported over predicted is the calibration";
    PREFIX_SURPRISES: Counter "maitred_prefix_surprises" ["pool", "kind"]
        "Answers whose cached tokens corrected the prefix index: a shortfall against what was certain, a surplus over what was predicted";
    PREFIX_SNAPSHOTS: Counter "maitred_prefix_snapshots" ["pool", "result"]
        "Snapshots of the prefix index: files written, failed to be written, and unreadable; endpoints taken in, and refused as another life";
    ENDPOINT_HELD: Gauge "maitred_endpoint_prefix_held_tokens" ["pool", "endpoint"]
        "Prompt tokens that the endpoint is taken to hold in its prefix cache";
    ENDPOINT_CAPACITY: Gauge "maitred_endpoint_prefix_capacity_tokens" ["pool", "endpoint"]
        "Prompt tokens that the endpoint is guessed to be able to hold; absent where its own events say what goes";
    ENDPOINT_SCALE: Gauge "maitred_endpoint_prefix_capacity_scale" ["pool", "endpoint"]
        "The learnt part of that guess; 1 is the endpoint's own number";
    ENDPOINT_SHARE: Gauge "maitred_endpoint_share" ["pool", "endpoint"]
        "Share of the pool's last picks that went to the endpoint, 0 to 1";
    ENDPOINT_PICKS: Counter "maitred_endpoint_picks" ["pool", "endpoint"]
        "Picks of the endpoint in its present life, and in an earlier one that still drains";
    ENDPOINT_ERRORS: Counter "maitred_endpoint_errors" ["pool", "endpoint"]
        "Attempts on the endpoint that failed in its present life, and in an earlier one that still drains";
    ENDPOINT_IN_FLIGHT: Gauge "maitred_endpoint_in_flight" ["pool", "endpoint"]
        "Attempts of this gateway under way on the endpoint";
    ENDPOINT_WAITING: Gauge "maitred_endpoint_waiting_requests" ["pool", "endpoint"]
        "Requests waiting in the endpoint, as it last reported";
    ENDPOINT_RUNNING: Gauge "maitred_endpoint_running_requests" ["pool", "endpoint"]
        "Requests running in the endpoint, as it last reported";
    ENDPOINT_KV: Gauge "maitred_endpoint_kv_cache_used_ratio" ["pool", "endpoint"]
        "Used share of the endpoint's KV cache, 0 to 1, as it last reported";
    ENDPOINT_KV_ESTIMATE: Gauge "maitred_endpoint_kv_cache_estimate_ratio" ["pool", "endpoint"]
        "Used share of the KV cache carried forward by what this gateway has sent since the last report, 0 to 1";
    ENDPOINT_QUEUE: Gauge "maitred_endpoint_queue_seconds" ["pool", "endpoint"]
        "Prefill work that a new call would wait for on the endpoint, own and others', as reckoned, in seconds";
    ENDPOINT_AGE: Gauge "maitred_endpoint_signals_age_seconds" ["pool", "endpoint"]
        "Age of the endpoint's last good report, in seconds";
    ENDPOINT_CUSTOM: Gauge "maitred_endpoint_custom" ["pool", "endpoint", "name"]
        "A figure that the configuration names under metrics.custom, as the endpoint last reported it";
    ENDPOINT_STATE: Gauge "maitred_endpoint_state" ["pool", "endpoint", "state"]
        "1 for the state the endpoint is in, 0 for the others; an earlier life that still drains is not asked";
    OPEN_CONNECTIONS: Gauge "maitred_open_connections" []
        "Client connections that are open";
    ACTIVE_CALLS: Gauge "maitred_active_calls" []
        "Calls that are under way";
    CONNECTIONS_REFUSED: Counter "maitred_connections_refused" ["reason"]
        "Client connections closed before their first call: too many, or a failed TLS handshake";
    RECORDS_DROPPED: Counter "maitred_access_records_dropped" []
        "Access records lost because their reader was slower than the traffic for too long";
    RECORDING_DROPPED: Counter "maitred_recording_dropped" []
        "Calls left out of the recording because its file is full, cannot be written, or was slower than the traffic for too long";
    LEDGER_ROWS: Counter "maitred_ledger_rows" []
        "Rows handed to the ledger's database: one per call and one per attempt";
    LEDGER_INTERRUPTED: Counter "maitred_ledger_interrupted_calls" []
        "Calls of gateways that died, settled from what those left in the spool";
    LEDGER_OPEN: Gauge "maitred_ledger_open_calls" []
        "Calls whose beginning is in the ledger's spool and whose end is not yet";
    LEDGER_SPOOL: Gauge "maitred_ledger_spool_bytes" []
        "Size of the ledger's spool, in bytes; it grows while the database takes no rows";
    LEDGER_BEHIND: Gauge "maitred_ledger_behind_seconds" []
        "Time since everything in the spool was in the database too, in seconds";
    LEDGER_LATE: Counter "maitred_ledger_late_calls" []
        "Calls that went on although the spool's disk had not taken their beginning within ledger.wait";
    LEDGER_REFUSED: Counter "maitred_ledger_refused_calls" ["reason"]
        "Calls refused because the ledger could not be written: spool_full, overrun, late, database_down. Not refused, but left out of it: not_entered, calls that found no endpoint meanwhile";
    LEDGER_ERRORS: Counter "maitred_ledger_errors" ["kind"]
        "Failures of the ledger's parts: spool, damaged, unreachable, refused, timeout, schema";
    AUDIT_ENTRIES: Counter "maitred_audit_entries" []
        "Entries written to the audit";
    AUDIT_HEAD: Gauge "maitred_audit_head" []
        "Number of the newest entry of the audit that is on the disk";
    AUDIT_SIZE: Gauge "maitred_audit_size_bytes" []
        "Size of all files of the audit, in bytes; it grows for ever unless audit.keep or audit.max_size says otherwise";
    AUDIT_LOST: Counter "maitred_audit_lost_entries" []
        "Entries that the audit had no room for while it could not be written; how many is entered later";
    AUDIT_ERRORS: Counter "maitred_audit_errors" []
        "Failed attempts to write the audit; each is tried again";
    TEXTS_KEPT: Counter "maitred_texts_kept" []
        "Calls whose text was kept, of tenants that want it (audit.text)";
    TEXTS_LOST: Counter "maitred_texts_lost" []
        "Calls whose text was to be kept and was not, since too much waited for the disk or it refused";
    DECISIONS_ARCHIVED: Counter "maitred_decisions_archived" []
        "Decision records written to the archive";
    DECISIONS_DROPPED: Counter "maitred_decisions_dropped" ["reason"]
        "Decision records that are not in the archive: queue (it was slower than the traffic for too long), disk, too_large, closed";
    DECISION_BYTES: Gauge "maitred_decision_archive_bytes" []
        "Size of the archive of decision records, in bytes";
    CHANGES_VERSION: Gauge "maitred_changes_version" []
        "Version of the changes at run time that are in force; the same on all gateways that share them";
    CHANGES_ERRORS: Counter "maitred_changes_errors" []
        "Changes of other gateways that could not be taken over, or could not be written down here; the log says why";
    RELOADS: Counter "maitred_config_reloads" ["result"]
        "Reloads of the configuration, by result; an invalid file leaves the running settings untouched";
    ISSUER_READS: Counter "maitred_issuer_reads" ["issuer", "result"]
        "Reads of the public keys of issuers of tokens: changed, unchanged or failed; after a failure the last good keys stay";
    BUILD: Gauge "maitred_build_info" ["version"]
        "Always 1; the label names the version that runs";
}

/// The reference page of all metrics, in Markdown.
#[must_use]
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Metrics\n\nServed at `/metrics` of the admin listener in the Prometheus text format. This page is generated from \
         the code.\n\n| Name | Kind | Labels | Meaning |\n|---|---|---|---|\n",
    );
    for metric in ALL {
        let (kind, suffix) = match metric.kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
            Kind::Histogram => ("histogram", ""),
        };
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        page.push_str(&format!(
            "| `{}{suffix}` | {kind} | {} | {} |\n",
            metric.name,
            labels.join(", "),
            metric.help
        ));
    }
    page
}

#[cfg(test)]
mod tests {
    /// Compares the page with what it should be, or writes it when `UPDATE_REFERENCE` is set.
    #[test]
    fn the_reference_page_is_fresh() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
        let page = super::reference_markdown();
        #[expect(clippy::disallowed_methods, reason = "the switch that rewrites a generated page")]
        if std::env::var("UPDATE_REFERENCE").is_ok() {
            std::fs::write(path, &page).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(
            found, page,
            "docs/reference/metrics.md is out of date; run: UPDATE_REFERENCE=1 cargo test -p maitred-obs"
        );
    }
}
