//! The real output of real engines, read and judged. Small files live in `fixtures/`; where the full captures are at hand
//! beside the repository, they are read as well.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops at the first surprise and says what it skips"
)]

use std::fs;
use std::path::{Path, PathBuf};

use maitred_engines::{
    BodyEnd, BodyVerdict, EndVerdict, Engine, ErrorForm, EventVerdict, HeadVerdict, PageSignals, ResponseHead, Scanner,
    StreamJudge, UpstreamErrorBody, judge_body, judge_models, judge_refusal,
};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");
const CAPTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/captures");

fn fixture(path: &str) -> Vec<u8> {
    fs::read(Path::new(FIXTURES).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A file of the full captures; `None`, with a word on it, where they are not at hand.
fn capture(path: &str) -> Option<Vec<u8>> {
    match fs::read(Path::new(CAPTURES).join(path)) {
        Ok(bytes) => Some(bytes),
        Err(_) => {
            println!("skipped: {path} is not at hand");
            None
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn engine_of(path: &str) -> Engine {
    if path.contains("sglang") {
        Engine::Sglang
    } else {
        Engine::Vllm
    }
}

/// The part after the response head, if there is one.
fn payload(bytes: &[u8]) -> &[u8] {
    if !bytes.starts_with(b"HTTP/") {
        return bytes;
    }
    let text = String::from_utf8_lossy(bytes);
    let at = text
        .find("\r\n\r\n")
        .map(|at| at + 4)
        .or_else(|| text.find("\n\n").map(|at| at + 2));
    &bytes[at.unwrap()..]
}

fn events(stream: &[u8]) -> Vec<Vec<u8>> {
    let stream = payload(stream);
    let lines = stream.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| line.strip_prefix(b"data: ").map(<[u8]>::to_vec))
        .collect()
}

fn judge(engine: Engine, stream: &[u8], end: BodyEnd) -> (Vec<EventVerdict>, EndVerdict) {
    let mut judge = StreamJudge::new(engine);
    let verdicts = events(stream).iter().map(|event| judge.judge_event(event)).collect();
    (verdicts, judge.end(end))
}

fn scan(engine: Engine, page: &[u8]) -> PageSignals {
    Scanner::new(&engine.mapping()).scan(page).unwrap()
}

/// Queued, running, used share, block size, blocks, progress.
type Row = (f64, f64, f64, u32, u32, f64);

fn check_page(engine: Engine, page: &[u8], wanted: Row) -> PageSignals {
    let signals = scan(engine, page);
    assert!(signals.missing().is_empty(), "{:?}", signals.missing());
    let found = (
        signals.queued.unwrap(),
        signals.running.unwrap(),
        signals.kv_used.unwrap(),
        signals.block_size.unwrap(),
        signals.blocks.unwrap(),
        signals.progress.unwrap(),
    );
    assert_eq!(found, wanted);
    signals
}

const VLLM_LORA: Row = (16.0, 4.0, 0.001_465_022_585_764_863_5, 128, 8192, 45_990.0);
const VLLM_FULL: Row = (5.0, 2.0, 0.894_736_842_105_263_2, 32, 20, 982.0);
const VLLM_IDLE: Row = (0.0, 0.0, 0.0, 128, 8192, 63_305.0);
const SGLANG_QUEUE: Row = (8.0, 4.0, 0.1, 1, 8192, 7350.0);

#[test]
fn pages_of_vllm_are_read() {
    let lora = check_page(
        Engine::Vllm,
        &fixture("vllm-0.32.0/metrics/under-load-lora.txt"),
        VLLM_LORA,
    );
    let adapters = lora.lora.unwrap();
    assert_eq!(adapters.max, Some(2));
    assert_eq!(adapters.running, ["lora-b".into()]);
    assert_eq!(adapters.waiting, ["lora-b".into()]);
    assert!(lora.started.is_some_and(|started| started > 1.79e9));

    let full = fixture("vllm-0.32.0/metrics/under-load-kv-full-preemption.excerpt.txt");
    assert_eq!(check_page(Engine::Vllm, &full, VLLM_FULL).lora, None);

    let idle = check_page(
        Engine::Vllm,
        &fixture("vllm-0.32.0/metrics/idle-after-load.excerpt.txt"),
        VLLM_IDLE,
    );
    let adapters = idle.lora.unwrap();
    assert!(
        adapters.running.is_empty() && adapters.waiting.is_empty(),
        "stale series do not count"
    );
}

#[test]
fn pages_of_sglang_are_read() {
    let queue = fixture("sglang-0.5.23/metrics/under-load-queue.excerpt.txt");
    assert_eq!(check_page(Engine::Sglang, &queue, SGLANG_QUEUE).lora, None);
    let idle = scan(
        Engine::Sglang,
        &fixture("sglang-0.5.23/metrics/idle-after-warmup.excerpt.txt"),
    );
    assert_eq!((idle.queued, idle.running), (Some(0.0), Some(0.0)));
    let older = b"sglang:cache_config_info{num_pages=\"6144\",page_size=\"64\"} 1.0\n";
    let older = scan(Engine::Sglang, older);
    assert_eq!((older.block_size, older.blocks), (Some(64), Some(6144)));
}

#[test]
fn whole_pages_say_what_their_excerpts_say() {
    let check = |engine, path: &str, wanted: Row| {
        if let Some(page) = capture(path) {
            check_page(engine, &page, wanted);
        }
    };
    check(Engine::Vllm, "vllm-0.32.0/metrics/under-load-lora.txt", VLLM_LORA);
    check(
        Engine::Vllm,
        "vllm-0.32.0/metrics/under-load-kv-full-preemption.txt",
        VLLM_FULL,
    );
    check(Engine::Vllm, "vllm-0.32.0/metrics/idle-after-load.txt", VLLM_IDLE);
    check(
        Engine::Sglang,
        "sglang-0.5.23/metrics/under-load-queue.txt",
        SGLANG_QUEUE,
    );
}

#[test]
fn every_healthy_stream_is_complete_and_every_event_of_it_known() {
    for engine in ["vllm-0.32.0", "sglang-0.5.23", "llama-cpp-python-0.3.36"] {
        let mut streams = files(&Path::new(FIXTURES).join(engine).join("streams"));
        streams.extend(files(&Path::new(CAPTURES).join(engine).join("streams")));
        for path in streams {
            let name = path.to_string_lossy().into_owned();
            let broken = name.contains("killed") || name.contains("sigterm");
            let bytes = fs::read(&path).unwrap();
            // The engine's own protocol, and paths that llama-cpp-python does not have.
            let foreign = name.contains("generate-native") || events(&bytes).is_empty();
            if !name.contains("body") && !name.contains("excerpt") || broken || foreign {
                continue;
            }
            let (verdicts, end) = judge(engine_of(&name), &bytes, BodyEnd::Clean);
            assert_eq!(end, EndVerdict::Complete, "{name}");
            assert!(!verdicts.contains(&EventVerdict::Unknown), "{name}");
            let output = |verdict: &EventVerdict| {
                matches!(
                    verdict,
                    EventVerdict::Output | EventVerdict::Finish { with_output: true, .. }
                )
            };
            assert!(verdicts.iter().any(output), "{name}");
            let cut = events(&bytes).len() - 1;
            let mut short = StreamJudge::new(engine_of(&name));
            events(&bytes)
                .iter()
                .take(cut)
                .for_each(|event| drop(short.judge_event(event)));
            assert_eq!(
                short.end(BodyEnd::Clean),
                EndVerdict::Truncated,
                "{name} without its last event"
            );
        }
    }
}

#[test]
fn a_role_is_no_output_and_usage_is_no_choice() {
    let stream = fixture("vllm-0.32.0/streams/chat-include-usage.body.txt");
    let (verdicts, _) = judge(Engine::Vllm, &stream, BodyEnd::Clean);
    assert_eq!(verdicts[0], EventVerdict::Preamble);
    assert_eq!(verdicts[1], EventVerdict::Output);
    assert_eq!(
        verdicts[verdicts.len() - 2..],
        [EventVerdict::UsageOnly, EventVerdict::Done]
    );
}

#[test]
fn the_deaths_of_vllm_are_no_ends() {
    let check_killed = |stream: &[u8]| {
        let (verdicts, end) = judge(Engine::Vllm, stream, BodyEnd::Clean);
        assert_eq!(end, EndVerdict::Errored);
        match &verdicts[verdicts.len() - 2..] {
            [EventVerdict::Error(error), EventVerdict::Done] => {
                assert!(error.message.starts_with("EngineCore encountered an issue"));
                assert!(!error.is_overload(Engine::Vllm));
            }
            other => panic!("{other:?}"),
        }
    };
    let check_sigterm = |stream: &[u8]| {
        let (verdicts, end) = judge(Engine::Vllm, stream, BodyEnd::Clean);
        assert_eq!(end, EndVerdict::Aborted);
        assert_eq!(
            verdicts[verdicts.len() - 2..],
            [EventVerdict::Aborted, EventVerdict::Done]
        );
    };
    check_killed(&fixture("vllm-0.32.0/streams/engine-killed.excerpt.txt"));
    check_sigterm(&fixture("vllm-0.32.0/streams/sigterm.excerpt.txt"));
    if let Some(stream) = capture("vllm-0.32.0/failures/engine-killed-stream.full.txt") {
        check_killed(&stream);
    }
    if let Some(stream) = capture("vllm-0.32.0/failures/sigterm-stream.full.txt") {
        check_sigterm(&stream);
    }
}

#[test]
fn sglang_is_cut_when_it_dies_and_ends_well_when_it_is_stopped() {
    let check = |stream: &[u8], end: BodyEnd, wanted: EndVerdict| {
        assert_eq!(judge(Engine::Sglang, stream, end).1, wanted);
    };
    let killed = "sglang-0.5.23/streams/scheduler-killed.excerpt.txt";
    let sigterm = "sglang-0.5.23/streams/sigterm.excerpt.txt";
    check(&fixture(killed), BodyEnd::Cut, EndVerdict::Truncated);
    check(&fixture(killed), BodyEnd::Clean, EndVerdict::Truncated);
    check(&fixture(sigterm), BodyEnd::Clean, EndVerdict::Complete);
    if let Some(stream) = capture("sglang-0.5.23/failures/scheduler-killed-stream.full.txt") {
        check(&stream, BodyEnd::Cut, EndVerdict::Truncated);
    }
    if let Some(stream) = capture("sglang-0.5.23/failures/sigterm-stream.full.txt") {
        check(&stream, BodyEnd::Clean, EndVerdict::Complete);
    }
}

#[test]
fn an_empty_stream_is_a_failure() {
    let stream = fixture("llama-cpp-python-0.3.36/errors/200-too-long-prompt-stream.body.txt");
    assert_eq!(
        judge(Engine::Vllm, &stream, BodyEnd::Clean),
        (Vec::new(), EndVerdict::Truncated)
    );
}

#[test]
fn every_error_body_is_read_without_paths_and_judged() {
    for engine in ["vllm-0.32.0", "sglang-0.5.23", "llama-cpp-python-0.3.36"] {
        for path in files(&Path::new(FIXTURES).join(engine).join("errors")) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let status: u16 = name.split('-').next().unwrap().parse().unwrap();
            if status == 200 {
                continue;
            }
            let body = UpstreamErrorBody::read(&fs::read(&path).unwrap());
            assert!(!body.message.is_empty(), "{name}");
            assert!(
                !body.message.contains("/opt/") && !body.message.contains("File \""),
                "{name}: {}",
                body.message
            );
            let head = ResponseHead {
                status,
                ..ResponseHead::default()
            };
            let wanted = match (status, name.as_str()) {
                (401, _) => HeadVerdict::RefusedCredential,
                (404, "404-bad-model.body.txt" | "404-bad-model-messages.body.txt") if engine == "vllm-0.32.0" => {
                    HeadVerdict::ModelGone
                }
                (404, _) => HeadVerdict::UnknownPath,
                (500, _) => HeadVerdict::ServerError,
                (400, name) if name.contains("too-long-prompt") || name.contains("max-tokens-too-big") => {
                    HeadVerdict::TooLong
                }
                _ => HeadVerdict::ClientError,
            };
            assert_eq!(
                judge_refusal(engine_of(engine), &head, &body, "nope"),
                wanted,
                "{engine} {name}"
            );
        }
    }
}

#[test]
fn error_forms_are_those_of_the_engines() {
    let check = |path: &str, form: ErrorForm, message: &str| {
        let body = UpstreamErrorBody::read(&fixture(path));
        assert_eq!((body.form, body.message.as_str()), (form, message), "{path}");
    };
    check(
        "vllm-0.32.0/errors/400-image-to-text-model.body.txt",
        ErrorForm::OpenAi,
        "tiny is not a multimodal model",
    );
    check(
        "vllm-0.32.0/errors/401-no-api-key.body.txt",
        ErrorForm::Text,
        "Unauthorized",
    );
    check(
        "vllm-0.32.0/errors/404-bad-model-messages.body.txt",
        ErrorForm::Anthropic,
        "The model `nope` does not exist. Valid aliases: tiny.",
    );
    check(
        "sglang-0.5.23/errors/400-bad-tool-choice.body.txt",
        ErrorForm::Flat,
        "Tools cannot be empty if tool choice is set to required.",
    );
    check(
        "sglang-0.5.23/errors/400-bad-json.body.txt",
        ErrorForm::Flat,
        "1 validation error:\n  {'type': 'json_invalid', 'loc': ('body', 36), 'msg': 'JSON decode error', 'input': {}, \
         'ctx': {'error': 'unexpected end of data'}}",
    );
    check(
        "sglang-0.5.23/errors/404-not-found.body.txt",
        ErrorForm::Framework,
        "Not Found",
    );
    check(
        "llama-cpp-python-0.3.36/errors/500-bad-json.body.txt",
        ErrorForm::Plain,
        "Internal Server Error",
    );
}

#[test]
fn bodies_of_good_answers_are_good() {
    for engine in ["vllm-0.32.0", "sglang-0.5.23", "llama-cpp-python-0.3.36"] {
        let mut answers = files(&Path::new(FIXTURES).join(engine).join("responses"));
        answers.extend(files(&Path::new(CAPTURES).join(engine).join("responses")));
        for path in answers {
            let name = path.to_string_lossy().into_owned();
            let bytes = fs::read(&path).unwrap();
            let head = fs::read_to_string(name.replace(".body.", ".headers.")).unwrap_or_default();
            let refused = head.starts_with("HTTP/") && !head.starts_with("HTTP/1.1 200");
            if !refused && (name.ends_with("body.txt") || name.ends_with("models.json")) {
                assert_eq!(judge_body(&bytes), BodyVerdict::Good, "{name}");
            }
        }
    }
}

#[test]
fn model_lists_are_read() {
    let check = |path: &str, model: &str, parent: Option<&str>, length: Option<u32>| {
        let listed = judge_models(&fixture(path), model).unwrap();
        assert_eq!(
            (listed.parent.as_deref(), listed.max_model_len),
            (parent, length),
            "{path}"
        );
    };
    check("vllm-0.32.0/responses/models.json", "tiny", None, Some(2048));
    check("vllm-0.32.0/responses/models.json", "lora-a", Some("tiny"), None);
    check("sglang-0.5.23/responses/models.json", "tiny", None, Some(2048));
    check("llama-cpp-python-0.3.36/models.json", "tiny", None, None);
    assert!(judge_models(&fixture("sglang-0.5.23/responses/models.json"), "nope").is_err());
}

#[test]
fn every_fixture_passes_through_the_fuzz_bodies() {
    let mut folders = vec![PathBuf::from(FIXTURES)];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for path in files(&folder) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            maitred_engines::fuzzing::fuzz_page(&bytes);
            maitred_engines::fuzzing::fuzz_stream(&bytes);
            maitred_engines::fuzzing::fuzz_body(&bytes);
            maitred_engines::fuzzing::fuzz_figure(&bytes);
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen} fixtures");
}
