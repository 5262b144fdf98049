//! Routing: which model a call comes to, by what it asks for, by whom and how.

use maitred_test::{Answer, Folder, Request, ScriptedEndpoint, eventually};
use serde_json::{Value, json};

use crate::table::{CHAT, Config, Gateway, key};

const BIG: &str = "big-70b";
const SMALL: &str = "small-8b";

const ROUTE: &str = "\
routes:
  - model: assistant
    rules:
      - { name: second, when: { version: ['2'] }, targets: [{ pool: main, model: big-70b }] }
      - { name: red, when: { headers: [{ name: X-Team, is: [red] }] }, targets: [{ pool: main, model: big-70b }] }
      - { name: long, when: { input_tokens: { at_least: 1000 } }, targets: [{ pool: main, model: big-70b }] }
      - { name: agents, when: { task: [agent] }, targets: [{ pool: main, model: big-70b }] }
      - { name: lab, when: { tenants: [tenant-2], stream: false }, targets: [{ pool: main, model: big-70b }] }
      - name: halves
        when: { classes: [low] }
        targets: [{ pool: main, model: big-70b, weight: 1 }, { pool: small, model: small-8b, weight: 1 }]
        sticky: session
    targets: [{ pool: small, model: small-8b }]
tasks: { types: [{ name: agent, when: { tools: true } }] }
";

struct Table {
    gateway: Gateway,
    _endpoints: [ScriptedEndpoint; 2],
}

impl Table {
    async fn laid() -> Self {
        let (big, small) = (ScriptedEndpoint::start(BIG).await, ScriptedEndpoint::start(SMALL).await);
        let keys = |number, more: &str| {
            format!(
                "{{ hash: \"{}\", tenant: tenant-{number}, shared: true{more} }}",
                key(number).1
            )
        };
        // The second key may ask for the route, and for no model by its own name.
        let auth = format!("{{ keys: [{}, {}] }}", keys(1, ""), keys(2, ", models: [assistant]"));
        let yaml = Config::of([big.address()])
            .auth(&auth)
            .file(ROUTE)
            .models(&format!("[{{ name: {BIG} }}]"))
            .to_yaml();
        let small_pool = format!(
            "  - name: small\n    models: [{{ name: {SMALL} }}]\n    staleness: {{ after: 10s, frozen_after: 1m }}\n    endpoints: [{{ address: {} }}]\n",
            small.address()
        );
        let gateway = Gateway::start_in(Folder::new(), &(yaml + &small_pool), &[]).await;
        gateway.until_ready(2).await;
        Self {
            gateway,
            _endpoints: [big, small],
        }
    }

    /// A call with the first key.
    fn call(&self, model: &str, more: &Value) -> Request {
        call(model, more).bearer(&self.gateway.key)
    }

    async fn ask(&self, request: Request) -> Answer {
        request.send(self.gateway.address).await
    }

    /// Which model answers.
    async fn served(&self, request: Request) -> String {
        let answer = self.ask(request).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert_eq!(answer.header("x-degraded"), None);
        answer.json()["model"].as_str().unwrap_or_default().to_owned()
    }
}

/// A call without a key, with further members of its body.
fn call(model: &str, more: &Value) -> Request {
    let mut body = json!({ "model": model, "max_tokens": 5, "messages": [{ "role": "user", "content": "hello" }] });
    if let (Some(body), Some(more)) = (body.as_object_mut(), more.as_object()) {
        body.extend(more.clone());
    }
    Request::post(CHAT, body.to_string())
}

#[tokio::test]
async fn a_call_comes_to_the_model_of_the_rule_that_it_meets() {
    let table = Table::laid().await;
    let plain = || table.call("assistant", &json!({}));
    let tools = json!({ "tools": [{ "type": "function", "function": { "name": "f" } }] });
    let long = json!({ "messages": [{ "role": "user", "content": "word ".repeat(1_000) }] });
    for (what, request, model) in [
        ("nothing special", plain(), SMALL),
        ("a header", plain().header("x-team", "red"), BIG),
        ("another value", plain().header("x-team", "blue"), SMALL),
        ("a version", table.call("assistant@2", &json!({})), BIG),
        ("a long prompt", table.call("assistant", &long), BIG),
        ("tools", table.call("assistant", &tools), BIG),
        (
            "a task of its own word",
            plain().header("x-maitred-task-type", "agent"),
            BIG,
        ),
        (
            "another task",
            table.call("assistant", &tools).header("x-maitred-task-type", "chat"),
            SMALL,
        ),
        ("a model by its name", table.call(SMALL, &json!({})), SMALL),
    ] {
        assert_eq!(table.served(request).await, model, "{what}");
    }
    let unknown = table.ask(table.call("assistant@3", &json!({}))).await;
    assert_eq!(unknown.status(), 404, "{}", unknown.text());
    // Calls of one session go one way, and sessions go both.
    let mut ways = Vec::new();
    for session in 0..8 {
        let of_session = || {
            plain()
                .header("x-maitred-class", "low")
                .header("x-session-id", &session.to_string())
        };
        let first = table.served(of_session()).await;
        assert_eq!(table.served(of_session()).await, first);
        ways.push(first);
    }
    assert!(
        ways.iter().any(|way| way == BIG) && ways.iter().any(|way| way == SMALL),
        "{ways:?}"
    );
}

#[tokio::test]
async fn a_key_for_the_route_is_no_key_for_its_models() {
    let table = Table::laid().await;
    let (second, _) = key(2);
    let by_second = |request: Request| request.bearer(&second);
    assert_eq!(table.served(by_second(call("assistant", &json!({})))).await, BIG);
    let refused = table.ask(by_second(call(BIG, &json!({})))).await;
    assert_eq!(refused.status(), 403, "{}", refused.text());
    let listed = table.ask(Request::get("/v1/models").bearer(&second)).await.json();
    let names: Vec<_> = listed["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| &model["id"])
        .collect();
    assert_eq!(names, ["assistant"]);
    let answer = table.ask(by_second(call("assistant", &json!({})))).await;
    let id = answer.header("x-request-id").unwrap().to_owned();
    let record: Value = eventually("the decision record", async || {
        let page = table.gateway.page(&format!("/admin/v1/decisions/{id}")).await;
        (page.status() == 200).then(|| page.json())
    })
    .await;
    assert_eq!(record["rule"], "lab", "{record}");
    assert_eq!(record["rules_missed"].as_array().map(Vec::len), Some(4), "{record}");
}
