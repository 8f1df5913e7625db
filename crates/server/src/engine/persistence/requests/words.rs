//! Requests as they are put into a base: a block of them is summed when enough has come together.

use sleeve_disk::format::annotation;
use sleeve_disk::log::{BaseWriter, Options};
use sleeve_wire::reply::{Protocol, Writer};

/// Bytes of requests that are summed together.
const BLOCK_BYTES: usize = 64 << 10;

/// A base that is being written.
pub struct Words {
    base: BaseWriter,
    /// What goes to the file.
    out: Vec<u8>,
    /// Requests that are not in a block yet.
    pub block: Vec<u8>,
}

impl Words {
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

    /// Has a block end where enough has come together.
    pub fn settle(&mut self) {
        if self.block.len() >= BLOCK_BYTES {
            self.base.block(&self.block, &mut self.out);
            self.block.clear();
            self.block.shrink_to(BLOCK_BYTES);
        }
    }

    /// Bytes that wait to be taken out.
    pub fn pending_len(&self) -> usize {
        self.out.len() + self.block.len()
    }

    /// Gives out what was written since the last time.
    pub fn drain<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> R {
        let result = take(&self.out);
        self.out.clear();
        self.out.shrink_to(BLOCK_BYTES);
        result
    }

    /// Ends the base; what is left is to be taken out.
    pub fn end(self) -> Vec<u8> {
        let Self { mut base, mut out, block } = self;
        if !block.is_empty() {
            base.block(&block, &mut out);
        }
        base.end(&mut out);
        out
    }
}
