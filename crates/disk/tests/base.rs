//! Bases in words of requests, which a log may have and no server of ours writes: as bytes, and as the first of a log.

use std::io::{self, IoSlice};

use sleeve_disk::disk::{Disk, Open};
use sleeve_disk::format::annotation::{self, Block, Salt};
use sleeve_disk::format::manifest::Format;
use sleeve_disk::log::{Folder, Log, NewBase, Options};

/// A base that is being written: which offset of the journal it stands for, its requests in blocks, and where it ends. With
/// the sums off it is the requests alone, as in Redis.
#[derive(Debug)]
pub struct BaseWriter {
    salt: Option<Salt>,
    next_number: u64,
    length: u64,
}

impl BaseWriter {
    /// What comes first in the file goes to `into`.
    pub fn begin(options: &Options, stands_for: u64, into: &mut Vec<u8>) -> BaseWriter {
        let salt = options.checksums.then_some(Salt(options.salt));
        if let Some(salt) = salt {
            annotation::write_salt(into, salt);
            annotation::write_stands_for(into, salt, stands_for);
        }
        BaseWriter { salt, next_number: 0, length: 0 }
    }

    /// Appends whole requests to `into`, as a block.
    pub fn block(&mut self, requests: &[u8], into: &mut Vec<u8>) {
        let length = requests.len() as u64;
        if let Some(salt) = self.salt {
            let block = Block { number: self.next_number, from: self.length, covered: length, length, unsynced: 0 };
            annotation::write_block(into, salt, &block, std::iter::once(requests));
        }
        into.extend_from_slice(requests);
        self.next_number += 1;
        self.length += length;
    }

    pub fn end(self, into: &mut Vec<u8>) {
        if let Some(salt) = self.salt {
            annotation::write_end(into, salt, self.length);
        }
    }
}

/// A base of these requests, a block each, in a file beside the log.
pub fn write_base(disk: &dyn Disk, options: &Options, stands_for: u64, requests: &[Vec<u8>]) -> io::Result<NewBase> {
    let mut bytes = Vec::new();
    let mut base = BaseWriter::begin(options, stands_for, &mut bytes);
    requests.iter().for_each(|request| base.block(request, &mut bytes));
    base.end(&mut bytes);
    let path = options.folder.join("temp-base");
    let file = disk.open(&path, Open::Create)?;
    if !bytes.is_empty() {
        file.append(&[IoSlice::new(&bytes)])?;
    }
    file.sync()?;
    Ok(NewBase { file: path, format: Format::Aof, stands_for })
}

/// A log with this base, where there was none: begun as a server begins it.
pub fn create(folder: Folder, base: NewBase) -> io::Result<Log> {
    let mut log = folder.wait(base.stands_for)?;
    let rewritten = log.rewrite(base, 0)?.run()?;
    log.rewritten(rewritten);
    Ok(log)
}
