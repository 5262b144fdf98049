//! Bodies of the fuzz targets. Plain functions, so that a fuzzer and the property tests run the same code. None of this is for use in
//! the gateway.

use maitred_types::Time;

use crate::prefix::seal;
use crate::{EndpointOptions, Pool, PoolOptions, PrefixSnapshot, Profile, SnapshotFile};

/// Any bytes as a snapshot of prefixes, and as the content of one that is sealed as it should be: no panic, no more blocks than bytes
/// for them, and a pool that takes it keeps its invariants.
pub fn fuzz_snapshot(data: &[u8]) {
    drop(PrefixSnapshot::parse(data));
    let file = [&SnapshotFile::head(64), data].concat();
    if let Ok(file) = SnapshotFile::parse(&file, 64) {
        let inside: usize = file.parts.iter().map(|part| part.len()).sum();
        assert!(inside <= data.len(), "parts out of nothing");
    }
    let sealed = seal(data);
    let Ok(snapshot) = PrefixSnapshot::parse(&sealed) else {
        return;
    };
    assert!(snapshot.blocks() * 8 <= data.len(), "blocks out of nothing");
    let mut options = PoolOptions::default();
    options.prefix.max_bytes = 1 << 16;
    let mut pool = Pool::new(options, Profile::default(), 1);
    let Ok(id) = pool.add(snapshot.address().into(), EndpointOptions::default(), Time::ZERO) else {
        return;
    };
    let taken = pool.import_prefixes(id, snapshot.mark(), &snapshot, Time::ZERO);
    assert!(taken.is_ok_and(|blocks| blocks * 8 <= data.len() as u64));
    assert_eq!(pool.check_invariants(), Ok(()));
}
