//! `sleeve check aof`: reads an AOF as a server that loads it would. It reports the contents, or the byte at which the AOF is
//! damaged, the cost of the damage, and the remedy. Nothing is changed without `--fix`, which keeps the bytes that it cuts
//! off under another name.

mod cost;
mod findings;
mod tool;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use sleeve_disk::aof;
use sleeve_disk::disk::Disk;
use sleeve_disk::disk::real::RealDisk;
use sleeve_disk::replay::Cut;

use crate::output;
use cost::Cost;
use findings::{Findings, Trouble};

pub use tool::run_words;

const EXAMPLES: &str = "\
MANIFEST names all files of a log; a single file of one, or the single file that servers before Redis 7 wrote, can be
named too. The status is 0 if all is whole, and 1 if it is not.

Examples:
  sleeve check aof appendonlydir/appendonly.aof.manifest
  sleeve check aof --fix appendonlydir/appendonly.aof.manifest
  sleeve check aof --truncate-to-timestamp 1700000000 --fix appendonlydir/appendonly.aof.manifest
";

/// Reads an append-only file and reports its contents, or the fault, its place and its cost
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckAofOptions {
    /// Cut off bytes that cannot be read, or are not wanted, and keep them under another name
    #[arg(long)]
    fix: bool,
    /// Take commands that were written after this time, in seconds since 1970, as not wanted (needs aof-timestamp-enabled)
    #[arg(long, value_name = "SECONDS")]
    truncate_to_timestamp: Option<i64>,
    /// The manifest, or a file
    #[arg(value_name = "MANIFEST|FILE")]
    file: PathBuf,
}

/// Runs the check with these options.
pub fn run(options: &CheckAofOptions) -> ExitCode {
    match report(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            output::flush();
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the findings and makes the requested repairs; returns whether the AOF is whole then.
fn report(options: &CheckAofOptions) -> Result<bool, String> {
    let lock = if options.fix { lock(&options.file)? } else { None };
    let mut findings = findings::read(&options.file, options.truncate_to_timestamp)?;
    print(&findings);
    let cut = match findings.trouble.take() {
        None => {
            output::line(format_args!("{} is whole: {} bytes", options.file.display(), findings.bytes()));
            return Ok(true);
        }
        Some(Trouble::Fatal(what)) => return Err(what),
        Some(Trouble::Unwanted(cut)) => {
            output::line(format_args!("{}, byte {}: what follows is later than was asked for", cut.file, cut.at));
            cut
        }
        Some(Trouble::Damaged(cut)) => {
            if let Some(damage) = &cut.damage {
                output::line(format_args!("{}, byte {}: {}", damage.file, damage.at, damage.what));
            }
            cut
        }
    };
    let folder = &findings.place.folder;
    output::line(format_args!("{}", Cost::of(folder, &cut)?));
    if !options.fix {
        output::line(format_args!("Nothing was changed. To cut that off and keep it under another name, add --fix."));
        return Ok(false);
    }
    mend(&findings, &cut)?;
    drop(lock);
    let again = findings::read(&options.file, options.truncate_to_timestamp)?;
    match again.trouble {
        None => Ok(true),
        Some(_) => Err("The rest is damaged too: check it again".to_owned()),
    }
}

fn print(findings: &Findings) {
    for told in &findings.told {
        output::line(format_args!("warning: {told}"));
    }
    for file in &findings.files {
        output::line(format_args!("{file}"));
    }
}

/// Returns the lock that a server of this log would hold.
fn lock(file: &Path) -> Result<Option<Box<dyn sleeve_disk::disk::Lock>>, String> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(name) = name.strip_suffix(".manifest") else { return Ok(None) };
    let lock = RealDisk.lock(&file.with_file_name(format!("{name}.lock")), std::process::id());
    lock.map(Some).map_err(|error| format!("a server uses the log: {error}. Stop it first; nothing was changed"))
}

fn mend(findings: &Findings, cut: &Cut) -> Result<(), String> {
    let place = &findings.place;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let kept = aof::repair(&disk, &place.folder, place.options.as_ref(), &place.manifest, cut)
        .map_err(|error| format!("cannot mend it: {error}. What was there is there"))?;
    for path in kept {
        output::line(format_args!("kept         {}", path.display()));
    }
    output::line(format_args!("cut off      {} at byte {}", cut.file, cut.at));
    Ok(())
}
