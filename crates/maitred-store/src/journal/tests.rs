use maitred_test::Redis;

use super::*;

fn filled(path: &Path, entries: u64) -> Journal {
    let mut journal = Journal::open(path).unwrap();
    for entry in 0..entries {
        let line = journal.seal(format!("\"entry\":{entry}").as_bytes());
        journal.append(&line).unwrap();
    }
    journal
}

/// A gateway that dies at any byte of a write leaves all that was confirmed, and goes on.
#[test]
fn a_death_at_any_byte_leaves_what_was_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changes.jsonl");
    let confirmed = filled(&path, 3);
    let before = std::fs::read(&path).unwrap();
    let line = confirmed.seal(b"\"entry\":3");
    drop(confirmed);
    for written in 0..=line.len() {
        std::fs::write(&path, [&before, &line[..written]].concat()).unwrap();
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(journal.head().number, 3, "after {written} bytes");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        let next = journal.seal(b"\"entry\":30");
        journal.append(&next).unwrap();
        assert_eq!(Journal::open(&path).unwrap().lines().last(), Some(&next));
    }
}

/// As in `admin.changes: changes.jsonl` of a gateway that is started beside its configuration.
#[test]
fn a_bare_name_is_a_file_where_the_process_runs() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let unique = folder.path().file_name().unwrap().to_str().unwrap().to_owned();
    let path = std::path::PathBuf::from(format!("{}.jsonl", unique.trim_start_matches('.')));
    let opened = Journal::open(&path);
    let removed = std::fs::remove_file(&path);
    assert_eq!(opened.unwrap().head().number, 0);
    removed.unwrap();
}

#[test]
fn what_was_changed_is_not_gone_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changes.jsonl");
    filled(&path, 3);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"entry\":1", "\"entry\":7")).unwrap();
    assert!(matches!(Journal::open(&path), Err(ChainError::Broken { line: 2, .. })));
}

#[test]
fn only_the_next_entry_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = filled(&folder.path().join("changes.jsonl"), 1);
    let line = journal.seal(b"\"entry\":1");
    journal.append(&line).unwrap();
    assert!(journal.append(&line).is_err());
    assert_eq!(journal.head().number, 2);
}

#[tokio::test]
async fn of_two_with_one_number_the_server_takes_the_first() {
    let server = Redis::start().await;
    let shared = SharedJournal::new(&server.url(), "maitred:changes".to_owned()).unwrap();
    assert_eq!(shared.newest().await.unwrap(), 0);
    let mut reader = shared.reader(0).await.unwrap();
    assert_eq!(shared.publish(1, b"one", b"").await.unwrap(), Published::Yes);
    assert_eq!(shared.publish(1, b"other", b"").await.unwrap(), Published::Taken);
    assert_eq!(shared.publish(2, b"two", b"one").await.unwrap(), Published::Yes);
    assert_eq!(shared.publish(1, b"late", b"").await.unwrap(), Published::Taken);
    assert_eq!(
        shared.publish(4, b"four", b"three").await.unwrap(),
        Published::Behind(2)
    );
    let mut lines = Vec::new();
    while lines.len() < 2 {
        lines.extend(reader.next().await.unwrap());
    }
    assert_eq!(lines, [b"one", b"two"]);
    assert_eq!(shared.newest().await.unwrap(), 2);
    let all: Vec<Vec<u8>> = [b"one".as_slice(), b"two", b"three"].map(Vec::from).into();
    assert_eq!(shared.give_back(&all).await.unwrap(), None);
    assert_eq!(reader.next().await.unwrap(), [b"three"]);
}

#[tokio::test]
async fn lines_of_another_chain_are_not_mixed_in() {
    let server = Redis::start().await;
    let shared = SharedJournal::new(&server.url(), "maitred:changes".to_owned()).unwrap();
    let lines = |texts: &[&str]| -> Vec<Vec<u8>> { texts.iter().map(|text| text.as_bytes().to_vec()).collect() };
    let (ours, theirs) = (lines(&["a1", "a2"]), lines(&["b1", "b2", "b3"]));
    assert_eq!(shared.difference(&ours).await.unwrap(), None, "nothing is there yet");
    assert_eq!(shared.give_back(&ours).await.unwrap(), None);
    assert_eq!(shared.difference(&theirs).await.unwrap(), Some(2));
    assert_eq!(shared.give_back(&theirs).await.unwrap(), Some(2));
    assert_eq!(shared.publish(3, b"b3", b"b2").await.unwrap(), Published::Foreign);
    assert_eq!(shared.newest().await.unwrap(), 2);
    assert_eq!(
        shared.difference(&lines(&["a1"])).await.unwrap(),
        None,
        "one that is behind"
    );
    assert_eq!(shared.difference(&[]).await.unwrap(), None, "one that is new");
}
