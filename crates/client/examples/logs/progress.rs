//! Log files that are counted line by line, with the progress kept beside the counters.
//!
//! The name of the file and the offset up to which it is counted are written in the same transaction as the counts. So if the
//! program is killed at any time, it continues where its counters stand: no line is lost and none is counted twice.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use sleeve::prelude::*;
use sleeve::{Client, Error};

/// The number of lines that are counted in one transaction.
pub const LINES_MAX: usize = 100;

/// The hash with the progress: `file`, and `offset` in bytes.
const PROGRESS: &str = "progress";

/// Counts the lines of the files in a folder, in the order of their names, from the place where the last run stopped. A line
/// counts for its first word. `step` is called after each transaction.
pub fn process_logs(client: &Client, folder: &Path, mut step: impl FnMut()) -> Result<(), Box<dyn std::error::Error>> {
    let mut progress = client.hmget::<Vec<Option<String>>>(PROGRESS, ["file", "offset"]).wait()?.into_iter().flatten();
    let (last, reached) = (progress.next().unwrap_or_default(), progress.next().unwrap_or_default());
    for name in names(folder)?.into_iter().filter(|name| *name >= last) {
        let mut offset: u64 = if name == last { reached.parse()? } else { 0 };
        let mut file = BufReader::new(File::open(folder.join(&name))?);
        file.seek(SeekFrom::Start(offset))?;
        loop {
            let (length, counts) = count(&mut file)?;
            if length == 0 {
                break;
            }
            offset += length;
            keep(client, &name, offset, counts)?;
            step();
        }
    }
    Ok(())
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Reads some lines. Returns their length in bytes, and the number of occurrences for each counter.
fn count(file: &mut impl BufRead) -> io::Result<(u64, BTreeMap<String, i64>)> {
    let (mut length, mut counts, mut line) = (0, BTreeMap::new(), String::new());
    for _ in 0..LINES_MAX {
        line.clear();
        length += file.read_line(&mut line)? as u64;
        if let Some(word) = line.split_whitespace().next() {
            *counts.entry(format!("count:{word}")).or_default() += 1;
        }
    }
    Ok((length, counts))
}

/// Adds to the counters and writes the progress, in one transaction.
fn keep(client: &Client, name: &str, offset: u64, counts: BTreeMap<String, i64>) -> Result<(), Error> {
    let transaction = client.transaction();
    for (counter, by) in counts {
        transaction.incrby(counter, by).forget();
    }
    transaction.hset(PROGRESS, [("file", name.to_owned()), ("offset", offset.to_string())]).forget();
    transaction.exec().wait().map(|_| ())
}
