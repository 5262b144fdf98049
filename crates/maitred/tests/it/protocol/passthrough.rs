//! Bytes are relayed, not rebuilt.

use maitred_test::{BodyEnd, Connection, Gate, Play, Request, ScriptedEndpoint};

use super::{chat, one, one_with};
use crate::table::{CHAT, Config, Gateway, MODEL};

/// A body that no parser and printer would leave as it is: unknown members, odd spaces, escapes, numbers of every kind.
const ODD: &str = r#" { "zeta" : 1.50 ,"a":1e2,"b":-0.0,"c":12345678901234567890123,"d":"\u00e9\/\ud83d\ude00",
	"e":"é","f":[ ],"g":{ },"h":null,"i":[1 , 2,3],"j":{"model":"inner"},"k":true,"l":"","m":"\"model\":\"x\"",
	"nest":[[[[]]]],"o":0.1000,"p":"tab\t","q":1E+5,"r":{"stream":true},"s":" ","messages":[{"role":"user",
	"content":[{"type":"text","text":"Hi"}],"name":"unknown"}], "t":"last" , "model" : "MODEL" } "#;

/// Sends `body` and gives what the endpoint received.
async fn received(endpoint: &ScriptedEndpoint, gateway: &Gateway, body: &str) -> String {
    let answer = gateway.ask(body).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    String::from_utf8(endpoint.next_on(CHAT).await.body).unwrap()
}

#[tokio::test]
async fn a_body_arrives_as_it_was_sent() {
    let (endpoint, gateway) = one().await;
    let body = ODD.replace("MODEL", MODEL);
    assert_eq!(received(&endpoint, &gateway, &body).await, body);
    // The client's own wish for usage is no reason to touch the body either.
    let body = ODD.replace(r#""k":true"#, r#""stream":false"#).replace("MODEL", MODEL);
    assert_eq!(received(&endpoint, &gateway, &body).await, body);
}

#[tokio::test]
async fn the_model_is_replaced_in_place_and_nothing_else() {
    let served_as = r#"Qwen/Qwen3-8B"#;
    let endpoint = ScriptedEndpoint::start(served_as).await;
    let models = format!("[{{ name: public, served_as: {served_as} }}]");
    let gateway = Gateway::ready(&Config::of([endpoint.address()]).models(&models)).await;
    let body = ODD.replace("MODEL", "public");
    assert_eq!(
        received(&endpoint, &gateway, &body).await,
        ODD.replace("MODEL", served_as)
    );
    // A name with escapes is the same name.
    let body = ODD.replace("MODEL", r"p\u0075blic");
    assert_eq!(
        received(&endpoint, &gateway, &body).await,
        ODD.replace("MODEL", served_as)
    );
}

#[tokio::test]
async fn an_answer_arrives_as_it_was_given() {
    let (endpoint, gateway) = one().await;
    let odd = "{ \"id\":\"chatcmpl-1\", \"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"é\\u00e9\"},\
               \"finish_reason\":\"stop\"}],\n\"unknown\" : 1.500 , \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1} }\n";
    endpoint.on(CHAT, Play::json(200, odd));
    let answer = gateway.ask(chat("")).await;
    assert_eq!((answer.status(), answer.text().as_str()), (200, odd));
}

#[tokio::test]
async fn an_answer_may_be_framed_in_any_way() {
    let (endpoint, gateway) = one().await;
    let json = maitred_test::vllm::chat(MODEL, "one");
    let events = maitred_test::vllm::chat_event(MODEL, "one") + &maitred_test::vllm::chat_end(MODEL, None);
    let check = async |kind: &str, body: &str| {
        let half = body.len() / 2;
        let until_close = format!("HTTP/1.0 200 OK\r\ncontent-type: {kind}\r\n\r\n{body}");
        for play in [
            Play::whole(200, &[("content-type", kind)], body),
            Play::chunked(200, &[("content-type", kind)])
                .chunk(body.split_at(half).0)
                .chunk(body.split_at(half).1)
                .end(),
            Play::default().raw(until_close).cut(),
        ] {
            endpoint.once(CHAT, play);
            let answer = gateway.ask(chat("")).await;
            assert_eq!(
                (answer.status(), answer.end),
                (200, BodyEnd::Complete),
                "{}",
                answer.text()
            );
            assert_eq!(
                (answer.text().as_str(), answer.header("content-type")),
                (body, Some(kind))
            );
        }
    };
    check("application/json", &json).await;
    // Also when nobody asked for a stream: what comes is what counts.
    check("text/event-stream", &events).await;
    assert_eq!(
        gateway.metric("maitred_calls_total", &[("outcome", "answered")]).await,
        6.0
    );
}

/// A path that the gateway does not know may do anything, and take as long as it likes.
#[tokio::test]
async fn a_call_of_an_unknown_kind_is_not_run_twice() {
    const PATH: &str = "/v1/audio/speech";
    let first = ScriptedEndpoint::start(MODEL).await;
    let second = ScriptedEndpoint::start(MODEL).await;
    let config = Config::of([first.address(), second.address()])
        .pool("ejection: { failures: 1000 }")
        .pool("retry: { budget: 100%, min: 100 }")
        .file("timeouts: { connect: 200ms, first_token: 200ms, idle: 1s, total: 1s }");
    let gateway = Gateway::ready(&config).await;
    let body = format!(r#"{{"model":"{MODEL}"}}"#);
    let request = Request::post(PATH, body).bearer(&gateway.key);
    let check = async |play: Play, status: u16, attempts: usize, number: usize| {
        first.on(PATH, play.clone());
        second.on(PATH, play);
        let answer = request.send(gateway.address).await;
        assert_eq!(answer.status(), status, "{}", answer.text());
        let record = &gateway.until_records(number).await[number - 1];
        assert_eq!(record["attempts"], attempts, "{record}");
    };
    check(Play::json(500, "{}"), 502, 1, 1).await;
    check(Play::default().cut(), 502, 1, 2).await;
    check(Play::json(503, "{}"), 502, 2, 3).await;
    // Only the whole call's time bounds it, and then nobody else is asked.
    check(Play::silence(), 504, 1, 4).await;
}

/// Sound is heard from its beginning, not when all of it has been made.
#[tokio::test]
async fn an_answer_of_another_form_arrives_piece_by_piece() {
    let (endpoint, gateway) = one().await;
    let gate = Gate::closed();
    let play = Play::chunked(200, &[("content-type", "audio/mpeg")]).chunk("first");
    endpoint.on("/v1/audio/speech", play.wait(&gate).chunk("second").end());
    let body = format!(r#"{{"model":"{MODEL}"}}"#);
    let mut connection = Connection::open(gateway.address).await;
    let head = connection
        .start(&Request::post("/v1/audio/speech", body).bearer(&gateway.key))
        .await;
    assert_eq!(head.status(), 200);
    assert_eq!(connection.piece().await.as_deref(), Some(&b"first"[..]));
    gate.open();
    assert_eq!(connection.piece().await.as_deref(), Some(&b"second"[..]));
    assert_eq!(connection.piece().await, None);
    assert_eq!(connection.body_end(), BodyEnd::Complete);
}

#[tokio::test]
async fn the_query_goes_along_without_its_secrets() {
    let (endpoint, gateway) = one().await;
    let check = async |path: &str, sent: &str, goes_on: &str| {
        let request = Request::post(&format!("{path}{sent}"), chat("")).bearer(&gateway.key);
        assert_eq!(request.send(gateway.address).await.status(), 200, "{path}{sent}");
        assert_eq!(endpoint.next_on(path).await.target(), format!("{path}{goes_on}"));
    };
    check(CHAT, "?beta=true", "?beta=true").await;
    check(CHAT, "?api-version=1&api_key=CANARY&x=CANARY", "?api-version=1").await;
    check(CHAT, "?key=CANARY", "").await;
    endpoint.on("/v1/rerank", Play::json(200, r#"{"results":[]}"#));
    check("/v1/rerank", "?limit=1&x=%2F", "?limit=1&x=%2F").await;
    check("/v1/rerank", "?access_token=CANARY&limit=1", "?limit=1").await;
    let records = std::fs::read_to_string(gateway.records_path()).unwrap();
    assert!(!records.contains("CANARY"), "{records}");
}

#[tokio::test]
async fn other_paths_reach_the_endpoint() {
    let (endpoint, gateway) = one().await;
    endpoint.on("/v1/rerank", Play::json(200, r#"{"results":[]}"#));
    let request = Request::post("/v1/rerank", chat("")).bearer(&gateway.key);
    let answer = request.send(gateway.address).await;
    assert_eq!((answer.status(), answer.text().as_str()), (200, r#"{"results":[]}"#));
    assert_eq!(endpoint.next_on("/v1/rerank").await.body, chat("").as_bytes());
    // What the endpoint does not have is its own 404.
    let request = Request::get("/v1/nothing")
        .header("x-maitred-model", MODEL)
        .bearer(&gateway.key);
    let answer = request.send(gateway.address).await;
    assert_eq!(answer.status(), 404, "{}", answer.text());
    assert_eq!(
        answer.json()["error"]["type"],
        "invalid_request_error",
        "{}",
        answer.text()
    );
}

#[tokio::test]
async fn calls_without_a_body_and_without_a_model_in_it_go_through() {
    let (endpoint, gateway) = one().await;
    let path = "/v1/responses/resp_1";
    endpoint.on(path, Play::json(200, r#"{"deleted":true}"#));
    endpoint.on("/v1/batches", Play::json(200, r#"{"id":"batch_1"}"#));
    let with_type = |method, path| {
        Request::new(method, path)
            .header("content-type", "application/json")
            .bearer(&gateway.key)
    };
    // The SDKs send the content type in any case.
    for method in ["DELETE", "POST"] {
        let answer = with_type(method, path).send(gateway.address).await;
        assert_eq!(answer.status(), 200, "{method}: {}", answer.text());
        assert!(endpoint.next_on(path).await.body.is_empty());
    }
    let batch = || with_type("POST", "/v1/batches").body(r#"{"input_file_id":"f"}"#);
    assert_eq!(batch().send(gateway.address).await.status(), 400);
    let answer = batch().header("x-maitred-model", MODEL).send(gateway.address).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    // A packed body cannot be read.
    let answer = batch().header("content-encoding", "gzip").send(gateway.address).await;
    assert_eq!(answer.status(), 415, "{}", answer.text());
    assert_eq!(answer.json()["error"]["code"], "unsupported_encoding");
}

#[tokio::test]
async fn what_callers_bring_about_is_no_failure_of_the_endpoint() {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let config = Config::of([endpoint.address()]).pool("ejection: { failures: 1 }");
    let gateway = Gateway::start(&config).await;
    gateway.until_ready(1).await;
    endpoint.on("/v1/files/f", Play::head(304, &[("etag", "\"1\"")]));
    endpoint.on(
        "/v1/files/",
        Play::whole(307, &[("location", "http://10.0.0.1/v1/files")], ""),
    );
    let packed = [
        ("content-encoding", "gzip"),
        ("etag", "\"2\""),
        ("content-type", "text/html"),
    ];
    endpoint.on("/v1/files/packed", Play::whole(400, &packed, "\u{1f}\u{8}packed"));
    let echoed = r#"{"error":{"message":"1 validation error: 'input': 'the model `x` does not exist'","code":400}}"#;
    endpoint.on("/v1/files/echo", Play::json(400, echoed));
    let ask = async |path: &str| Request::get(path).bearer(&gateway.key).send(gateway.address).await;
    for _ in 0..3 {
        let answer = ask("/v1/files/f").await;
        assert_eq!((answer.status(), answer.header("etag")), (304, Some("\"1\"")));
        let answer = ask("/v1/files/").await;
        assert_eq!(
            (answer.status(), answer.header("location")),
            (404, None),
            "{}",
            answer.text()
        );
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let answer = ask("/v1/files/packed").await;
        assert_eq!((answer.status(), answer.header("content-encoding")), (400, None));
        assert_eq!(answer.header("etag"), None);
        assert_eq!(answer.json()["error"]["message"], "Bad Request");
        assert_eq!(ask("/v1/files/echo").await.status(), 400);
    }
}

#[tokio::test]
async fn a_form_goes_to_the_model_named_beside_it() {
    const PATH: &str = "/v1/audio/transcriptions";
    let other = ScriptedEndpoint::start("other").await;
    let speech = ScriptedEndpoint::start("speech").await;
    let yaml = Config::of([other.address()]).models("[{ name: other }]").to_yaml();
    let pool = format!(
        "  - name: speech\n    models: [{{ name: speech }}]\n    endpoints: [{{ address: \"{}\" }}]\n",
        speech.address()
    );
    let gateway = Gateway::start_in(maitred_test::Folder::new(), &format!("{yaml}{pool}"), &[]).await;
    gateway.until_ready(2).await;
    speech.on(PATH, Play::json(200, r#"{"text":"well done"}"#));
    let form = "--cut\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n\u{0}\u{1}RIFF\r\n--cut--\r\n";
    let request = Request::new("POST", PATH)
        .header("content-type", "multipart/form-data; boundary=cut")
        .bearer(&gateway.key)
        .body(form);
    // With several pools it must be said which one is meant.
    let answer = request.send(gateway.address).await;
    assert_eq!(
        (answer.status(), &answer.json()["error"]["code"]),
        (400, &"missing_model".into())
    );
    let answer = request.header("x-maitred-model", "speech").send(gateway.address).await;
    assert_eq!(
        (answer.status(), answer.text().as_str()),
        (200, r#"{"text":"well done"}"#)
    );
    let received = speech.next_on(PATH).await;
    assert_eq!(received.body, form.as_bytes());
    assert_eq!(
        received.head.header("content-type"),
        Some("multipart/form-data; boundary=cut")
    );
    assert_eq!(received.head.header("x-maitred-model"), None);
}

#[tokio::test]
async fn a_large_answer_is_relayed_whole() {
    let (endpoint, gateway) = one().await;
    let text = "0123456789abcdef".repeat(3 << 16);
    let body = maitred_test::vllm::chat(MODEL, &text);
    assert!(body.len() > 3 << 20);
    endpoint.once(CHAT, Play::json(200, &body));
    let chunked = body.as_bytes().chunks(50_000).fold(
        Play::chunked(200, &[("content-type", "application/json")]),
        |play, chunk| play.chunk(chunk),
    );
    endpoint.once(CHAT, chunked.end());
    for _ in 0..2 {
        let answer = gateway.ask(chat("")).await;
        assert_eq!((answer.status(), answer.end), (200, BodyEnd::Complete));
        assert!(
            answer.body == body.as_bytes(),
            "{} of {} bytes",
            answer.body.len(),
            body.len()
        );
    }
    for record in gateway.until_records(2).await {
        assert_eq!(record["outcome"], "answered", "{record}");
        assert_eq!(
            (&record["input_tokens"], &record["output_tokens"]),
            (&12.into(), &2.into()),
            "{record}"
        );
    }
}

#[tokio::test]
async fn a_large_answer_that_is_cut_does_not_end_well() {
    let (endpoint, gateway) = one().await;
    let part = vec![b' '; 2 << 20];
    endpoint.on(
        CHAT,
        Play::chunked(200, &[("content-type", "application/json")])
            .chunk(part)
            .cut(),
    );
    let answer = gateway.ask(chat("")).await;
    assert_eq!((answer.status(), answer.end), (200, BodyEnd::Cut));
    let records = gateway.until_records(1).await;
    assert_eq!(
        (&records[0]["outcome"], &records[0]["fault"]),
        (&"broken".into(), &"upstream_broken".into())
    );
    gateway.until_idle().await;
}

#[tokio::test]
async fn a_large_answer_that_falls_silent_does_not_end_well() {
    let (endpoint, gateway) = one_with(|config| config.file("timeouts: { idle: 300ms }")).await;
    let length = (4 << 20).to_string();
    let headers = [
        ("content-type", "application/json"),
        ("content-length", length.as_str()),
    ];
    endpoint.on(CHAT, Play::head(200, &headers).raw(vec![b' '; 2 << 20]).hang());
    let answer = gateway.ask(chat("")).await;
    assert_eq!((answer.status(), answer.end), (200, BodyEnd::Cut));
    let records = gateway.until_records(1).await;
    assert_eq!(
        (&records[0]["outcome"], &records[0]["fault"]),
        (&"broken".into(), &"idle_timeout".into())
    );
    gateway.until_idle().await;
}

#[tokio::test]
async fn the_endpoints_own_refusal_is_passed_on() {
    let (endpoint, gateway) = one().await;
    let refusal = r#"{"error":{"message":"max_tokens must be at least 1","type":"BadRequestError","param":"max_tokens","code":400}}"#;
    endpoint.on(CHAT, Play::json(400, refusal));
    let answer = gateway.ask(chat(r#","max_tokens":0"#)).await;
    assert_eq!(answer.status(), 400, "{}", answer.text());
    let error = &answer.json()["error"];
    assert_eq!(error["message"], "max_tokens must be at least 1");
    assert_eq!(error["param"], "max_tokens");
    // The endpoint did its work: the call is answered, and nobody else is asked.
    let records = gateway.until_records(1).await;
    assert_eq!(
        (&records[0]["outcome"], &records[0]["attempts"]),
        (&"answered".into(), &1.into())
    );
    assert_eq!(gateway.endpoint(endpoint.address()).await.unwrap()["errors"], 0);
}

#[tokio::test]
async fn models_are_the_configurations_and_the_keys() {
    let keys = |number: u8, models: &str| {
        format!(
            "{{ hash: \"{}\", tenant: t, shared: true, models: {models} }}",
            crate::table::key(number).1
        )
    };
    let auth = format!("{{ keys: [{}, {}] }}", keys(1, "[\"*\"]"), keys(2, "[\"org/*\"]"));
    let models = format!("[{{ name: org/public, served_as: {MODEL} }}, {{ name: hidden, served_as: {MODEL} }}]");
    let (_endpoint, gateway) = one_with(|config| config.models(&models).auth(&auth)).await;
    let get = async |path: &str, number| {
        Request::get(path)
            .bearer(&crate::table::key(number).0)
            .send(gateway.address)
            .await
    };
    let names = async |number| {
        let page = get("/v1/models", number).await.json();
        assert_eq!(page["object"], "list");
        let names = page["data"].as_array().unwrap().iter();
        names
            .map(|model| model["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(1).await, ["org/public", "hidden"]);
    assert_eq!(names(2).await, ["org/public"]);
    for path in ["/v1/models/org/public", "/v1/models/org%2Fpublic"] {
        assert_eq!(get(path, 2).await.json()["id"], "org/public", "{path}");
    }
    assert_eq!(get("/v1/models/hidden", 2).await.status(), 404);
    // No model under the name that only the endpoints know.
    assert_eq!(get(&format!("/v1/models/{MODEL}"), 1).await.status(), 404);
}
