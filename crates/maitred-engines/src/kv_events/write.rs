//! A batch as vLLM 0.32 writes it, for the simulated endpoint and for tests.

use super::batch::{BlockHash, BlocksStored, KvBatch, KvEvent, Place};

impl KvBatch {
    /// The payload: an array of time, events as maps, and rank.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        out.array(3);
        match self.at {
            Some(at) => out.float(at),
            None => out.nil(),
        }
        out.array(self.events.len());
        for event in &self.events {
            out.event(event);
        }
        out.optional(self.rank.map(u64::from));
        out.0
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn event(&mut self, event: &KvEvent) {
        match event {
            KvEvent::Stored(stored) => self.stored(stored),
            KvEvent::Removed(removed) => {
                self.map(4);
                self.field("type").text("BlockRemoved");
                self.field("block_hashes").hashes(&removed.hashes);
                self.field("medium").name(removed.place.medium.as_deref());
                self.field("group_idx").integer(u64::from(removed.place.group));
            }
            KvEvent::Cleared => {
                self.map(1);
                self.field("type").text("AllBlocksCleared");
            }
        }
    }

    fn stored(&mut self, stored: &BlocksStored) {
        let Place { medium, group, kind } = &stored.place;
        self.map(10);
        self.field("type").text("BlockStored");
        self.field("block_hashes").hashes(&stored.hashes);
        self.field("parent_block_hash")
            .optional(stored.parent.map(|parent| parent.0));
        self.field("token_ids").array(stored.tokens.len());
        for token in &stored.tokens {
            self.integer(u64::from(*token));
        }
        self.field("block_size").integer(u64::from(stored.block_size));
        self.field("lora_id").optional(stored.lora_id);
        self.field("medium").name(medium.as_deref());
        self.field("lora_name").name(stored.lora_name.as_deref());
        self.field("group_idx").integer(u64::from(*group));
        self.field("kv_cache_spec_kind").name(kind.as_deref());
    }

    fn field(&mut self, name: &str) -> &mut Self {
        self.text(name);
        self
    }

    fn hashes(&mut self, hashes: &[BlockHash]) {
        self.array(hashes.len());
        for hash in hashes {
            self.integer(hash.0);
        }
    }

    fn name(&mut self, name: Option<&str>) {
        match name {
            Some(name) => self.text(name),
            None => self.nil(),
        }
    }

    fn optional(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.integer(number),
            None => self.nil(),
        }
    }

    fn nil(&mut self) {
        self.0.push(0xc0);
    }

    fn float(&mut self, number: f64) {
        self.0.push(0xcb);
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn integer(&mut self, number: u64) {
        if let Ok(small) = u8::try_from(number) {
            if small > 0x7f {
                self.0.push(0xcc);
            }
            self.0.push(small);
        } else if let Ok(medium) = u16::try_from(number) {
            self.0.push(0xcd);
            self.0.extend_from_slice(&medium.to_be_bytes());
        } else if let Ok(large) = u32::try_from(number) {
            self.0.push(0xce);
            self.0.extend_from_slice(&large.to_be_bytes());
        } else {
            self.0.push(0xcf);
            self.0.extend_from_slice(&number.to_be_bytes());
        }
    }

    fn text(&mut self, text: &str) {
        self.0.push(0xdb);
        self.count(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn array(&mut self, count: usize) {
        self.0.push(0xdd);
        self.count(count);
    }

    fn map(&mut self, pairs: usize) {
        self.0.push(0xdf);
        self.count(pairs);
    }

    fn count(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&count.to_be_bytes());
    }
}
