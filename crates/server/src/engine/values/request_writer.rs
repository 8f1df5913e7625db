//! Requests on their way into a base of the AOF. When enough have been written, they become a block with a checksum.
//!
//! One thread uses a writer. This module touches no file: written bytes wait until they are taken out.

use sleeve_disk::aof::{BaseWriter, Options};
use sleeve_disk::format::annotation;
use sleeve_store::{Digits, ValueRef};
use sleeve_wire::reply::{Protocol, Writer};

/// The size of a block of requests with one checksum, in bytes.
const BLOCK_BYTES: usize = 64 << 10;

/// The most elements of a value in one request, as in Redis.
const ELEMENTS_MAX: usize = 64;

/// A base that is being written.
pub struct RequestWriter {
    base: BaseWriter,
    /// The bytes for the file.
    out: Vec<u8>,
    /// The requests that are in no block yet.
    pub block: Vec<u8>,
}

impl RequestWriter {
    /// Begins a base that stands for the journal up to an offset, at this time.
    pub fn begin(options: &Options, stands_for: u64, now_s: i64) -> Self {
        let (mut out, mut block) = (Vec::new(), Vec::new());
        let base = BaseWriter::begin(options, stands_for, &mut out);
        if options.timestamps {
            annotation::write_time(&mut block, now_s);
        }
        Self { base, out, block }
    }

    /// Adds a request.
    pub fn request(&mut self, words: &[&[u8]]) {
        let mut writer = Writer::new(&mut self.block, Protocol::Resp2);
        writer.array(words.len());
        writer.bulks(words);
    }

    /// Adds requests with one command name for one key; `add` adds their elements.
    pub fn elements(&mut self, name: &'static [u8], key: &[u8], add: impl FnOnce(&mut Elements<'_>)) {
        let mut elements =
            Elements { out: &mut self.block, name, key, words: Vec::new(), words_len: 0, elements_len: 0 };
        add(&mut elements);
        elements.end();
    }

    /// Ends the block if it is large enough.
    pub fn settle(&mut self) {
        if self.block.len() >= BLOCK_BYTES {
            self.base.block(&self.block, &mut self.out);
            self.block.clear();
            self.block.shrink_to(BLOCK_BYTES);
        }
    }

    /// Returns the number of bytes that wait to be taken out.
    pub fn pending_len(&self) -> usize {
        self.out.len() + self.block.len()
    }

    /// Calls `take` with the bytes that were written since the last call.
    pub fn drain<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> R {
        let result = take(&self.out);
        self.out.clear();
        self.out.shrink_to(BLOCK_BYTES);
        result
    }

    /// Ends the base, and returns the remaining bytes.
    pub fn end(self) -> Vec<u8> {
        let Self { mut base, mut out, block } = self;
        if !block.is_empty() {
            base.block(&block, &mut out);
        }
        base.end(&mut out);
        out
    }
}

/// Elements that are gathered for one request.
pub struct Elements<'a> {
    out: &'a mut Vec<u8>,
    name: &'static [u8],
    key: &'a [u8],
    words: Vec<u8>,
    words_len: usize,
    elements_len: usize,
}

impl Elements<'_> {
    fn word(&mut self, value: ValueRef<'_>) {
        Writer::new(&mut self.words, Protocol::Resp2).bulk(value.bytes(&mut Digits::default()));
        self.words_len += 1;
    }

    /// Adds an element.
    pub fn add(&mut self, value: ValueRef<'_>) {
        self.word(value);
        self.count();
    }

    /// Adds a field with its value.
    pub fn pair(&mut self, field: ValueRef<'_>, value: ValueRef<'_>) {
        self.word(field);
        self.add(value);
    }

    /// Adds a member with its score.
    pub fn scored(&mut self, name: ValueRef<'_>, score: f64) {
        Writer::new(&mut self.words, Protocol::Resp2).bulk_double(score);
        self.words_len += 1;
        self.add(name);
    }

    fn count(&mut self) {
        self.elements_len += 1;
        if self.elements_len == ELEMENTS_MAX {
            self.end();
        }
    }

    fn end(&mut self) {
        if self.elements_len > 0 {
            let mut writer = Writer::new(self.out, Protocol::Resp2);
            writer.array(2 + self.words_len);
            writer.bulks(&[self.name, self.key]);
            self.out.append(&mut self.words);
            (self.words_len, self.elements_len) = (0, 0);
        }
    }
}
