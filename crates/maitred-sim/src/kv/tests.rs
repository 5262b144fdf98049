//! The pool's order and its bookkeeping.

use super::*;

fn hash(value: u64) -> BlockHash {
    BlockHash::new(value)
}

/// Allocates `count` blocks and names them `from`, `from + 1`, …
fn filled(pool: &mut BlockPool, count: u64, from: u64) -> Vec<BlockId> {
    (from..from + count)
        .map(|value| {
            let block = pool.allocate().unwrap();
            pool.publish(block, hash(value));
            block
        })
        .collect()
}

#[test]
fn one_block_is_never_used() {
    let mut pool = BlockPool::new(20);
    assert_eq!((pool.usable(), pool.free(), pool.used()), (19, 19, 0));
    let mut blocks: Vec<_> = std::iter::from_fn(|| pool.allocate()).collect();
    assert_eq!((blocks.len(), pool.free(), pool.used()), (19, 0, 19));
    blocks.sort();
    blocks.dedup();
    assert_eq!(blocks.len(), 19, "no block is handed out twice");
}

#[test]
fn the_deepest_block_of_a_finished_request_is_evicted_first() {
    let mut pool = BlockPool::new(4);
    let mut request = filled(&mut pool, 3, 10);
    pool.release(&mut request);
    for (lost, kept) in [(12, vec![10, 11]), (11, vec![10]), (10, vec![])] {
        let block = pool.allocate().unwrap();
        assert_eq!(pool.find(hash(lost)), None, "{lost} is lost");
        assert!(kept.iter().all(|value| pool.find(hash(*value)).is_some()));
        // Its new holder keeps it.
        pool.publish(block, hash(100 + lost));
    }
    assert_eq!(pool.allocate(), None);
}

#[test]
fn requests_are_evicted_in_the_order_they_ended() {
    let mut pool = BlockPool::new(5);
    let (mut first, mut second) = (filled(&mut pool, 2, 10), filled(&mut pool, 2, 20));
    pool.release(&mut second);
    pool.release(&mut first);
    let mut lost = Vec::new();
    for _ in 0..4 {
        let before: Vec<u64> = [10, 11, 20, 21]
            .into_iter()
            .filter(|value| pool.find(hash(*value)).is_some())
            .collect();
        pool.allocate().unwrap();
        lost.extend(before.into_iter().filter(|value| pool.find(hash(*value)).is_none()));
    }
    assert_eq!(lost, [21, 20, 11, 10]);
}

#[test]
fn a_hit_on_a_free_block_takes_it_off_the_free_list() {
    let mut pool = BlockPool::new(4);
    let mut request = filled(&mut pool, 3, 10);
    pool.release(&mut request);
    let (block, is_free) = pool.find(hash(12)).unwrap();
    assert!(is_free);
    pool.share(block);
    assert_eq!((pool.free(), pool.find(hash(12))), (2, Some((block, false))));
    pool.allocate().unwrap();
    assert_eq!(pool.find(hash(11)), None, "the next in line went instead");
    assert!(pool.find(hash(12)).is_some());
}

#[test]
fn a_shared_block_is_free_when_its_last_holder_lets_go() {
    let mut pool = BlockPool::new(3);
    let mut one = filled(&mut pool, 1, 10);
    pool.share(one[0]);
    let mut two = one.clone();
    pool.release(&mut one);
    assert_eq!(pool.free(), 1);
    pool.release(&mut two);
    assert_eq!(pool.free(), 2);
}

#[test]
fn a_twin_stays_unnamed() {
    let mut pool = BlockPool::new(4);
    let first = filled(&mut pool, 1, 10);
    let twin = pool.allocate().unwrap();
    pool.publish(twin, hash(10));
    assert_eq!(pool.find(hash(10)), Some((first[0], false)));
    pool.check(first.iter().chain([&twin])).unwrap();
}

#[test]
fn each_check_can_fail() {
    let broken = |change: fn(&mut BlockPool, &mut Vec<BlockId>)| {
        let mut pool = BlockPool::new(6);
        let mut used = filled(&mut pool, 5, 50);
        pool.release(&mut used);
        let mut held = filled(&mut pool, 3, 10);
        pool.check(held.iter()).unwrap();
        change(&mut pool, &mut held);
        pool.check(held.iter()).unwrap_err()
    };
    let found = [
        broken(|pool, held| pool.append(held[0])),
        broken(|pool, _| pool.blocks[1].next = BlockId(1)),
        broken(|pool, _| pool.free += 1),
        broken(|_, held| _ = held.pop()),
        broken(|pool, held| pool.blocks[held[0].index()].references += 1),
        broken(|pool, _| _ = pool.cached.remove(&hash(10))),
        broken(|pool, held| _ = pool.cached.insert(hash(99), held[0])),
    ];
    let mut distinct = found.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), found.len(), "{found:?}");
}
