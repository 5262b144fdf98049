use maitred_obs::LedgerMeters;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::super::queue::{Shared, append};
use super::*;

/// A segment with so many bytes, on a disk that takes no more.
fn refusing(length: u64) -> Segment {
    let file = File::from(memfd_create("full", MemfdFlags::ALLOW_SEALING).unwrap());
    file.set_len(length).unwrap();
    fcntl_add_seals(&file, SealFlags::WRITE).unwrap();
    Segment {
        file,
        number: 0,
        length,
        is_torn: false,
    }
}

#[test]
fn a_disk_that_refuses_is_not_filled_with_empty_segments() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), 1).unwrap();
    let shared = Shared::new(LedgerMeters::default());
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let others = files();
    let segments = || files() - others;
    let mut segment = refusing(0);
    for _ in 0..5 {
        assert!(append(&shared, &spool, &mut segment, b"entry").is_err());
    }
    assert_eq!(segments(), 0);
    // One in which something stands is closed, so that its rows are not held up.
    let mut segment = refusing(8);
    assert!(append(&shared, &spool, &mut segment, b"entry").is_err());
    assert_eq!((segments(), segment.number), (1, 1));
    append(&shared, &spool, &mut segment, b"entry").unwrap();
    assert_eq!((segments(), segment.length), (1, 5));
}
