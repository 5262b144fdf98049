//! A small set of choice indexes.

use smallvec::SmallVec;

/// Indexes from here on are not tracked: no engine answers with so many choices, and a hostile index must not cost memory.
const MAX_INDEX: u32 = 4096;

/// Indexes below [`MAX_INDEX`]; the first 64 need no allocation.
#[derive(Clone, Default)]
pub(super) struct IndexSet {
    words: SmallVec<[u64; 1]>,
}

impl IndexSet {
    /// Adds an index.
    pub(super) fn insert(&mut self, index: u32) {
        if index >= MAX_INDEX {
            return;
        }
        let Ok(word) = usize::try_from(index / 64) else { return };
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (index % 64);
    }

    /// Whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether `other` has everything that this set has.
    pub(super) fn is_subset_of(&self, other: &Self) -> bool {
        self.words
            .iter()
            .enumerate()
            .all(|(at, word)| word & !other.words.get(at).copied().unwrap_or(0) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_compare_across_words() {
        let set = |indexes: &[u32]| {
            let mut set = IndexSet::default();
            indexes.iter().for_each(|index| set.insert(*index));
            set
        };
        assert!(set(&[]).is_empty());
        assert!(set(&[u32::MAX]).is_empty());
        assert!(!set(&[100]).is_empty());
        assert!(set(&[]).is_subset_of(&set(&[])));
        assert!(set(&[1, 100]).is_subset_of(&set(&[0, 1, 100])));
        assert!(!set(&[1, 100]).is_subset_of(&set(&[1])));
        assert!(!set(&[0]).is_subset_of(&set(&[64])));
    }
}
