use std::time::Duration;

use maitred_test::{Redis, Signal, within};

use super::*;

fn log_of(redis: &Redis) -> SharedLog {
    SharedLog::new(SharedLogOptions {
        url: redis.url(),
        key: "maitred:test".to_owned(),
        keep: 1000,
        timeout: Duration::from_secs(5),
    })
    .unwrap()
}

fn said(entries: &[Entry]) -> Vec<(u64, &str)> {
    entries
        .iter()
        .map(|entry| (entry.writer, std::str::from_utf8(&entry.bytes).unwrap()))
        .collect()
}

#[tokio::test]
async fn readers_get_what_others_wrote_in_order() {
    let redis = Redis::start().await;
    let log = log_of(&redis);
    let mut one = log.writer(1).await.unwrap();
    let mut two = log.writer(2).await.unwrap();
    one.append(b"a").await.unwrap();
    two.append(b"b").await.unwrap();
    one.append(b"c").await.unwrap();

    // Who joins reads the newest of the past, without its own.
    let (mut reader, past) = log.reader(2, 2).await.unwrap();
    assert_eq!(said(&past), [(1, "c")]);
    one.append(b"d").await.unwrap();
    two.append(b"own").await.unwrap();
    one.append(b"e").await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(within("entries", reader.next()).await.unwrap());
    }
    assert_eq!(said(&seen), [(1, "d"), (1, "e")]);
}

#[tokio::test]
async fn a_reader_that_starts_with_nothing_waits_for_the_first() {
    let redis = Redis::start().await;
    let log = log_of(&redis);
    let (mut reader, past) = log.reader(1, 10).await.unwrap();
    assert!(past.is_empty());
    log.writer(2).await.unwrap().append(b"first").await.unwrap();
    assert_eq!(said(&reader.next().await.unwrap()), [(2, "first")]);
}

#[tokio::test]
async fn a_server_that_goes_is_an_error_and_one_that_returns_is_used_again() {
    let mut redis = Redis::start().await;
    let log = log_of(&redis);
    let mut writer = log.writer(1).await.unwrap();
    let (mut reader, _) = log.reader(2, 0).await.unwrap();
    redis.stop(Signal::Kill).await;
    assert!(matches!(writer.append(b"x").await, Err(LogError::Server(_))));
    assert!(matches!(
        within("an error", reader.next()).await,
        Err(LogError::Server(_))
    ));
    assert!(log.writer(1).await.is_err());
    redis.restart().await;
    log.writer(1).await.unwrap().append(b"again").await.unwrap();
    let (_, past) = log.reader(2, 5).await.unwrap();
    assert_eq!(said(&past), [(1, "again")]);
}

#[tokio::test]
async fn what_is_no_entry_is_passed_over_and_what_is_too_large_refused() {
    let redis = Redis::start().await;
    let log = log_of(&redis);
    let mut raw = log.connect(Duration::from_secs(5)).await.unwrap();
    let _: String = raw.xadd("maitred:test", "*", &[("other", "thing")]).await.unwrap();
    let _: String = raw
        .xadd("maitred:test", "*", &[(WRITER, "short"), (BYTES, "x")])
        .await
        .unwrap();
    let mut writer = log.writer(7).await.unwrap();
    let refused = writer.append(&vec![0; ENTRY_MAX + 1]).await;
    assert!(matches!(refused, Err(LogError::TooLarge { bytes }) if bytes == ENTRY_MAX + 1));
    writer.append(b"good").await.unwrap();
    let (_, past) = log.reader(1, 10).await.unwrap();
    assert_eq!(said(&past), [(7, "good")]);
}

#[test]
fn the_address_is_not_printed() {
    let options = SharedLogOptions {
        url: "redis://:hunter2@localhost".to_owned(),
        key: "k".to_owned(),
        keep: 1,
        timeout: Duration::from_secs(1),
    };
    let log = SharedLog::new(options.clone()).unwrap();
    assert!(!format!("{options:?} {log:?}").contains("hunter2"));
    let wrong = SharedLog::new(SharedLogOptions {
        url: "no address hunter2".to_owned(),
        ..options
    });
    assert!(!wrong.unwrap_err().to_string().contains("hunter2"));
}
