use maitred_obs::Meters;
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::chain::{ChainHash, Flaw};

fn options(folder: &TempDir, segment: u64) -> AuditOptions {
    AuditOptions {
        folder: folder.path().join("audit"),
        on_failure: OnFailure::Refuse,
        sync: false,
        segment,
        retention: Retention::default(),
        now: || UnixMillis::new(1_700_000_000_000),
    }
}

fn open(options: &AuditOptions) -> Result<Audit, ChainError> {
    Audit::open(options, Meters::new("0").audit())
}

/// A folder with several segments of calls, and where its audit is.
fn written(calls: u32) -> (TempDir, AuditOptions) {
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder, 1_500);
    let audit = open(&options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for call in 0..calls {
        // One by one, so that segments are closed where they are full.
        let entry = json!({ "kind": "call", "call": call });
        runtime
            .block_on(audit.enter_durably(&entry, Duration::from_secs(60)))
            .unwrap();
    }
    assert!(audit.close(Duration::from_secs(60)));
    (folder, options)
}

fn entries(options: &AuditOptions) -> (Vec<Value>, Report) {
    let mut entries = Vec::new();
    let report = verify(&options.folder, None, |line| {
        entries.push(serde_json::from_slice(line).unwrap());
    })
    .unwrap();
    (entries, report)
}

fn head_of(options: &AuditOptions) -> Head {
    entries(options).1.head
}

#[test]
fn what_is_entered_is_there_in_order_over_segments_and_starts() {
    let (_folder, options) = written(30);
    let audit = open(&options).unwrap();
    audit.enter(&json!({ "kind": "call", "call": 30 }));
    assert!(audit.close(Duration::from_secs(60)));
    let (entries, report) = entries(&options);
    assert_eq!(report.verdict, Verdict::Intact);
    assert!(report.segments.len() > 2, "{report:?}");
    let kinds: Vec<_> = entries.iter().filter_map(|entry| entry["kind"].as_str()).collect();
    let ends = ["start", "end"];
    assert_eq!(kinds.iter().filter(|kind| ends.contains(kind)).count(), 4);
    let calls: Vec<_> = entries.iter().filter_map(|entry| entry["call"].as_u64()).collect();
    assert_eq!(calls, (0..=30).collect::<Vec<_>>());
    assert_eq!(entries[0]["at"], "2023-11-14T22:13:20.000Z");
}

#[test]
fn what_is_too_large_is_counted_and_calls_are_cut_to_fit() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder, 1 << 20);
    let meters = Meters::new("0").audit();
    let audit = Audit::open(&options, meters.clone()).unwrap();
    let long = "\u{1}é".repeat(LINE_MAX);
    audit.enter(&json!({ "kind": "denied", "target": long }));
    assert_eq!(meters.lost.get(), 1);
    let call = CallEnded {
        kind: "call",
        at: String::new(),
        request_id: &long,
        tenant: &long,
        user: Some(&long),
        key: Some(&long),
        issuer: Some(&long),
        shared_key: false,
        client: &long,
        path: &long,
        model: Some(&long),
        degraded: None,
        degrade_reason: None,
        target: None,
        served: Some(&long),
        pool: Some(&long),
        endpoint: Some(&long),
        attempts: 1,
        outcome: "answered",
        fault: None,
        status: 200,
        cut: false,
    };
    audit.enter(&call.fitted());
    assert!(audit.close(Duration::from_secs(60)));
    assert_eq!(meters.lost.get(), 1);
    let (entries, report) = entries(&options);
    assert_eq!(report.verdict, Verdict::Intact);
    let of = |kind: &str| entries.iter().find(|entry| entry["kind"] == kind).unwrap();
    assert_eq!(of("lost")["entries"], 1);
    let path = of("call")["path"].as_str().unwrap();
    assert!(long.starts_with(path) && path.len() > 1000, "{}", path.len());
    assert_eq!(of("call")["cut"], true);
}

#[test]
fn a_flipped_byte_in_any_segment_is_found_where_it_is() {
    let (_folder, options) = written(20);
    let files = segments(&options.folder).unwrap();
    proptest!(|(which: prop::sample::Index, at: prop::sample::Index, bit in 0_u8..8)| {
        let file = which.get(&files);
        let whole = std::fs::read(file).unwrap();
        let at = at.index(whole.len());
        let line = whole[..at].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        std::fs::write(file, &bytes).unwrap();
        let verdict = entries(&options).1.verdict;
        std::fs::write(file, &whole).unwrap();
        let is_there = matches!(&verdict, Verdict::Broken { file: found, line: of, .. } if found == file && *of == line);
        prop_assert!(is_there, "{verdict:?} in {file:?}, line {line}");
    });
    assert_eq!(entries(&options).1.verdict, Verdict::Intact);
}

#[test]
fn what_was_cut_off_at_a_boundary_is_noticed_by_a_head_that_was_kept() {
    let (_folder, options) = written(6);
    let head = head_of(&options);
    let newest = segments(&options.folder).unwrap().pop().unwrap();
    let bytes = std::fs::read(&newest).unwrap();
    let before_last = bytes[..bytes.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    std::fs::write(&newest, &bytes[..before_last]).unwrap();
    assert_eq!(
        entries(&options).1.verdict,
        Verdict::Intact,
        "the rest is right in itself"
    );
    let with = |anchor| verify(&options.folder, Some(anchor), |_| {}).unwrap();
    assert_eq!(with(head.hash).verdict, Verdict::Missing);
    let kept = head_of(&options);
    let report = with(kept.hash);
    assert_eq!((report.verdict, report.anchor), (Verdict::Intact, Some(kept.number)));
    // A chain that was made anew is right in itself too.
    let (_other, other) = written(6);
    let report = verify(&other.folder, Some(ChainHash::parse(&"0".repeat(64)).unwrap()), |_| {}).unwrap();
    assert_eq!(report.verdict, Verdict::Missing);
}

#[test]
fn a_torn_end_is_no_tampering_and_is_gone_on_from() {
    let (_folder, options) = written(3);
    let newest = segments(&options.folder).unwrap().pop().unwrap();
    let bytes = std::fs::read(&newest).unwrap();
    let head = head_of(&options);
    std::fs::write(&newest, &bytes[..bytes.len() - 7]).unwrap();
    let verdict = entries(&options).1.verdict;
    assert!(matches!(verdict, Verdict::Torn { .. }), "{verdict:?}");
    let audit = open(&options).unwrap();
    assert!(audit.close(Duration::from_secs(60)));
    let (entries, report) = entries(&options);
    assert_eq!(report.verdict, Verdict::Intact);
    let start = entries.iter().rfind(|entry| entry["kind"] == "start").unwrap();
    assert!(start["torn_bytes"].as_u64().unwrap() > 0, "{start}");
    // In place of the torn entry stands another.
    assert_eq!(start["n"], head.number);
}

#[test]
fn what_was_changed_is_not_gone_on_from() {
    let (_folder, options) = written(3);
    let newest = segments(&options.folder).unwrap().pop().unwrap();
    let text = std::fs::read_to_string(&newest).unwrap();
    std::fs::write(&newest, text.replacen("\"kind\"", "\"kinD\"", 1)).unwrap();
    match open(&options).unwrap_err() {
        ChainError::Broken { file, line, flaw } => assert_eq!((file, line, flaw), (newest, 1, Flaw::Altered)),
        other => panic!("{other}"),
    }
}

#[test]
fn one_process_writes_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder, 1 << 20);
    let first = open(&options).unwrap();
    assert!(matches!(open(&options), Err(ChainError::Taken(_))));
    assert!(first.takes_calls());
    assert!(first.close(Duration::from_secs(60)));
    drop(first);
    assert!(open(&options).is_ok());
}

#[test]
fn older_segments_may_be_taken_away() {
    let (_folder, options) = written(30);
    let files = segments(&options.folder).unwrap();
    std::fs::remove_file(&files[0]).unwrap();
    let report = entries(&options).1;
    assert_eq!(report.verdict, Verdict::Intact);
    assert!(report.first > 1);
    // But none in between.
    std::fs::remove_file(&files[2]).unwrap();
    let verdict = entries(&options).1.verdict;
    assert!(
        matches!(
            &verdict,
            Verdict::Broken {
                line: 1,
                flaw: Flaw::Misplaced,
                ..
            }
        ),
        "{verdict:?}"
    );
}

/// Lets all closed segments look as if their last entry was of another day.
fn age(options: &AuditOptions, days: u64) {
    let files = segments(&options.folder).unwrap();
    for file in &files[..files.len() - 1] {
        let ended =
            std::time::UNIX_EPOCH + Duration::from_millis(((options.now)()).get()) - Duration::from_secs(days * 86_400);
        File::open(file).unwrap().set_modified(ended).unwrap();
    }
}

fn kept(days: u32, max_bytes: Option<u64>) -> Retention {
    Retention {
        keep: Some(Duration::from_secs(86_400) * days),
        max_bytes,
    }
}

#[test]
fn the_old_leave_at_a_start_and_an_entry_says_so() {
    let (_folder, mut options) = written(30);
    let before = entries(&options).1;
    age(&options, 31);
    options.retention = kept(30, None);
    let audit = open(&options).unwrap();
    assert!(audit.close(Duration::from_secs(60)));
    let (left, report) = entries(&options);
    assert_eq!(report.verdict, Verdict::Intact);
    assert_eq!(report.segments.len(), 1);
    let removed: Vec<_> = left.iter().filter(|entry| entry["kind"] == "removed").collect();
    let said = ["first", "last", "aged_files", "surplus_files"].map(|name| removed[0][name].as_u64().unwrap());
    assert_eq!(said, [1, report.first - 1, before.segments.len() as u64 - 1, 0]);
    assert_eq!(removed.len(), 1);
    assert_eq!(report.explained().map(|removal| removal.last), Some(report.first - 1));
    // What somebody takes away besides is told apart.
    drop(audit);
    let (_other, other) = written(30);
    std::fs::remove_file(&segments(&other.folder).unwrap()[0]).unwrap();
    let report = entries(&other).1;
    assert!(report.first > 1 && report.explained().is_none());
}

#[test]
fn what_is_too_much_leaves_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(&folder, 1_500);
    options.retention = Retention {
        keep: None,
        max_bytes: Some(6_000),
    };
    let audit = open(&options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    audit.enter_changes_in_force(7);
    for call in 0..100 {
        let entry = json!({ "kind": "call", "call": call });
        runtime
            .block_on(audit.enter_durably(&entry, Duration::from_secs(60)))
            .unwrap();
    }
    assert!(audit.close(Duration::from_secs(60)));
    let held: u64 = segments(&options.folder)
        .unwrap()
        .iter()
        .map(|file| std::fs::metadata(file).unwrap().len())
        .sum();
    // The one that was written meanwhile.
    assert!(held < 6_000 + 2_000, "{held}");
    let (left, report) = entries(&options);
    assert_eq!(report.verdict, Verdict::Intact);
    assert!(report.explained().is_some(), "{report:?}");
    let calls: Vec<_> = left.iter().filter_map(|entry| entry["call"].as_u64()).collect();
    assert_eq!(calls, (calls[0]..100).collect::<Vec<_>>());
    // The entry that said it is gone, and what it said is not.
    assert_eq!(audit.changes_in_force().unwrap(), Some(7));
    // A start that is told nothing of changes keeps it too.
    drop(audit);
    age(&options, 31);
    options.retention = kept(30, None);
    let audit = open(&options).unwrap();
    assert!(audit.close(Duration::from_secs(60)));
    assert_eq!(segments(&options.folder).unwrap().len(), 1);
    assert_eq!(audit.changes_in_force().unwrap(), Some(7));
}

#[test]
fn a_segment_that_holds_much_time_is_closed_by_the_next_entry() {
    let (_folder, mut options) = written(1);
    options.now = || UnixMillis::new(1_700_000_000_000 + 86_400_000);
    options.retention = kept(30, None);
    assert!(open(&options).unwrap().close(Duration::from_secs(60)));
    assert_eq!(
        segments(&options.folder).unwrap().len(),
        1,
        "a day of thirty is not much"
    );
    options.retention = kept(10, None);
    assert!(open(&options).unwrap().close(Duration::from_secs(60)));
    assert_eq!(segments(&options.folder).unwrap().len(), 2);
    assert_eq!(entries(&options).1.verdict, Verdict::Intact);
}

/// However much of the newest segment was on the disk when its writer died, the next start goes on, also if none of it was.
#[test]
fn a_newest_segment_that_is_cut_anywhere_is_gone_on_from() {
    let (_folder, options) = written(30);
    let newest = segments(&options.folder).unwrap().pop().unwrap();
    let bytes = std::fs::read(&newest).unwrap();
    for end in (0..300)
        .chain([bytes.len() / 2, bytes.len() - 1])
        .filter(|end| *end < bytes.len())
    {
        std::fs::write(&newest, &bytes[..end]).unwrap();
        let audit = open(&options).unwrap_or_else(|error| panic!("{end} bytes: {error}"));
        assert!(audit.close(Duration::from_secs(60)));
        let report = entries(&options).1;
        assert_eq!((report.verdict, report.first), (Verdict::Intact, 1), "{end} bytes");
    }
}

#[test]
fn what_is_too_large_is_not_entered() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder, 1 << 20);
    let audit = open(&options).unwrap();
    audit.enter(&json!({ "kind": "call", "text": "x".repeat(LINE_MAX) }));
    assert!(audit.close(Duration::from_secs(60)));
    // Start, end, and that one was lost.
    assert_eq!(entries(&options).0.len(), 3);
}
