use std::sync::atomic::AtomicU64;

use proptest::prelude::*;

use super::*;

#[derive(Debug)]
struct Note(String, String);

impl Record for Note {
    fn id(&self) -> &str {
        &self.0
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.1.as_bytes());
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
    found.map(|bytes| String::from_utf8(bytes).unwrap())
}

const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn what_was_offered_is_found_by_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let meters = ArchiveMeters::default();
    let archive = Archive::open(options(folder.path(), 1), meters.clone()).unwrap();
    for number in 0..1000 {
        archive.offer(note(&format!("call-{number}"), &format!("it was {number}")));
    }
    archive.offer(note("call-7", "again"));
    assert!(archive.close(LIMIT));
    assert_eq!((meters.kept.get(), meters.lost()), (1001, 0));
    let next = Archive::open(options(folder.path(), 2), meters).unwrap();
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
    let mut open = Open::create(folder, 7, now()).unwrap();
    let mut batch = Vec::new();
    for number in 0..records {
        assert!(open.frame(&Note(format!("id-{number}"), "x".repeat(100)), &mut batch));
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
    let archive = Archive::open(options(folder.path(), 1), ArchiveMeters::default()).unwrap();
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
    let mut open = Open::create(folder.path(), 7, now()).unwrap();
    let mut batch = Vec::new();
    assert!(open.frame(&Note("a".to_owned(), "1".to_owned()), &mut batch));
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
    let archive = Archive::open(small, ArchiveMeters::default()).unwrap();
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
    assert!(Archive::open(later, ArchiveMeters::default()).unwrap().close(LIMIT));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_is_too_large_or_too_much_is_lost_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let meters = ArchiveMeters::default();
    let archive = Archive::open(options(folder.path(), 1), meters.clone()).unwrap();
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
