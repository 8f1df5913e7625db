//! `sleeve check rdb --salvage`: a new snapshot of every record of a damaged one that can still be read.

use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use sleeve_disk::own::{self, Replacement};
use sleeve_store::rdb::Limits;
use sleeve_store::rdb::file::salvage::{Salvaged, Sum, salvage};

use super::rdb::{open, plural, secret, verify};
use crate::endpoint::without_number;
use crate::output;

/// The permissions of the new snapshot: it holds data of users.
const MODE: u32 = 0o600;

/// The number of skipped ranges that are printed one by one.
const RANGES_TOLD_MAX: usize = 20;

/// Salvages `file` into `out`; the exit code is 0 if nothing is lost.
pub fn run(file: &Path, out: &Path) -> ExitCode {
    match try_run(file, out) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            output::flush();
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(file: &Path, out: &Path) -> Result<bool, String> {
    refuse_existing(out)?;
    let mut bytes = Vec::new();
    let read = open(file)?.read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot read {}: {}", file.display(), without_number(&error)))?;
    let salvaged = salvage(&mut bytes, &Limits::usual(secret()));
    if salvaged.keys() == 0 && salvaged.functions == 0 && !salvaged.is_whole() {
        return Err(format!("{} has no key that can be read; {} was not written", file.display(), out.display()));
    }
    write(&salvaged, &bytes, out)?;
    print(&salvaged, file, out);
    Ok(salvaged.is_whole())
}

fn refuse_existing(out: &Path) -> Result<(), String> {
    match fs::symlink_metadata(out) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("cannot look at {}: {}", out.display(), without_number(&error))),
        Ok(_) => Err(format!("{} is there: choose another name", out.display())),
    }
}

/// Writes the new snapshot under a temporary name, syncs it, names it, and reads it back.
fn write(salvaged: &Salvaged, bytes: &[u8], out: &Path) -> Result<(), String> {
    let failed =
        |error: io::Error| format!("cannot write {}: {}", out.display(), without_number(&own::named(out, error)));
    let mut replacement = Replacement::begin(out, MODE).map_err(failed)?;
    let mut writer = BufWriter::new(replacement.file());
    salvaged.write(bytes, &mut writer).and_then(|()| writer.flush()).map_err(failed)?;
    drop(writer);
    refuse_existing(out)?;
    replacement.finish().map_err(failed)?;
    let (keys, _) = verify(out).map_err(|text| format!("{} was written and {text}", out.display()))?;
    if keys != salvaged.keys() as u64 {
        return Err(format!("{} has {keys} keys, and {} were written", out.display(), salvaged.keys()));
    }
    Ok(())
}

fn print(salvaged: &Salvaged, file: &Path, out: &Path) {
    if let Some(at) = salvaged.mended {
        output::line(format_args!("byte {at} had been changed: the sum at the end says how, and it was changed back"));
    }
    if !salvaged.has_header {
        output::line(format_args!("the header cannot be read: the format of the values was tried out"));
    }
    for range in salvaged.skipped.iter().take(RANGES_TOLD_MAX) {
        let count = plural(range.len() as u64, "byte", "bytes");
        output::line(format_args!(
            "skipped      {count}, from byte {} to byte {}",
            range.start,
            range.end.saturating_sub(1)
        ));
    }
    if salvaged.skipped.len() > RANGES_TOLD_MAX {
        output::line(format_args!("and so on: {} ranges in all", salvaged.skipped.len()));
    }
    let notes = [
        (
            salvaged.swallowed,
            "found inside of a record that can be read as well, and whose value is therefore doubtful",
        ),
        (salvaged.doubles, "left out, because the key was there already"),
        (salvaged.guessed, "in a database that is a guess, because its number cannot be read"),
    ];
    for (count, what) in notes.iter().filter(|(count, _)| *count > 0) {
        output::line(format_args!("{what}: {}", plural(*count as u64, "key", "keys")));
    }
    if !salvaged.has_end {
        output::line(format_args!("the file has no end: keys behind its last byte are lost"));
    }
    if salvaged.is_cut_short {
        output::line(format_args!("the search was given up in places, because it would have taken too long"));
    }
    if salvaged.sum == Sum::Wrong {
        output::line(format_args!("the sum at the end is not that of the bytes: any value may have been changed"));
    }
    for (number, records) in &salvaged.databases {
        let keys = plural(records.len() as u64, "key", "keys");
        output::line(format_args!("{:<12} {keys}", format!("database {number}")));
    }
    let libraries = match salvaged.functions {
        0 => String::new(),
        count => format!(" and {}", plural(count as u64, "library", "libraries")),
    };
    let keys = plural(salvaged.keys() as u64, "key", "keys");
    let announced = salvaged.announced;
    output::line(format_args!(
        "saved        {keys}{libraries} in {}; {} announces {announced}",
        out.display(),
        file.display()
    ));
}
