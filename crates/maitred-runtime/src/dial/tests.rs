use super::*;

fn found(addresses: &[&str]) -> Vec<SocketAddr> {
    let parse = |text: &&str| SocketAddr::new(text.parse().unwrap(), 443);
    addresses.iter().map(parse).collect()
}

#[test]
fn only_what_was_judged_is_left_to_connect_to() {
    // What a name server that belongs to somebody else may answer.
    let rebound = found(&["169.254.169.254", "1.1.1.1", "10.0.0.1", "::ffff:127.0.0.1"]);
    assert_eq!(
        within("api.example.com", rebound.clone(), Reach::Public).unwrap(),
        found(&["1.1.1.1"])
    );
    assert_eq!(
        within("api.example.com", rebound, Reach::Private).unwrap(),
        found(&["1.1.1.1", "10.0.0.1", "::ffff:127.0.0.1"])
    );
}

#[test]
fn who_is_refused_is_told_what_would_help() {
    let check = |addresses: &[&str], reach, words: &str| {
        let error = within("name", found(addresses), reach).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    check(
        &["127.0.0.1"],
        Reach::Public,
        "`name` resolves to 127.0.0.1, where the gateway does not connect to; `allow_private`",
    );
    check(&["169.254.169.254"], Reach::Private, "does not connect to");
    check(&[], Reach::Public, "resolves to nothing");
    let never = within("name", found(&["169.254.169.254"]), Reach::Public).unwrap_err();
    assert!(!never.to_string().contains("allow_private"), "{never}");
}

#[tokio::test]
async fn a_name_that_turns_to_loopback_is_not_connected_to() {
    // The one name that resolves without a name server, and to where a rebound name would lead.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let refused = dial("localhost", port, Reach::Public).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{refused}");
    dial("localhost", port, Reach::Private).await.unwrap();
    dial_endpoint(&format!("localhost:{port}")).await.unwrap();
    assert_eq!(resolved(&format!("127.0.0.1:{port}")).await.unwrap().port(), port);
}
