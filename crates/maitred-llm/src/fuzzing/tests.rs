use std::fs;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Runs every seed of a corpus through a fuzz body.
fn run_corpus(name: &str, at_least: usize, body: fn(&[u8])) {
    let folder = format!("{}/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut seeds: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    seeds.sort();
    assert!(seeds.len() >= at_least, "only {} seeds", seeds.len());
    for seed in seeds {
        println!("{}", seed.display());
        body(&fs::read(&seed).unwrap());
    }
}

#[test]
fn seeds_of_the_request_scanner() {
    run_corpus("request", 20, fuzz_request_scanner);
}

#[test]
fn seeds_of_the_event_reader() {
    run_corpus("sse", 20, fuzz_sse);
}

#[test]
fn the_seeds_of_requests_are_answers_too() {
    run_corpus("request", 20, fuzz_answer);
}

#[test]
fn the_seeds_of_requests_have_chains() {
    run_corpus("request", 20, fuzz_chain);
}

/// Pieces that make most strings of them nearly JSON.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\",
        " ",
        "\n",
        "\"model\"",
        "\"stream\"",
        "\"stream_options\"",
        "\"include_usage\"",
        "\"messages\"",
        "\"n\"",
        "\"usage\"",
        "\"error\"",
        "true",
        "false",
        "null",
        "0",
        "-1",
        "1.5e3",
        "1e999",
        "\"\\u00e9\"",
        "\"\\ud800\"",
        "\u{e9}",
        "\u{1}",
        "\"x\"",
        "mod\\u0065l",
        ":{",
        "},",
        ":\"y\",",
    ]);
    vec(pieces, 0..30).prop_map(|pieces| pieces.concat().into_bytes())
}

/// Pieces that make most strings of them nearly an event stream.
fn nearly_sse() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "data:",
        "data: ",
        "data",
        "event:",
        "event: x",
        ":",
        ": keep-alive",
        "id: 1",
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "\r\n\r\n",
        "\r\r",
        "{\"a\":1}",
        "[DONE]",
        " ",
        "\u{e9}",
        "\u{feff}",
        "dataset: 7",
        "\0",
    ]);
    vec(pieces, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_as_a_request(data: Vec<u8>) {
        fuzz_request_scanner(&data);
    }

    #[test]
    fn nearly_json_as_a_request(data in nearly_json()) {
        fuzz_request_scanner(&data);
    }

    #[test]
    fn nearly_json_in_an_object_as_a_request(data in nearly_json()) {
        let data = [b"{\"stream\":true,\"x\":", data.as_slice(), b"}"].concat();
        fuzz_request_scanner(&data);
    }

    #[test]
    fn nearly_json_has_a_chain(data in nearly_json(), name in prop::sample::select(vec!["messages", "prompt", "input"])) {
        let data = [b"{\"system\":\"x\",\"", name.as_bytes(), b"\":", data.as_slice(), b"}"].concat();
        fuzz_chain(&data);
    }

    #[test]
    fn any_bytes_as_a_stream(data: Vec<u8>) {
        fuzz_sse(&data);
    }

    #[test]
    fn nearly_a_stream(data in nearly_sse()) {
        fuzz_sse(&data);
    }

    #[test]
    fn any_bytes_as_an_answer(data: Vec<u8>) {
        fuzz_answer(&data);
    }

    #[test]
    fn nearly_json_as_an_answer(data in nearly_json()) {
        fuzz_answer(&data);
    }
}
