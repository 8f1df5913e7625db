//! The writer of a base in the form of requests (`aof-use-rdb-preamble no`).
//!
//! It takes bytes and gives bytes. The caller writes them to a file, syncs it and hands it over as a `NewBase`.

use crate::format::annotation::{self, Block, Salt, Stretch};

use super::directory::Options;

/// A base that is being written: the journal's offset that it stands for, its requests in blocks, and a line that marks its
/// end. If checksums are off it is the requests alone, as in Redis.
#[derive(Debug)]
pub struct BaseWriter {
    stretch: Option<Stretch>,
    length: u64,
}

impl BaseWriter {
    /// Begins a base that stands for the journal up to `stands_for`; the file's first bytes go to `into`. No other stretch of
    /// the AOF has the salt of these options.
    pub fn begin(options: &Options, stands_for: u64, into: &mut Vec<u8>) -> BaseWriter {
        let stretch = options.checksums.then(|| Stretch::new(Salt(options.salt)));
        if let Some(stretch) = stretch {
            stretch.write_salt(into);
            annotation::write_stands_for(into, stretch.salt, stands_for);
        }
        BaseWriter { stretch, length: 0 }
    }

    /// Appends whole requests to `into`, as a block.
    pub fn block(&mut self, requests: &[u8], into: &mut Vec<u8>) {
        let length = requests.len() as u64;
        if let Some(Stretch { salt, next_number }) = &mut self.stretch {
            let block = Block { number: *next_number, from: self.length, covered: length, length, unsynced: 0 };
            annotation::write_block(into, *salt, &block, std::iter::once(requests));
            *next_number += 1;
        }
        into.extend_from_slice(requests);
        self.length += length;
    }

    /// Ends the base.
    pub fn end(self, into: &mut Vec<u8>) {
        if let Some(stretch) = self.stretch {
            annotation::write_end(into, stretch.salt, self.length);
        }
    }
}
