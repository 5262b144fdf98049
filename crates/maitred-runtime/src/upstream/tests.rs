use maitred_config::load;

use super::*;

fn upstream(url: &str) -> Upstream {
    let file = format!(
        "version: 1\nauth: {{ anonymous: {{ tenant: a }} }}\nproviders:\n  - {{ name: p, url: \"{url}\", models: [{{ name: m }}] }}\n"
    );
    let loaded = load("maitred.yaml", &file, &|_| Err("none".to_owned())).unwrap();
    Upstream::new(&loaded.settings.pools[0])
}

#[test]
fn what_stands_after_v1_is_added_to_the_base() {
    let check = |url: &str, query: Option<&str>, target: &str| {
        let upstream = upstream(url);
        let provider = upstream.provider().unwrap();
        assert_eq!(provider.target("/v1/chat/completions", query), target, "{url}");
    };
    check("https://api.example.com/v1", None, "/v1/chat/completions");
    check("https://api.example.com/v1/", None, "/v1/chat/completions");
    check("https://api.example.com", None, "/chat/completions");
    check(
        "https://a.example.com/v1beta/openai/",
        Some("x=1"),
        "/v1beta/openai/chat/completions?x=1",
    );
    check(
        "https://a.example.com/openai/v1?api-version=preview",
        None,
        "/openai/v1/chat/completions?api-version=preview",
    );
    check(
        "https://a.example.com/openai/v1?api-version=preview",
        Some("beta=true"),
        "/openai/v1/chat/completions?api-version=preview&beta=true",
    );
}

#[test]
fn the_host_is_that_of_the_url() {
    let upstream = upstream("https://api.example.com:8443/v1");
    let provider = upstream.provider().unwrap();
    assert_eq!(provider.authority(), "api.example.com:8443");
    assert_eq!(provider.address().as_str(), "https://api.example.com:8443/v1");
}
