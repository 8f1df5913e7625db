//! `cargo xtask counts`: the instructions of the micro-benchmarks, compared with recorded ceilings.
//!
//! `bench/counts` is the program; valgrind's tool callgrind counts, so a busy machine changes nothing. A figure belongs to a
//! compiler and an architecture, which stand in the record. With another compiler or architecture the figures are shown and
//! not judged. A benchmark that takes more than its recorded figure and [`MARGIN`] fails, so that a change that makes a hot
//! path longer has to record it. A benchmark that takes less by [`SLACK`] is named, because its record can be lowered.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::{Count, cargo, is_installed, output_of, target_folder};
use crate::{peers, steps};
use sleeve_tests::server::workspace_root;

/// The share by which a benchmark may exceed its recorded figure: allocators and C libraries differ a little.
const MARGIN: f64 = 0.03;

/// The share below the recorded figure from which on the record is reported as too high.
const SLACK: f64 = 0.05;

/// The record.
const CEILINGS: &str = "bench/counts/ceilings.txt";

/// The name of the profile in which the program is built.
const PROFILE: &str = "counted";

const EXAMPLES: &str = "\
Examples:
  cargo xtask counts             count, and fail where more is taken than is recorded
  cargo xtask counts --record    count, and record what was counted
";

/// The choice between comparing and recording.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Write the counts as the new record
    #[arg(long)]
    record: bool,
}

/// Instructions of one operation, by the name of the benchmark.
type Figures = BTreeMap<String, f64>;

/// The recorded figures, with their compiler and machine.
#[derive(Debug, Default, PartialEq)]
struct Record {
    built_by: String,
    figures: Figures,
}

/// Counts, prints, and compares with the record or writes it.
///
/// # Errors
/// When valgrind is missing or the program does not build; an empty text when a benchmark takes more than it may.
pub fn run(options: &Options) -> Result<(), String> {
    look_for_valgrind()?;
    let counted = Record { built_by: built_by()?, figures: count()? };
    if options.record {
        let path = workspace_root().join(CEILINGS);
        std::fs::write(&path, counted.as_text()).map_err(|error| format!("cannot write {CEILINGS}: {error}"))?;
        println!("{}recorded in {CEILINGS}", counted.as_text());
        return Ok(());
    }
    let count = judge(&counted)?;
    if count.failed == 0 { Ok(()) } else { Err(String::new()) }
}

/// Counts and compares, as a step of all tests.
///
/// # Errors
/// The errors of [`run`], except benchmarks over their ceiling: these are counted as failed.
pub fn check() -> Result<Count, String> {
    if let Err(reason) = look_for_valgrind() {
        println!("skipped: {reason}");
        return Ok(Count { skipped: 1, ..Count::default() });
    }
    judge(&Record { built_by: built_by()?, figures: count()? })
}

fn look_for_valgrind() -> Result<(), String> {
    if is_installed("valgrind") { Ok(()) } else { peers::apt_get_install(&["valgrind"]) }
}

/// Compares with the record, and prints the findings.
fn judge(counted: &Record) -> Result<Count, String> {
    let text = std::fs::read_to_string(workspace_root().join(CEILINGS));
    let record = Record::parse(&text.map_err(|error| format!("cannot read {CEILINGS}: {error}"))?)?;
    if record.built_by != counted.built_by {
        print!("{}", counted.as_text());
        println!("skipped: {CEILINGS} is for {}, and this is {}", record.built_by, counted.built_by);
        return Ok(Count { skipped: counted.figures.len(), ..Count::default() });
    }
    let findings = findings(&record.figures, &counted.figures);
    findings.iter().for_each(|finding| println!("{}", finding.text));
    let failed = findings.iter().filter(|finding| finding.fails).count();
    println!("    {} benchmarks, {failed} beyond what is recorded in {CEILINGS}", counted.figures.len());
    if !findings.is_empty() {
        println!("    what is meant to be so is recorded with: cargo xtask counts --record");
    }
    Ok(Count { passed: counted.figures.len().saturating_sub(failed), failed, ..Count::default() })
}

/// The result of one benchmark.
#[derive(Debug, PartialEq)]
struct Finding {
    fails: bool,
    text: String,
}

fn findings(recorded: &Figures, counted: &Figures) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, &now) in counted {
        let Some(&before) = recorded.get(name) else {
            found
                .push(Finding { fails: true, text: format!("{name}: {now:.1} instructions, and nothing is recorded") });
            continue;
        };
        let change = now / before - 1.0;
        let told = format!("{name}: {now:.1} instructions, recorded are {before:.1}: {:+.1} %", change * 100.0);
        if change > MARGIN {
            found.push(Finding { fails: true, text: format!("{told}, at most {:+.0} % are allowed", MARGIN * 100.0) });
        } else if change < -SLACK {
            found.push(Finding { fails: false, text: format!("{told}, the record can be lowered") });
        }
    }
    for name in recorded.keys().filter(|name| !counted.contains_key(*name)) {
        found.push(Finding { fails: true, text: format!("{name} is recorded, and there is no such benchmark") });
    }
    found
}

impl Record {
    /// Reads a line for the compiler, and one for each benchmark. A line that begins with `#` is a comment.
    fn parse(text: &str) -> Result<Self, String> {
        let mut record = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let malformed = || format!("{CEILINGS} has a line that says nothing: {line}");
            let (name, figure) = line.split_once(' ').ok_or_else(malformed)?;
            match name {
                "built-by" => record.built_by = figure.to_owned(),
                _ => _ = record.figures.insert(name.to_owned(), figure.trim().parse().map_err(|_| malformed())?),
            }
        }
        Ok(record)
    }

    fn as_text(&self) -> String {
        let mut text = "# Instructions an operation, written by `cargo xtask counts --record`.\n".to_owned();
        text += &format!("built-by {}\n", self.built_by);
        self.figures.iter().for_each(|(name, figure)| text += &format!("{name:<24} {figure:>8.1}\n"));
        text
    }
}

/// Returns the compiler and the properties of the machine on which the counts depend: valgrind shows programs a processor of
/// at most this kind, and libraries choose their code by it.
fn built_by() -> Result<String, String> {
    let version =
        output_of(Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("--version"))?;
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let vectors = if processor.split_whitespace().any(|flag| flag == "avx2") { " with avx2" } else { "" };
    Ok(format!("{} for {}{vectors}", version.trim(), std::env::consts::ARCH))
}

/// Builds the program, runs it under callgrind, and reads the counts.
fn count() -> Result<Figures, String> {
    steps::run(cargo().args(["build", "--quiet", "--package", "sleeve-counts", "--profile", PROFILE]))?;
    let target = target_folder()?;
    let folder = target.join("counts");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let dumps = folder.join("callgrind.out");
    let names = output_of(&mut callgrind(&dumps, &target.join(PROFILE).join("counts")))?;
    let mut figures = Figures::new();
    for (index, line) in names.lines().enumerate() {
        let (name, operations) = line.split_once(' ').ok_or_else(|| format!("the program printed {line}"))?;
        let operations: f64 = operations.parse().map_err(|_| format!("the program printed {line}"))?;
        let path = dumps.with_extension(format!("out.{}", index + 1));
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| format!("callgrind did not write {}: {error}", path.display()))?;
        let total = total(&text).ok_or_else(|| format!("callgrind counted nothing for {name}"))?;
        figures.insert(name.to_owned(), total / operations);
    }
    Ok(figures)
}

/// Returns the command that counts while the program is in its function `counted`, and writes the count when it leaves
/// `finished`.
fn callgrind(dumps: &Path, program: &PathBuf) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--vgdb=no", "--quiet", "--toggle-collect=counts::counting::counted"]);
    command.args(["--dump-after=counts::counting::finished", &format!("--callgrind-out-file={}", dumps.display())]);
    command.arg(program).current_dir(workspace_root());
    command
}

/// Returns the instructions of one file of callgrind's.
fn total(dump: &str) -> Option<f64> {
    let line = dump.lines().find_map(|line| line.strip_prefix("summary: "))?;
    line.trim().parse().ok().filter(|total| *total > 0.0)
}

#[cfg(test)]
mod tests {
    use super::{Figures, Record, findings, total};

    fn figures(pairs: &[(&str, f64)]) -> Figures {
        pairs.iter().map(|&(name, figure)| (name.to_owned(), figure)).collect()
    }

    #[test]
    fn more_than_the_margin_fails_and_much_less_is_said() {
        let recorded = figures(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0), ("gone", 1.0)]);
        let counted = figures(&[("a", 102.9), ("b", 103.1), ("c", 95.1), ("d", 94.0), ("new", 7.0)]);
        let told: Vec<(bool, String)> =
            findings(&recorded, &counted).into_iter().map(|finding| (finding.fails, finding.text)).collect();
        let expected = [
            (true, "b: 103.1 instructions, recorded are 100.0: +3.1 %, at most +3 % are allowed"),
            (false, "d: 94.0 instructions, recorded are 100.0: -6.0 %, the record can be lowered"),
            (true, "new: 7.0 instructions, and nothing is recorded"),
            (true, "gone is recorded, and there is no such benchmark"),
        ];
        assert_eq!(told, expected.map(|(fails, text)| (fails, text.to_owned())));
        assert_eq!(findings(&recorded, &recorded), []);
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record =
            Record { built_by: "rustc 1.95.0 for x86_64".to_owned(), figures: figures(&[("parse/get", 191.3)]) };
        assert_eq!(Record::parse(&record.as_text()), Ok(record));
        assert!(Record::parse("parse/get many").is_err());
        assert!(Record::parse("alone").is_err());
    }

    #[test]
    fn a_dump_tells_its_total() {
        assert_eq!(total("version: 1\nsummary: 1801573\n\ntotals: 1801573\n"), Some(1_801_573.0));
        assert_eq!(total("summary: 0\n"), None, "nothing was counted: the function was not found");
        assert_eq!(total(""), None);
    }
}
