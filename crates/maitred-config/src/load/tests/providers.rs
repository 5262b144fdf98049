//! `providers`, and every other place of the file that says where the gateway goes.

use super::*;
use crate::{JwksLocation, Reach};

/// A file with lines of one provider.
fn provider(lines: &str) -> String {
    format!(
        "version: 1\nauth: {{ anonymous: {{ tenant: local }} }}\nproviders:\n  - {{ name: outside, models: [{{ name: m }}], {lines} }}\n"
    )
}

fn issuer(url: &str, more: &str) -> String {
    format!(
        "{HEAD}issuers: 1\n"
    )
    .replace(
        "auth:\n  anonymous: { tenant: local }\n",
        &format!(
            "auth:\n  issuers: [{{ issuer: i, audiences: [a], jwks: {{ url: \"{url}\" }}, claims: {{ tenant: {{ is: t }} }}{more} }}]\n"
        ),
    )
    .replace("issuers: 1\n", "")
}

#[test]
fn a_provider_is_a_pool_of_one() {
    let text = provider("url: \"https://api.example.com/v1\", api_key: { env: KEY }, max_in_flight: 7");
    let settings = loaded(&text).settings;
    let pool = &settings.pools[0];
    assert_eq!((pool.name.as_str(), pool.endpoints.len()), ("outside", 1));
    assert_eq!(pool.options.max_in_flight, 7);
    assert_eq!(pool.api_key.as_ref().unwrap().expose(), "0123456789abcdef");
    let provider = pool.provider.as_ref().unwrap();
    assert_eq!(provider.url.as_str(), "https://api.example.com/v1");
    assert_eq!(provider.reach, Reach::Public);
}

#[test]
fn providers_that_make_no_sense_are_pointed_at() {
    let both = format!(
        "{HEAD}providers:\n  - {{ name: main, url: \"https://a.example.com/v1\", models: [{{ name: qwen3-8b }}] }}\n"
    );
    insta::assert_snapshot!(brief(&refused(&both)), @r"
    9:13 providers[0].name: the pool name `main` is already in line 5
    9:69 providers[0].models[0].name: the model name `qwen3-8b` is already in line 6
    ");
    let check = |lines: &str, place: &str, words: &str| {
        let found = brief(&refused(&provider(lines)));
        assert!(found.contains(place) && found.contains(words), "{lines}: {found}");
    };
    check(
        "url: \"http://api.example.com/v1\"",
        "providers[0].url",
        "could be read on the way",
    );
    check(
        "url: \"http://10.0.0.1/v1\", clear_text: true",
        "providers[0].url",
        "10.0.0.1 is a private address",
    );
    check(
        "url: \"http://localhost/v1\", ca: ca.pem",
        "providers[0].ca",
        "nobody vouches",
    );
    let adapter =
        provider("url: \"https://a.example.com\"").replace("{ name: m }", "{ name: m }, { name: a, adapter_of: m }");
    assert!(brief(&refused(&adapter)).contains("a provider has no adapters"));
    let nowhere = "version: 1\nauth: { anonymous: { tenant: local } }\n";
    assert!(brief(&refused(nowhere)).contains("neither pools nor providers"));
    let two = provider("url: \"https://a.example.com\"").replace(
        "  - {",
        "  - { name: first, models: [{ name: n }], url: \"https://a.example.com\", allow_private: true }\n  - {",
    );
    assert!(brief(&refused(&two)).contains("the provider `first` has this URL with another"));
    loaded(&provider(
        "url: \"http://10.0.0.1/v1\", clear_text: true, allow_private: true",
    ));
    loaded(&provider("url: \"http://127.0.0.1:9000/v1\""));
}

/// URLs by which a gateway is made to go where it should not. Each is refused with the file; names that only turn out to lead
/// astray are refused when they are resolved.
const ASTRAY: [&str; 46] = [
    // The machine's own credentials, as clouds serve them.
    "https://169.254.169.254/latest/meta-data/",
    "https://169.254.170.2/v2/credentials",
    "https://100.100.100.200/latest/meta-data/",
    "https://168.63.129.16/machine",
    "https://192.0.0.192/opc/v1/instance/",
    "https://[fd00:ec2::254]/latest/meta-data/",
    "https://[fd20:ce::254]/computeMetadata/v1/",
    "https://[::ffff:169.254.169.254]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[2002:a9fe:a9fe::1]/",
    "https://[::a9fe:a9fe]/",
    // The same and loopback, spelt so that resolvers and readers disagree.
    "https://2852039166/",
    "https://0xa9fea9fe/",
    "https://0251.0376.0251.0376/",
    "https://169.254.43518/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://017700000001/",
    "https://127.1/",
    "https://127.0.1/",
    "https://0/",
    "https://0.0.0.0/",
    "https://[::]/",
    "https://127.0.0.1./",
    // Link-local, groups, everybody, nobody.
    "https://169.254.1.1/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/",
    "https://224.0.0.1/",
    "https://[ff02::1]/",
    "https://255.255.255.255/",
    "https://240.0.0.1/",
    "https://[2001:0:a9fe:a9fe::1]/",
    // What looks like one host and is another.
    "https://api.example.com@169.254.169.254/",
    "https://user:password@api.example.com/",
    "https://api.example.com#@169.254.169.254/",
    "https://api.example.com\\@169.254.169.254/",
    "https://api.example.com%2f@169.254.169.254/",
    "https://api.example.com:443:80/",
    "https://api.example.com?@169.254.169.254/",
    "https://①⑥⑨.②⑤④.①⑥⑨.②⑤④/",
    // Other ways than HTTP.
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_INFO",
    "ftp://127.0.0.1/",
    "//169.254.169.254/",
];

/// Private places, which must be asked for.
const PRIVATE: [&str; 8] = [
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://100.64.0.1/",
    "https://[fd00::1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[64:ff9b::10.0.0.1]/",
    "https://198.18.0.1/",
];

#[test]
fn no_url_leads_astray_wherever_it_stands() {
    for url in ASTRAY {
        // As the file spells it in quotes.
        let url = url.replace('\\', "\\\\");
        for more in ["", ", allow_private: true, clear_text: true"] {
            refused(&provider(&format!("url: \"{url}\"{more}")));
        }
        for more in ["", ", allow_private: true"] {
            refused(&issuer(&url, more));
        }
    }
    for url in PRIVATE {
        refused(&provider(&format!("url: \"{url}\"")));
        refused(&issuer(url, ""));
        loaded(&provider(&format!("url: \"{url}\", allow_private: true")));
        loaded(&issuer(url, ", allow_private: true"));
    }
    let checked = loaded(&issuer("https://login.example.com/keys", "")).settings;
    assert_eq!(checked.auth.issuers[0].reach, Reach::Public);
    assert!(matches!(checked.auth.issuers[0].jwks, JwksLocation::Url(_)));
}

#[test]
fn no_endpoint_is_where_clouds_serve_credentials() {
    for url in ASTRAY {
        let authority = url.trim_start_matches("https://");
        let authority = authority.split('/').next().unwrap_or_default();
        for text in [url.to_owned(), format!("{authority}:80")] {
            let text = text.replace('\\', "\\\\");
            refused(&HEAD.replace("address: 127.0.0.1:8000", &format!("address: \"{text}\"")));
            let dns = HEAD.replace(
                "endpoints: [{ address: 127.0.0.1:8000 }]",
                &format!("dns: {{ name: \"{text}\", port: 80 }}"),
            );
            refused(&dns);
        }
    }
    loaded(&HEAD.replace("127.0.0.1:8000", "10.0.0.1:8000"));
}
