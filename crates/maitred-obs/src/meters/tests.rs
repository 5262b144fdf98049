use super::*;
use crate::prefix_sample::PrefixSample;
use crate::sample::{CacheSample, EndpointSample, EndpointState};
use maitred_types::{
    Degradation, DegradeKind, DegradeReason, ModelName, OutcomeStatus, TenantId, TokenCount, Usage, UsageSource,
};

fn meters_after_one_call() -> Meters {
    let meters = Meters::new("1.2.3");
    let pool = PoolName::from("llama");
    let usage = Usage {
        input: TokenCount::new(10),
        cached_input: Some(TokenCount::new(8)),
        output: TokenCount::new(5),
        reasoning: None,
        source: UsageSource::Estimated,
    };
    meters.model(&pool, "m").call_ended(&CallEnd {
        status: OutcomeStatus::Broken(FaultKind::UpstreamBroken),
        duration: Duration::from_millis(500),
        first_token: Some(Duration::from_millis(100)),
        usage: Some(usage),
    });
    meters.pool(&pool).picked("two-choices");
    meters
}

fn has_line(page: &str, line: &str) {
    assert!(page.lines().any(|found| found == line), "no line `{line}` in\n{page}");
}

#[test]
fn a_call_is_counted_once_with_its_outcome_and_tokens() {
    let page = meters_after_one_call().page();
    has_line(
        &page,
        r#"maitred_calls_total{pool="llama",gen_ai_request_model="m",outcome="broken",fault="upstream_broken"} 1"#,
    );
    has_line(
        &page,
        r#"maitred_calls_total{pool="llama",gen_ai_request_model="m",outcome="answered",fault=""} 0"#,
    );
    has_line(
        &page,
        r#"gen_ai_client_token_usage_total{pool="llama",gen_ai_request_model="m",gen_ai_token_type="cached_input"} 8"#,
    );
    has_line(
        &page,
        r#"maitred_usage_estimated_total{pool="llama",gen_ai_request_model="m"} 1"#,
    );
    has_line(&page, r#"maitred_picks_total{pool="llama",reason="two-choices"} 1"#);
    // 400 ms over the four tokens after the first.
    has_line(
        &page,
        r#"gen_ai_server_time_per_output_token_seconds_bucket{pool="llama",gen_ai_request_model="m",le="0.15"} 1"#,
    );
}

fn sample() -> EndpointSample {
    EndpointSample {
        pool: "llama".into(),
        endpoint: "10.0.0.1:8000".into(),
        slot: 0,
        incarnation: 0,
        state: EndpointState::Ready,
        share: 0.25,
        picks: 7,
        errors: 1,
        in_flight: 2,
        waiting: Some(3.0),
        running: None,
        kv_used: Some(0.5),
        kv_estimate: Some(0.625),
        queue_seconds: 0.25,
        age: Some(0.05),
        cache: CacheSample {
            held_tokens: 640,
            capacity_tokens: None,
            scale: 0.5,
            ..CacheSample::default()
        },
        custom: [("heat".to_owned(), 61.5)].into(),
    }
}

#[test]
fn endpoints_are_read_when_the_page_is_asked_for_and_unknown_figures_are_left_out() {
    let meters = Meters::new("1.2.3");
    meters.add_endpoints(Arc::new(|| vec![sample()]));
    let page = meters.page();
    has_line(
        &page,
        r#"maitred_endpoint_custom{pool="llama",endpoint="10.0.0.1:8000",name="heat"} 61.5"#,
    );
    has_line(
        &page,
        r#"maitred_endpoint_share{pool="llama",endpoint="10.0.0.1:8000"} 0.25"#,
    );
    has_line(
        &page,
        r#"maitred_endpoint_picks_total{pool="llama",endpoint="10.0.0.1:8000"} 7"#,
    );
    has_line(
        &page,
        r#"maitred_endpoint_state{pool="llama",endpoint="10.0.0.1:8000",state="ready"} 1"#,
    );
    has_line(
        &page,
        r#"maitred_endpoint_state{pool="llama",endpoint="10.0.0.1:8000",state="ejected"} 0"#,
    );
    has_line(
        &page,
        r#"maitred_endpoint_prefix_held_tokens{pool="llama",endpoint="10.0.0.1:8000"} 640.0"#,
    );
    assert!(!page.contains("maitred_endpoint_running_requests{"));
    assert!(!page.contains("maitred_endpoint_prefix_capacity_tokens{"));
}

#[test]
fn a_prefix_index_shows_its_calibration_and_what_placement_gained() {
    let meters = Meters::new("1.2.3");
    meters.add_prefixes(Arc::new(|| {
        vec![PrefixSample {
            pool: "llama".into(),
            is_on: true,
            bytes: 4096,
            lost: 3,
            random: 100.0,
            chosen: 250.5,
            predicted: 200,
            reported: 180,
            error: 40,
            shortfalls: 2,
            ..PrefixSample::default()
        }]
    }));
    let page = meters.page();
    for line in [
        r#"on{pool="llama"} 1"#,
        r#"bytes{pool="llama"} 4096"#,
        r#"blocks_gone_total{pool="llama",cause="lost"} 3"#,
        r#"prompt_tokens_total{pool="llama",held_by="random"} 100.0"#,
        r#"prompt_tokens_total{pool="llama",held_by="chosen"} 250.5"#,
        r#"cached_tokens_total{pool="llama",figure="predicted"} 200"#,
        r#"cached_tokens_total{pool="llama",figure="reported"} 180"#,
        r#"cached_tokens_total{pool="llama",figure="error"} 40"#,
        r#"surprises_total{pool="llama",kind="shortfall"} 2"#,
    ] {
        has_line(&page, &format!("maitred_prefix_{line}"));
    }
}

#[test]
fn an_address_with_two_lives_has_each_series_once() {
    let check = |lives: [EndpointState; 2], shown: &str| {
        let meters = Meters::new("1.2.3");
        meters.add_endpoints(Arc::new(move || {
            let life = |state, slot| EndpointSample {
                state,
                slot,
                waiting: (state != EndpointState::Draining).then_some(3.0),
                ..sample()
            };
            let other = EndpointSample {
                pool: "other".into(),
                ..sample()
            };
            vec![life(lives[0], 0), other, life(lives[1], 1)]
        }));
        let page = meters.page();
        let series = |name: &str| format!(r#"maitred_endpoint_{name}{{pool="llama",endpoint="10.0.0.1:8000""#);
        for (name, value) in [
            ("share", "0.5"),
            ("picks_total", "14"),
            ("errors_total", "2"),
            ("in_flight", "4.0"),
            ("waiting_requests", "3.0"),
        ] {
            let lines: Vec<_> = page.lines().filter(|line| line.starts_with(&series(name))).collect();
            assert_eq!(lines, [format!("{}}} {value}", series(name))], "{lives:?}");
        }
        has_line(&page, &format!(r#"{},state="{shown}"}} 1"#, series("state")));
        let mut all: Vec<_> = page.lines().filter_map(|line| line.rsplit_once(' ')).collect();
        all.sort_unstable();
        let before = all.len();
        all.dedup_by_key(|(series, _)| *series);
        assert_eq!(all.len(), before, "{page}");
    };
    check([EndpointState::Draining, EndpointState::Ready], "ready");
    check([EndpointState::Loading, EndpointState::Draining], "loading");
}

#[test]
fn every_declared_metric_is_on_the_page_and_nothing_else() {
    let meters = meters_after_one_call();
    meters.add_endpoints(Arc::new(Vec::new));
    meters.add_prefixes(Arc::new(Vec::new));
    meters.call_refused(FaultKind::InvalidJson);
    meters.connection_refused("too_many");
    meters.ledger().refused("late");
    meters.ledger().error("spool");
    meters.archive().dropped("queue");
    meters.reloaded("applied");
    meters.issuer_read("https://login.example.com", "changed");
    meters.quota_asks("answered", 1);
    let (model, tenant) = (ModelName::from("big"), TenantId::from("acme"));
    meters.service().ended(&model, &tenant, Service::Degraded);
    let degradation = Degradation {
        kind: DegradeKind::Model,
        reason: DegradeReason::Quota,
    };
    meters.service().degraded(&model, &tenant, degradation);
    meters.objectives(&[ObjectiveSample {
        model: model.to_string(),
        state: "calm",
        fallback: "open",
        calls: 1,
        degraded: 1,
        ratio: 1.0,
        newest_ratio: 1.0,
        refused_ratio: 0.0,
        allowed_ratio: 0.05,
        burn_rate: 20.0,
        window_seconds: 180.0,
    }]);
    let pool = meters.pool(&PoolName::from("llama"));
    pool.refused("saturated");
    pool.waits("normal").lasted(Duration::from_secs(1));
    pool.prefix_snapshot("written");
    pool.retried(FaultKind::ConnectFailed);
    pool.retry_denied();
    pool.lease_abandoned();
    pool.event("ready");
    pool.scraped("ok");
    pool.probed("ok");
    pool.kv_event("taken");
    pool.shadow("round-robin").considered(true);
    pool.shared("sent");
    pool.sharing_up(true);
    pool.sharing_peers(1);
    let page = meters.page();
    let mut described: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let mut declared: Vec<String> = metric::ALL
        .iter()
        .map(|metric| match metric.kind {
            metric::Kind::Counter => format!("{}_total", metric.name),
            metric::Kind::Gauge | metric::Kind::Histogram => metric.name.to_owned(),
        })
        .collect();
    described.sort_unstable();
    declared.sort_unstable();
    assert_eq!(described, declared);
}
