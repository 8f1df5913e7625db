//! Bases in words of requests, as the first of a log.

use std::io::{self, IoSlice};

use sleeve_disk::aof::{AofWriter, BaseWriter, Folder, NewBase, Options};
use sleeve_disk::disk::{Disk, Open};
use sleeve_disk::format::manifest::Format;

/// Writes a base of these requests, a block each, into a file beside the AOF.
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

/// Begins an AOF with this base in an empty folder, as a server does.
pub fn create(folder: Folder, base: NewBase) -> io::Result<AofWriter> {
    let mut log = folder.wait(base.stands_for)?;
    let rewritten = log.rewrite(base, 0)?.run()?;
    log.rewritten(rewritten);
    Ok(log)
}
