//! Entries named by number, in pages: growth copies nothing, and a freed place is used again before a page is added.

/// Entries of one page; a small index stays small.
const PAGE: usize = 64;
const PAGE_BITS: u32 = PAGE.trailing_zeros();

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// Entries in pages. What a freed entry held stays there until its place is used again, so it is to be emptied before.
#[derive(Debug)]
pub(super) struct Slab<T> {
    pages: Vec<Vec<T>>,
    free: Vec<u32>,
    live: usize,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self {
            pages: Vec::new(),
            free: Vec::new(),
            live: 0,
        }
    }

    pub(super) fn insert(&mut self, entry: T) -> u32 {
        self.live += 1;
        if let Some(at) = self.free.pop() {
            *self.get_mut(at) = entry;
            return at;
        }
        let is_full = self.pages.last().is_none_or(|page| page.len() == PAGE);
        if is_full {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        let before = (self.pages.len() - 1) * PAGE;
        let page = before >> PAGE_BITS;
        self.pages[page].push(entry);
        number(before + self.pages[page].len() - 1)
    }

    pub(super) fn free(&mut self, at: u32) {
        self.live -= 1;
        self.free.push(at);
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &T {
        &self.pages[(at >> PAGE_BITS) as usize][at as usize % PAGE]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> &mut T {
        &mut self.pages[(at >> PAGE_BITS) as usize][at as usize % PAGE]
    }

    /// Entries in use.
    pub(super) const fn live(&self) -> usize {
        self.live
    }

    /// Bytes of the entries in use.
    pub(super) const fn live_bytes(&self) -> usize {
        self.live * size_of::<T>()
    }

    /// Bytes of all pages and of the lists.
    pub(super) const fn bytes(&self) -> usize {
        let lists = self.pages.capacity() * size_of::<Vec<T>>() + self.free.capacity() * size_of::<u32>();
        self.pages.len() * PAGE * size_of::<T>() + lists
    }
}

/// An entry's number. The bound in bytes is reached long before numbers run out.
fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_places_are_used_before_a_page_is_added() {
        let mut slab = Slab::new();
        let numbers: Vec<_> = (0..200_u32).map(|value| slab.insert(value)).collect();
        assert_eq!(numbers, (0..200).collect::<Vec<_>>());
        let bytes = slab.bytes();
        slab.free(7);
        slab.free(130);
        assert_eq!(slab.live(), 198);
        assert_eq!((slab.insert(1_000), slab.insert(1_001)), (130, 7));
        assert_eq!((*slab.get(130), *slab.get(7), *slab.get(131)), (1_000, 1_001, 131));
        assert_eq!(slab.live_bytes(), 800);
        assert!(slab.bytes() >= bytes, "{} {bytes}", slab.bytes());
    }
}
