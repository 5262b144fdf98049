//! Which headers cross the gateway, and which it makes.

use maitred_test::{Play, Request};

use super::{chat, one, one_with, streamed, text};
use crate::table::{CHAT, Config, Gateway};

#[tokio::test]
async fn what_belongs_to_one_hop_or_to_the_gateway_stays_behind() {
    let (endpoint, gateway) = one().await;
    let request = gateway
        .chat(chat(""))
        .header("x-api-key", &gateway.key)
        .header("connection", "keep-alive, x-hop")
        .header("x-hop", "1")
        .header("keep-alive", "timeout=5")
        .header("proxy-authorization", "Basic c2VjcmV0")
        .header("proxy-connection", "keep-alive")
        .header("te", "trailers")
        .header("trailer", "x-after")
        .header("cookie", "session=1")
        .header("accept-encoding", "gzip, br")
        .header("x-maitred-endpoint", "1")
        .header("x-maitred-unknown", "1")
        .header("x-internal-tenant", "root")
        .header("x-custom", "one")
        .header("x-custom", "two")
        .header("openai-organization", "org-1")
        .header("user-agent", "OpenAI/Python");
    assert_eq!(request.send(gateway.address).await.status(), 200);
    let head = endpoint.next_on(CHAT).await.head;
    let mut names: Vec<&str> = head.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let expected = [
        "accept-encoding",
        "content-length",
        "content-type",
        "host",
        "openai-organization",
        "user-agent",
        "x-custom",
        "x-custom",
        "x-maitred-gateways",
        "x-request-id",
    ];
    assert_eq!(names, expected, "{:#?}", head.headers);
    assert_eq!(head.header("accept-encoding"), Some("identity"));
    assert_eq!(head.header("host"), Some(text(endpoint.address()).as_str()));
    assert!(!format!("{head:?}").contains(&gateway.key));
}

#[tokio::test]
async fn the_pools_own_key_takes_the_callers_place() {
    let folder = maitred_test::Folder::new();
    folder.write("endpoint.key", "upstream-secret\n");
    let endpoint = maitred_test::ScriptedEndpoint::start(crate::table::MODEL).await;
    let config = Config::of([endpoint.address()]).pool("api_key: { file: endpoint.key }");
    let gateway = Gateway::start_in(folder, &config.to_yaml(), &[]).await;
    gateway.until_ready(1).await;
    assert_eq!(gateway.ask(chat("")).await.status(), 200);
    let head = endpoint.next_on(CHAT).await.head;
    assert_eq!(head.header("authorization"), Some("Bearer upstream-secret"));
}

#[tokio::test]
async fn a_call_has_one_id_everywhere() {
    let (endpoint, gateway) = one().await;
    let check = async |sent: Option<&str>, kept: bool| {
        let mut request = gateway.chat(chat(""));
        if let Some(id) = sent {
            request = request.header("x-request-id", id);
        }
        let answer = request.send(gateway.address).await;
        let id = answer.header("x-request-id").unwrap().to_owned();
        assert_eq!(Some(id.as_str()) == sent, kept, "{sent:?} became {id}");
        assert_eq!(
            endpoint.next_on(CHAT).await.head.header("x-request-id"),
            Some(id.as_str())
        );
        id
    };
    let mut ids = vec![check(Some("client-chosen_7"), true).await];
    ids.push(check(None, false).await);
    ids.push(check(None, false).await);
    ids.push(check(Some(&"x".repeat(300)), false).await);
    ids.push(check(Some("with space"), false).await);
    let recorded: Vec<_> = gateway
        .until_records(5)
        .await
        .iter()
        .map(|record| record["request_id"].clone())
        .collect();
    assert_eq!(recorded, ids);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5);
    // Errors have one as well.
    let answer = Request::get("/v1/models")
        .header("x-request-id", "lost")
        .send(gateway.address)
        .await;
    assert_eq!((answer.status(), answer.header("x-request-id")), (401, Some("lost")));
}

#[tokio::test]
async fn the_endpoint_is_told_to_those_who_ask() {
    let (endpoint, gateway) = one().await;
    endpoint.once(CHAT, Play::chat_stream(crate::table::MODEL, &["a"]));
    endpoint.once(CHAT, Play::chat_stream(crate::table::MODEL, &["a"]));
    let address = text(endpoint.address());
    for body in [streamed(), chat("")] {
        let request = gateway.chat(&body).header("x-maitred-endpoint", "1");
        let answer = request.send(gateway.address).await;
        assert_eq!(answer.header("x-maitred-endpoint"), Some(address.as_str()), "{body}");
        assert_eq!(gateway.ask(&body).await.header("x-maitred-endpoint"), None, "{body}");
    }
}

#[tokio::test]
async fn an_answers_headers_are_cleaned() {
    let (endpoint, gateway) = one().await;
    let headers = [
        ("content-type", "application/json"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("keep-alive", "timeout=5"),
        ("x-request-id", "the-endpoints-own"),
        ("x-maitred-endpoint", "10.0.0.1:8000"),
        ("x-internal-node", "gpu-7"),
        ("x-custom", "kept"),
    ];
    endpoint.on(
        CHAT,
        Play::whole(200, &headers, &maitred_test::vllm::chat(crate::table::MODEL, "a")),
    );
    let answer = gateway.ask(chat("")).await;
    let mut names: Vec<&str> = answer.head.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["content-length", "content-type", "date", "x-custom", "x-request-id"]
    );
    assert_ne!(answer.header("x-request-id"), Some("the-endpoints-own"));
}

#[tokio::test]
async fn a_stream_asks_not_to_be_held_back() {
    let (endpoint, gateway) = one_with(|config| config).await;
    endpoint.on(CHAT, Play::chat_stream(crate::table::MODEL, &["a"]));
    let answer = gateway.ask(streamed()).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    assert_eq!(answer.header("cache-control"), Some("no-cache"));
    assert_eq!(answer.header("server"), None);
}
