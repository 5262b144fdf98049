use proptest::prelude::*;

use super::*;

fn spec(family: &str, labels: &[(&str, &str)]) -> MetricSpec {
    MetricSpec {
        family: family.to_owned(),
        labels: labels.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
    }
}

#[test]
fn the_three_forms_are_read() {
    let check = |text: &str, spec: MetricSpec, read: Read, fold: Fold| {
        assert_eq!(Figure::parse(text), Ok(Figure { spec, read, fold }), "{text}");
    };
    check(
        "vllm:num_requests_waiting",
        spec("vllm:num_requests_waiting", &[]),
        Read::Value,
        Fold::One,
    );
    check(
        "nv_trt_llm_request_metrics{request_type=waiting}",
        spec("nv_trt_llm_request_metrics", &[("request_type", "waiting")]),
        Read::Value,
        Fold::One,
    );
    check(
        "m{ a = \"x, y\" , b=z }",
        spec("m", &[("a", "x, y"), ("b", "z")]),
        Read::Value,
        Fold::One,
    );
    check(
        r#"m{a="\\ \" \n"}"#,
        spec("m", &[("a", "\\ \" \n")]),
        Read::Value,
        Fold::One,
    );
    check(
        "vllm:cache_config_info{engine=0}@block_size",
        spec("vllm:cache_config_info", &[("engine", "0")]),
        Read::Label("block_size".to_owned()),
        Fold::One,
    );
    check("sum(m{a=b})", spec("m", &[("a", "b")]), Read::Value, Fold::Sum);
}

#[test]
fn errors_say_where_and_what() {
    let check = |text: &str, column: usize, expected: &str| {
        let error = Figure::parse(text).unwrap_err();
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.expected.contains(expected), "{text}: {error}");
    };
    check("", 1, "a metric name");
    check("1abc", 1, "a metric name");
    check("a b", 2, "the end");
    check("a{", 3, "a label name");
    check("a{}", 3, "a label name");
    check("a{b", 4, "`=`");
    check("a{b=", 5, "a label value");
    check("a{b=,", 5, "a label value");
    check("a{b=c", 6, "`,` or `}`");
    check("a{b=\"c", 7, "closing");
    check("a{b=\"\\x\"}", 6, "after a backslash");
    check("a{b=c}d", 7, "the end");
    check("a@", 3, "a label name");
    check("sum(a", 6, "`)`");
    check("ä", 1, "a metric name");
    check("a{b=ä}ö", 7, "the end");
    check(&"a".repeat(2000), 1, "at most 1024");
    let spec_error = MetricSpec::parse("sum(a)").unwrap_err();
    assert_eq!(spec_error.column, 4);
    assert_eq!(spec_error.to_string(), "column 4: expected the end, or `{`, or `,`");
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(
        family in "[a-z_:][a-z0-9_:]{0,8}",
        labels in prop::collection::vec(("[a-z_][a-z0-9_]{0,4}", "[ -~\nä]{0,8}"), 0..4),
        form in 0..3,
    ) {
        let spec = MetricSpec { family, labels };
        prop_assert_eq!(MetricSpec::parse(&spec.to_string()).unwrap(), spec.clone());
        let (read, fold) = match form {
            0 => (Read::Value, Fold::One),
            1 => (Read::Label("page_size".to_owned()), Fold::One),
            _ => (Read::Value, Fold::Sum),
        };
        let figure = Figure { spec, read, fold };
        prop_assert_eq!(Figure::parse(&figure.to_string()).unwrap(), figure);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        if let Err(error) = Figure::parse(&text) {
            prop_assert!(error.column >= 1 && error.column <= text.chars().count() + 1);
        }
    }
}
