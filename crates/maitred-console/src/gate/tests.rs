use super::*;

#[test]
fn only_names_of_this_machine_are_served() {
    let check = |host: &'static str, served: bool| {
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
        assert_eq!(names_this_machine(&headers), served, "{host}");
    };
    check("127.0.0.1:9091", true);
    check("127.0.0.1", true);
    check("localhost:9091", true);
    check("LOCALHOST", true);
    check("[::1]:9091", true);
    check("[::1]", true);
    check("evil.example:9091", false);
    check("localhost.evil.example", false);
    assert!(names_this_machine(&HeaderMap::new()));
}

#[test]
fn one_token_is_read_from_the_headers() {
    let check = |values: &[&'static str], expected: Result<Option<&str>, ()>| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_static(value));
        }
        assert_eq!(token(&headers).map_err(|_| ()), expected, "{values:?}");
    };
    check(&[], Ok(None));
    check(&["Bearer a"], Ok(Some("a")));
    check(&["bearer  a"], Ok(Some("a")));
    check(&["Basic a"], Err(()));
    check(&["a"], Err(()));
    check(&["Bearer a", "Bearer a"], Err(()));
}

#[test]
fn only_that_the_gateway_lives_is_told_to_anybody() {
    let open: Vec<_> = ROUTES
        .iter()
        .filter(|route| route.need == Need::Nothing)
        .map(|route| route.path)
        .collect();
    assert_eq!(open, ["/healthz", "/readyz"]);
}
