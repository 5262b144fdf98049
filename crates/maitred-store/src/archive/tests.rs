use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use proptest::prelude::*;

use super::*;
use crate::chain::Flaw;
use crate::frame::{Front, front, wrap};

#[derive(Debug)]
struct Note(String, String);

impl Record for Note {
    fn id(&self) -> &str {
        &self.0
    }
    fn write(&self, out: &mut Vec<u8>) {
        let record = serde_json::json!({ "request_id": self.0, "text": self.1 });
        serde_json::to_writer(out, &record).unwrap();
    }
}

fn note(id: &str, text: &str) -> Arc<dyn Record> {
    Arc::new(Note(id.to_owned(), text.to_owned()))
}

static NOW: AtomicU64 = AtomicU64::new(1_800_000_000_000);

/// Another moment at each look, so that segments of one test have different names.
fn now() -> UnixMillis {
    UnixMillis::new(NOW.fetch_add(1, Ordering::Relaxed))
}

fn options(folder: &Path, start: u64) -> ArchiveOptions {
    ArchiveOptions {
        folder: folder.to_owned(),
        keep: Duration::from_secs(86_400 * 36_500),
        max_bytes: 1 << 30,
        start,
        now,
    }
}

fn text(found: Option<Vec<u8>>) -> Option<String> {
    let record: serde_json::Value = serde_json::from_slice(&found?).unwrap();
    record["text"].as_str().map(str::to_owned)
}

fn nobody() -> Finished {
    Box::new(|_, _| {})
}

const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn what_was_offered_is_found_by_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let meters = ArchiveMeters::default();
    let archive = Archive::open(options(folder.path(), 1), meters.clone(), nobody()).unwrap();
    for number in 0..1000 {
        archive.offer(note(&format!("call-{number}"), &format!("it was {number}")));
    }
    archive.offer(note("call-7", "again"));
    assert!(archive.close(LIMIT));
    assert_eq!((meters.kept.get(), meters.lost()), (1001, 0));
    let next = Archive::open(options(folder.path(), 2), meters, nobody()).unwrap();
    assert_eq!(text(next.find("call-999").unwrap()).as_deref(), Some("it was 999"));
    assert_eq!(
        text(next.find("call-7").unwrap()).as_deref(),
        Some("again"),
        "the newest counts"
    );
    assert_eq!(next.find("nobody").unwrap(), None);
    next.offer(note("call-7", "once more"));
    assert!(next.close(LIMIT));
    assert_eq!(text(next.find("call-7").unwrap()).as_deref(), Some("once more"));
}

/// A segment as a killed writer leaves it: so many records, cut off after so many bytes.
fn left(folder: &Path, records: u32, cut: usize) -> PathBuf {
    let mut open = Open::create(folder, 7, now(), 1).unwrap();
    let (mut head, mut batch) = (Head::EMPTY, Vec::new());
    for number in 0..records {
        assert!(open.frame(&Note(format!("id-{number}"), "x".repeat(100)), &mut head, &mut batch));
    }
    let end = batch.len().saturating_sub(cut);
    open.append(&batch[..end]).unwrap();
    open.path.clone()
}

#[test]
fn what_a_killed_writer_left_is_found_with_and_without_an_index() {
    let folder = tempfile::tempdir().unwrap();
    left(folder.path(), 5, 3);
    assert!(find(folder.path(), "id-3").unwrap().is_some());
    assert_eq!(find(folder.path(), "id-4").unwrap(), None, "it is torn");
    let archive = Archive::open(options(folder.path(), 1), ArchiveMeters::default(), nobody()).unwrap();
    assert!(archive.close(LIMIT));
    assert_eq!(
        list(folder.path()).unwrap().len(),
        1,
        "a segment with nothing in it leaves"
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        2,
        "the segment and its index"
    );
    assert!(find(folder.path(), "id-0").unwrap().is_some());
    assert_eq!(find(folder.path(), "id-4").unwrap(), None);
}

#[test]
fn the_segment_of_a_living_writer_gets_no_index_from_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut open = Open::create(folder.path(), 7, now(), 1).unwrap();
    let mut batch = Vec::new();
    assert!(open.frame(
        &Note("a".to_owned(), "1".to_owned()),
        &mut Head::EMPTY.clone(),
        &mut batch
    ));
    open.append(&batch).unwrap();
    for stored in list(folder.path()).unwrap() {
        stored.finish_if_left();
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(find(folder.path(), "a").unwrap().is_some());
}

#[test]
fn the_oldest_leave_when_there_is_too_much() {
    let folder = tempfile::tempdir().unwrap();
    let first = left(folder.path(), 100, 0);
    let kept = [left(folder.path(), 100, 0), left(folder.path(), 100, 0)];
    let max_bytes = 3 * std::fs::metadata(&first).unwrap().len();
    let small = ArchiveOptions {
        max_bytes,
        ..options(folder.path(), 1)
    };
    // With their indexes two are below the bound and three above.
    for stored in list(folder.path()).unwrap() {
        stored.finish_if_left();
    }
    let archive = Archive::open(small, ArchiveMeters::default(), nobody()).unwrap();
    assert!(archive.close(LIMIT));
    let paths: Vec<_> = list(folder.path())
        .unwrap()
        .into_iter()
        .map(|stored| stored.path)
        .collect();
    assert!(!paths.contains(&first) && paths == kept, "{paths:?}");
}

#[test]
fn the_old_leave_by_their_age() {
    fn far() -> UnixMillis {
        // The files of this test were written now, whenever that is.
        UnixMillis::new(8_000_000_000_000 + NOW.fetch_add(1, Ordering::Relaxed))
    }
    let folder = tempfile::tempdir().unwrap();
    left(folder.path(), 3, 0);
    let later = ArchiveOptions {
        now: far,
        keep: Duration::from_secs(86_400),
        ..options(folder.path(), 1)
    };
    assert!(
        Archive::open(later, ArchiveMeters::default(), nobody())
            .unwrap()
            .close(LIMIT)
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_is_too_large_or_too_much_is_lost_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let meters = ArchiveMeters::default();
    let archive = Archive::open(options(folder.path(), 1), meters.clone(), nobody()).unwrap();
    archive.offer(note("large", &"x".repeat(300 << 10)));
    for number in 0..3 * QUEUE {
        archive.offer(note(&number.to_string(), "x"));
    }
    assert!(archive.close(LIMIT));
    assert_eq!(archive.find("large").unwrap(), None);
    assert!(meters.lost() >= 1);
    assert_eq!(meters.kept.get() + meters.lost(), 3 * QUEUE as u64 + 1);
}

proptest! {
    #[test]
    fn damaged_segments_and_indexes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0_usize..500) {
        let folder = tempfile::tempdir().unwrap();
        let path = left(folder.path(), 4, 0);
        let mut whole = std::fs::read(&path).unwrap();
        let end = (at + bytes.len()).min(whole.len());
        let at = at.min(end);
        whole.splice(at..end, bytes.clone());
        std::fs::write(&path, &whole).unwrap();
        for stored in list(folder.path()).unwrap() {
            let _any = stored.find("id-2").unwrap();
            stored.finish_if_left();
            let _any = stored.find("id-2").unwrap();
        }
        std::fs::write(path.with_extension("index"), bytes).unwrap();
        for stored in list(folder.path()).unwrap() {
            let _any = stored.find("id-2");
        }
    }
}

/// Two starts, of which the second has written several segments.
fn two_starts() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    left(folder.path(), 3, 0);
    let mut keeper = Keeper {
        meters: ArchiveMeters::default(),
        open: None,
        head: Head::EMPTY,
        finished: nobody(),
        options: options(folder.path(), 9),
        told: 0,
        tidied: UnixMillis::new(0),
        batch: Vec::new(),
    };
    for segment in 0..3 {
        let notes = (0..4).map(|number| note(&format!("call-{segment}-{number}"), "of importance"));
        keeper.write(notes);
        keeper.turn();
    }
    drop(keeper);
    // The last one holds nothing, and its writer died.
    folder
}

fn check(folder: &Path) -> Vec<StartReport> {
    verify(folder, &BTreeMap::new()).unwrap().starts
}

fn verdicts(folder: &Path) -> Vec<Verdict> {
    check(folder).into_iter().map(|start| start.verdict).collect()
}

#[test]
fn each_start_is_a_chain_over_its_segments() {
    let folder = two_starts();
    let starts = check(folder.path());
    let found: Vec<_> = starts
        .iter()
        .map(|start| (start.segments, start.first, start.head.number, start.verdict.clone()))
        .collect();
    assert_eq!(found, [(1, 1, 3, Verdict::Intact), (4, 1, 12, Verdict::Intact)]);
    // The oldest may leave, and none in between.
    let own: Vec<_> = list(folder.path()).unwrap().into_iter().skip(1).collect();
    own[0].remove();
    let report = check(folder.path()).remove(1);
    assert_eq!(
        (report.first, report.head.number, report.verdict),
        (5, 12, Verdict::Intact)
    );
    own[2].remove();
    assert_eq!(
        check(folder.path())[1].verdict,
        Verdict::Intact,
        "what is behind is cut off"
    );
    let folder = two_starts();
    let own: Vec<_> = list(folder.path()).unwrap().into_iter().skip(1).collect();
    own[1].remove();
    let gap = &verdicts(folder.path())[1];
    assert!(
        matches!(
            gap,
            Verdict::Broken {
                record: 1,
                flaw: Flaw::Misplaced,
                ..
            }
        ),
        "{gap:?}"
    );
}

#[test]
fn records_that_are_taken_from_the_front_or_found_by_another_id_are_noticed() {
    let folder = two_starts();
    let second = &list(folder.path()).unwrap()[2].path;
    let whole = std::fs::read(second).unwrap();
    let Front::Frame(payload, length) = front(&whole) else {
        panic!()
    };
    // Whoever is first of what is left must be whom the name says.
    list(folder.path()).unwrap()[1].remove();
    let without_index = || std::fs::remove_file(second.with_extension("index"));
    without_index().unwrap();
    assert_eq!(verdicts(folder.path())[1], Verdict::Intact);
    std::fs::write(second, &whole[length..]).unwrap();
    let cut = &verdicts(folder.path())[1];
    assert!(matches!(cut, Verdict::Broken { record: 1, .. }), "{cut:?}");
    // A frame that is right in itself, with another id before the same entry.
    let mut other = Vec::new();
    wrap(&mut other, |out| {
        out.extend_from_slice(&[&payload[..2], b"hide", &payload[6..]].concat());
    });
    std::fs::write(second, [&other, &whole[length..]].concat()).unwrap();
    let hidden = &verdicts(folder.path())[1];
    assert!(
        matches!(
            hidden,
            Verdict::Broken {
                record: 1,
                flaw: Flaw::Altered,
                ..
            }
        ),
        "{hidden:?}"
    );
}

#[test]
fn a_flipped_byte_anywhere_is_found() {
    let folder = two_starts();
    let mut files: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|item| item.unwrap().path())
        .collect();
    files.sort();
    proptest!(|(file in prop::sample::select(files), at: prop::sample::Index, bit in 0_u8..8)| {
        let whole = std::fs::read(&file).unwrap();
        prop_assume!(!whole.is_empty());
        let mut changed = whole.clone();
        let at = at.index(changed.len());
        changed[at] ^= 1 << bit;
        std::fs::write(&file, &changed).unwrap();
        let found = verdicts(folder.path());
        std::fs::write(&file, &whole).unwrap();
        prop_assert!(found.iter().any(|verdict| !verdict.is_right()), "byte {at} of {file:?}: {found:?}");
    });
    assert!(verdicts(folder.path()).iter().all(Verdict::is_right));
}

#[test]
fn what_a_killed_writer_left_is_torn_and_not_broken() {
    let whole = {
        let folder = tempfile::tempdir().unwrap();
        std::fs::read(left(folder.path(), 3, 0)).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = left(folder.path(), 3, 0);
    let frame = whole.len() / 3;
    for end in 0..=whole.len() {
        std::fs::write(&path, &whole[..end]).unwrap();
        let report = check(folder.path()).remove(0);
        let is_whole = end % frame == 0;
        assert_eq!(
            matches!(report.verdict, Verdict::Torn { .. }),
            !is_whole,
            "{end}: {report:?}"
        );
        assert!(report.verdict.is_right(), "{end}: {report:?}");
        assert_eq!(report.head.number, (end / frame) as u64);
        // A machine that died.
        std::fs::write(&path, [&whole[..end], &[0; 40]].concat()).unwrap();
        assert!(verdicts(folder.path())[0].is_right(), "{end} and zeros");
    }
}

#[test]
fn what_was_told_of_a_segment_shows_what_was_cut_off_made_anew_or_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    left(folder.path(), 3, 0);
    list(folder.path()).unwrap()[0].finish_if_left();
    let told = Arc::new(Mutex::new(BTreeMap::new()));
    let teller = Arc::clone(&told);
    let finished: Finished = Box::new(move |file, head| {
        teller.lock().insert(file.to_owned(), head);
    });
    let archive = Archive::open(options(folder.path(), 1), ArchiveMeters::default(), finished).unwrap();
    for number in 0..10 {
        archive.offer(note(&format!("call-{number}"), "of importance"));
    }
    assert!(archive.close(LIMIT));
    let told = told.lock().clone();
    let path = list(folder.path()).unwrap()[1].path.clone();
    assert_eq!(
        told.keys().collect::<Vec<_>>(),
        [path.file_name().unwrap().to_str().unwrap()]
    );
    assert_eq!(told.values().next().unwrap().number, 10);
    let report = || verify(folder.path(), &told).unwrap();
    assert!(report().is_right(), "{:?}", report());
    // One record less at the end, and no index.
    let whole = std::fs::read(&path).unwrap();
    let (mut at, mut last) = (0, 0);
    while let Front::Frame(_, length) = front(&whole[at..]) {
        last = at;
        at += length;
    }
    std::fs::write(&path, &whole[..last]).unwrap();
    std::fs::remove_file(path.with_extension("index")).unwrap();
    assert!(check(folder.path())[0].verdict.is_right(), "it is right in itself");
    let cut = report();
    assert!(
        !cut.is_right() && matches!(cut.starts[0].verdict, Verdict::Differs { .. }),
        "{cut:?}"
    );
    std::fs::remove_file(&path).unwrap();
    assert_eq!(report().missing, [path.file_name().unwrap().to_str().unwrap()]);
    // What is let go goes with all that is older.
    list(folder.path()).unwrap()[0].remove();
    assert!(report().is_right());
}
