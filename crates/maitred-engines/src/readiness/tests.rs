use super::*;

const LIST: &str = r#"{"object":"list","data":[
    {"id":"tiny","object":"model","parent":null,"max_model_len":2048},
    {"id":"lora-a","object":"model","parent":"tiny","max_model_len":null}]}"#;
const INFERRED: &str = r#"{"object":"text_completion","choices":[{"index":0,"text":" a","finish_reason":"length"}]}"#;

fn response(status: u16, body: &str) -> Answer<'_> {
    Answer::Response {
        status,
        body: body.as_bytes(),
    }
}

fn page(kv_used: Option<f64>) -> PageSignals {
    PageSignals {
        kv_used,
        ..PageSignals::default()
    }
}

fn ready(engine: Engine) -> Readiness {
    let mut readiness = Readiness::new(engine, "tiny", InferencePath::default());
    let page = page(Some(0.0));
    while !readiness.is_ready() {
        let answer = match readiness.step() {
            ReadinessStep::Health => response(200, ""),
            ReadinessStep::ListModels => response(200, LIST),
            ReadinessStep::KvPool => Answer::Page(&page),
            ReadinessStep::Infer => response(200, INFERRED),
        };
        let before = readiness.step();
        match readiness.answered(answer) {
            Advance::Next(next) => assert!(next > before),
            Advance::Ready => assert!(readiness.is_ready()),
            other => panic!("{engine} {before:?} {other:?}"),
        }
    }
    readiness
}

#[test]
fn every_engine_becomes_ready_step_by_step() {
    for &engine in Engine::ALL {
        let readiness = ready(engine);
        assert_eq!(readiness.step(), ReadinessStep::Health, "{engine}");
    }
}

#[test]
fn an_endpoint_that_only_listens_is_not_ready() {
    let mut readiness = Readiness::new(Engine::Sglang, "tiny", InferencePath::Chat);
    let why = readiness.answered(response(503, ""));
    assert_eq!(why, Advance::NotYet(WhyNot::Unavailable));
    assert_eq!(readiness.answered(Answer::None), Advance::NotYet(WhyNot::Unreachable));
    assert_eq!(
        readiness.answered(response(200, "")),
        Advance::Next(ReadinessStep::ListModels)
    );
    let empty = r#"{"object":"list","data":[]}"#;
    assert_eq!(
        readiness.answered(response(200, empty)),
        Advance::NotYet(WhyNot::NotListed)
    );
    assert_eq!(
        readiness.answered(response(200, LIST)),
        Advance::Next(ReadinessStep::KvPool)
    );
    assert_eq!(
        readiness.answered(Answer::Page(&page(None))),
        Advance::NotYet(WhyNot::NoKvPool)
    );
    assert_eq!(
        readiness.answered(Answer::Page(&page(Some(0.1)))),
        Advance::Next(ReadinessStep::Infer)
    );
    let loading = r#"{"object":"error","message":"still warming up","code":500}"#;
    assert_eq!(
        readiness.answered(response(500, loading)),
        Advance::NotYet(WhyNot::Refused("still warming up".to_owned()))
    );
    assert_eq!(readiness.answered(response(200, INFERRED)), Advance::Ready);
}

#[test]
fn a_process_that_goes_away_on_the_way_begins_again() {
    let mut readiness = Readiness::new(Engine::Vllm, "tiny", InferencePath::default());
    readiness.answered(response(200, ""));
    readiness.answered(response(200, LIST));
    assert_eq!(readiness.step(), ReadinessStep::KvPool);
    assert_eq!(readiness.answered(Answer::None), Advance::NotYet(WhyNot::Unreachable));
    assert_eq!(readiness.step(), ReadinessStep::Health);
}

#[test]
fn once_ready_an_unavailable_answer_is_a_drain_and_anything_else_a_failure() {
    let mut readiness = ready(Engine::Sglang);
    assert_eq!(readiness.answered(response(200, "")), Advance::Ready);
    assert_eq!(readiness.answered(Answer::None), Advance::Failing(WhyNot::Unreachable));
    assert!(
        readiness.is_ready(),
        "one failed probe is not for this machine to judge"
    );
    assert_eq!(
        readiness.answered(response(500, "")),
        Advance::Failing(WhyNot::Status(500))
    );
    assert_eq!(readiness.answered(response(503, "")), Advance::Draining);
    assert_eq!(readiness.answered(response(503, "")), Advance::Draining);
    assert!(!readiness.is_ready());
    assert_eq!(readiness.answered(Answer::None), Advance::Failing(WhyNot::Unreachable));
    assert_eq!(
        readiness.answered(response(200, "")),
        Advance::Next(ReadinessStep::Health),
        "an endpoint that comes back is checked in full"
    );
}

#[test]
fn probes_name_the_model_safely() {
    let check = |engine, step, method, path: &str| {
        let probe = Probe::new(engine, step, "tiny", InferencePath::default());
        assert_eq!((probe.method, probe.path), (method, path), "{engine} {step:?}");
    };
    check(Engine::Vllm, ReadinessStep::Health, Method::Get, "/health");
    check(Engine::Triton, ReadinessStep::Health, Method::Get, "/v2/health/ready");
    check(Engine::Vllm, ReadinessStep::ListModels, Method::Get, "/v1/models");
    check(
        Engine::TrtllmServe,
        ReadinessStep::KvPool,
        Method::Get,
        "/prometheus/metrics",
    );
    check(Engine::Vllm, ReadinessStep::Infer, Method::Post, "/v1/completions");
    for inference in [
        InferencePath::Completions,
        InferencePath::Chat,
        InferencePath::Embeddings,
    ] {
        let name = "a\"b\\c\n{ü}";
        let body: serde_json::Value = serde_json::from_str(&inference.body(name)).unwrap();
        assert_eq!(body["model"], name, "{inference:?}");
    }
}

#[test]
fn model_lists_are_judged() {
    let listed = judge_models(LIST.as_bytes(), "tiny").unwrap();
    assert_eq!(listed.max_model_len, Some(2048));
    assert_eq!(listed.parent, None);
    let adapter = judge_models(LIST.as_bytes(), "lora-a").unwrap();
    assert_eq!(adapter.parent.as_deref(), Some("tiny"));
    let check = |body: &str, why: WhyNot| assert_eq!(judge_models(body.as_bytes(), "nope"), Err(why), "{body}");
    check(LIST, WhyNot::NotListed);
    check("{\"data\":[1,null,{\"id\":5}]}", WhyNot::NotListed);
    check("{\"data\":{}}", WhyNot::Malformed);
    check("<html>", WhyNot::Malformed);
    check("", WhyNot::Malformed);
}

#[test]
fn inferences_are_judged() {
    let check = |status: u16, body: &str, wanted: Result<(), WhyNot>| {
        assert_eq!(judge_inference(status, body.as_bytes()), wanted, "{status} {body}");
    };
    check(200, INFERRED, Ok(()));
    check(200, r#"{"object":"list","data":[{"embedding":[0.1]}]}"#, Ok(()));
    check(200, r#"{"choices":[]}"#, Err(WhyNot::NoOutput));
    check(200, r#"{"choices":[{"finish_reason":"abort"}]}"#, Err(WhyNot::NoOutput));
    check(
        200,
        r#"{"error":{"message":"no"}}"#,
        Err(WhyNot::Refused("no".to_owned())),
    );
    check(200, "", Err(WhyNot::Malformed));
    check(503, "", Err(WhyNot::Status(503)));
    check(
        404,
        r#"{"detail":"Not Found"}"#,
        Err(WhyNot::Refused("Not Found".to_owned())),
    );
}
