use super::*;

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn options(max_bytes: u64, key: u8) -> RecordingOptions {
    RecordingOptions {
        max_bytes,
        block_tokens: 64,
        key: [key; 32],
        since: Time::ZERO,
    }
}

fn call(input: u32, hashes: &[u64], tokens_per_block: f32) -> RecordedCall {
    RecordedCall {
        arrived: Time::ZERO + Duration::from_millis(1234),
        model: ModelName::from("m"),
        tenant: Some(TenantId::from("acme")),
        session: Some(5),
        input: TokenCount::new(input),
        cached: Some(TokenCount::new(9)),
        output: TokenCount::new(7),
        chain: Some(PromptChain::new(hashes, tokens_per_block)),
    }
}

fn lines(calls: &[RecordedCall], options: RecordingOptions) -> (Vec<serde_json::Value>, u64) {
    let (out, dropped) = (Memory::default(), Counter::default());
    let recording = Recording::start(Box::new(out.clone()), options, dropped.clone()).unwrap();
    for call in calls {
        recording.append(call.clone());
    }
    recording.close(Duration::from_secs(10));
    let text = out.0.lock().clone();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    (
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect(),
        dropped.get(),
    )
}

fn ids(line: &serde_json::Value) -> Vec<u64> {
    line["hash_ids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap())
        .collect()
}

#[test]
fn a_line_has_the_layout_of_a_trace() {
    let (lines, dropped) = lines(&[call(200, &[1, 2, 3], 64.0)], options(1 << 20, 1));
    let line = &lines[0];
    assert_eq!(dropped, 0);
    assert_eq!(
        (line["timestamp"].as_u64(), line["input_length"].as_u64()),
        (Some(1234), Some(200))
    );
    assert_eq!(
        (line["output_length"].as_u64(), line["block_tokens"].as_u64()),
        (Some(7), Some(64))
    );
    assert_eq!(line["cached_length"], 9);
    assert_eq!(ids(line).len(), 3, "full blocks only");
    assert!(ids(line).iter().all(|id| *id < 1 << 53));
    assert!(line["tenant"].as_u64().unwrap() < 1 << 32);
    assert!(line["session"].is_u64() && line["model"].is_u64());
}

#[test]
fn equal_beginnings_have_equal_ids_and_no_others() {
    let common = |one: &[u64], other: &[u64]| one.iter().zip(other).take_while(|(one, other)| one == other).count();
    // Blocks of text hold more, just as many, or fewer tokens than those of the file.
    for (per_block, shared) in [(85.0, 3), (64.0, 3), (40.0, 1)] {
        let calls = [
            call(640, &[1, 2, 3, 40, 50, 60, 70, 80, 90], per_block),
            call(660, &[1, 2, 3, 41, 51, 61, 71, 81, 91], per_block),
        ];
        let (lines, _) = lines(&calls, options(1 << 20, 1));
        let (one, other) = (ids(&lines[0]), ids(&lines[1]));
        assert_eq!((one.len(), other.len()), (10, 10));
        assert_eq!(common(&one, &other), shared, "{per_block}");
        let mut all = [one, other].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 20 - shared, "no id stands for two blocks");
    }
}

#[test]
fn the_size_of_a_block_follows_what_is_learned_but_not_every_breath_of_it() {
    let hashes: Vec<u64> = (0..100).collect();
    let calls: Vec<_> = [64.0, 66.0, 62.0, 80.0, 82.0]
        .map(|size| call(3200, &hashes, size))
        .to_vec();
    let (lines, _) = lines(&calls, options(1 << 20, 1));
    let all: Vec<_> = lines.iter().map(ids).collect();
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0], all[2]);
    assert_ne!(all[0], all[3]);
    assert_eq!(all[3], all[4]);
}

#[test]
fn another_file_has_other_names() {
    let calls = [call(640, &[1, 2, 3], 64.0)];
    let (one, other) = (
        lines(&calls, options(1 << 20, 1)).0,
        lines(&calls, options(1 << 20, 2)).0,
    );
    for name in ["tenant", "session", "model"] {
        assert_ne!(one[0][name], other[0][name], "{name}");
    }
    assert!(ids(&one[0]).iter().all(|id| !ids(&other[0]).contains(id)));
}

#[test]
fn a_file_has_a_largest_size_and_what_exceeds_it_is_counted() {
    let calls = vec![call(640, &[1, 2, 3], 64.0); 50];
    let all = lines(&calls, options(1 << 20, 1));
    assert_eq!((all.0.len(), all.1), (50, 0));
    let some = lines(&calls, options(2000, 1));
    assert!(!some.0.is_empty() && some.0.len() < 10, "{}", some.0.len());
    assert_eq!(some.0.len() as u64 + some.1, 50);
}

#[test]
fn a_writer_that_does_not_follow_costs_calls_and_not_memory() {
    struct Stuck(Receiver<()>);
    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // Ends when the test does.
            self.0.recv().map(|()| bytes.len()).map_err(std::io::Error::other)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (_release, stuck) = sync_channel(0);
    let dropped = Counter::default();
    let recording = Recording::start(Box::new(Stuck(stuck)), options(1 << 20, 1), dropped.clone()).unwrap();
    let hashes = vec![7; QUEUED_BLOCKS / 8];
    (0..20).for_each(|_| recording.append(call(1, &hashes, 64.0)));
    assert!((11..=12).contains(&dropped.get()), "{}", dropped.get());
    let (small, before) = (call(1, &[], 64.0), dropped.get());
    (0..2 * QUEUE).for_each(|_| recording.append(small.clone()));
    assert!(dropped.get() - before >= QUEUE as u64);
    recording.close(Duration::from_millis(50));
}
