use std::os::unix::fs::PermissionsExt as _;

use maitred_test::Folder;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

const HOUR: u64 = 3_600_000;
/// 2026-12-01T00:00:00Z.
const NOW: u64 = 1_796_083_200_000;

fn now() -> UnixMillis {
    UnixMillis::new(NOW)
}

fn options(folder: &Folder) -> TextOptions {
    TextOptions {
        folder: folder.path().join("texts"),
        start: 7,
        now,
    }
}

fn said(text: &str, most: usize) -> Said {
    let mut said = Said::up_to(most);
    said.hear(text.as_bytes());
    said
}

fn text(tenant: &str, request: &str) -> Text {
    Text {
        request_id: "r1".into(),
        arrived: now(),
        tenant: tenant.into(),
        user: Some("ann".into()),
        key: None,
        path: "/v1/chat/completions".into(),
        status: 200,
        request: said(request, 100),
        answer: said("answer", 3),
    }
}

const TERMS: Terms = Terms {
    keep: Duration::from_secs(2 * 3600),
    max_size: 8_000,
};

fn lines(folder: &Path) -> Vec<Value> {
    let mut all = Vec::new();
    for item in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(item.unwrap().path()).unwrap();
        all.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    all
}

#[test]
fn who_wants_it_has_its_texts_kept_and_nobody_else() {
    let folder = Folder::new();
    let texts = Texts::open(options(&folder), TextMeters::default()).unwrap();
    texts.set_terms(TermsByTenant::from([("a/../b".to_owned(), TERMS)]));
    texts.offer(text("a/../b", "question"));
    texts.offer(text("other", "secret"));
    assert!(texts.close(Duration::from_secs(30)));
    let kept = kept(&options(&folder).folder).unwrap();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!((kept[0].folder.as_str(), kept[0].files), ("a%2f%2e%2e%2fb", 1));
    let place = options(&folder).folder.join(&kept[0].folder);
    let lines = lines(&place);
    assert_eq!(
        (&lines[0]["request"]["text"], &lines[0]["request"]["bytes"]),
        (&"question".into(), &8.into())
    );
    assert_eq!(lines[0]["request"].get("cut"), None);
    assert_eq!(
        (&lines[0]["answer"]["text"], &lines[0]["answer"]["cut"]),
        (&"ans".into(), &true.into())
    );
    assert_eq!(
        (&lines[0]["answer"]["bytes"], &lines[0]["user"]),
        (&6.into(), &"ann".into())
    );
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place), 0o700);
    for item in std::fs::read_dir(&place).unwrap() {
        assert_eq!(mode(&item.unwrap().path()), 0o600);
    }
    assert!(forget(&options(&folder).folder, "a/../b").unwrap() > 0);
    assert_eq!(forget(&options(&folder).folder, "a/../b").unwrap(), 0);
    assert!(!place.is_dir());
}

#[test]
fn a_tenant_that_wants_no_more_has_nothing_kept_from_then_on() {
    let folder = Folder::new();
    let texts = Texts::open(options(&folder), TextMeters::default()).unwrap();
    texts.offer(text("a", "question"));
    assert!(texts.close(Duration::from_secs(30)));
    assert_eq!(kept(&options(&folder).folder).unwrap(), []);
    // What comes after the end is lost, and that is counted.
    texts.offer(text("a", "question"));
    assert_eq!(texts.meters.lost.get(), 1);
}

#[test]
fn more_than_may_wait_is_lost_and_counted() {
    let folder = Folder::new();
    let texts = Texts::open(options(&folder), TextMeters::default()).unwrap();
    let mut large = text("a", "");
    large.request = said(&"x".repeat(WAITING_MAX + 1), usize::MAX);
    texts.offer(large);
    assert_eq!(texts.meters.lost.get(), 1);
    assert_eq!(texts.waiting.load(Ordering::Relaxed), 0);
}

#[test]
fn texts_leave_by_age_and_by_size() {
    let folder = Folder::new();
    let options = options(&folder);
    let mut shelf = Shelf::new(&options, "a");
    let at = |hours: u64| UnixMillis::new(NOW + hours * HOUR);
    let files = || kept(&options.folder).unwrap()[0].files;
    for hour in 0..3 {
        shelf.put(b"line\n", &TERMS, at(hour)).unwrap();
    }
    assert_eq!(files(), 3);
    // The first hour ended at one, and two hours later it leaves.
    shelf.tidy(&TERMS, UnixMillis::new(at(3).get() - 1)).unwrap();
    assert_eq!(files(), 3);
    shelf.tidy(&TERMS, at(3)).unwrap();
    assert_eq!(files(), 2);
    // Within an hour files have an eighth of what there may be, and the oldest make room.
    for _ in 0..100 {
        shelf.put(&[b'x'; 400], &TERMS, at(3)).unwrap();
        assert!(kept(&options.folder).unwrap()[0].bytes <= TERMS.max_size);
    }
    assert!(kept(&options.folder).unwrap()[0].bytes > TERMS.max_size / 2);
    // What is forgotten does not come back, and what comes later is kept.
    forget(&options.folder, "a").unwrap();
    shelf.put(b"after\n", &TERMS, at(3)).unwrap();
    assert_eq!(kept(&options.folder).unwrap()[0].bytes, 6);
}

proptest! {
    /// However it comes, the beginning is kept, and how long it was; a character at the cut is left out.
    #[test]
    fn what_is_said_is_kept_up_to_the_cut(text in "\\PC{0,40}", pieces in 1_usize..9, most in 0_usize..60) {
        let mut said = Said::up_to(most);
        for piece in text.as_bytes().chunks(pieces) {
            said.hear(piece);
        }
        prop_assert_eq!(said.length, text.len() as u64);
        let kept = said.text().unwrap();
        prop_assert_eq!(kept, text.get(..text.floor_char_boundary(most)).unwrap());
        prop_assert_eq!(said.is_cut(), text.len() > most);
    }

    #[test]
    fn any_bytes_make_a_line(bytes in proptest::collection::vec(any::<u8>(), 0..50), most in 0_usize..60) {
        let mut said = Said::up_to(most);
        said.hear(&bytes);
        let text = Text { request: said, ..text("a", "") };
        let line = text.line().unwrap();
        prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        prop_assert!(serde_json::from_slice::<Value>(&line).is_ok());
    }
}
