//! `redis-tests`: writes `docs/redis-tests.md`, the list of Redis's own tests that Sleeve does not pass, from the results of
//! a run of them.
//!
//! A result is a JSON document with an object `files`: for each file of Redis's suite the names of the tests that passed
//! (`passing`). One document is that of Sleeve, the other that of a real Redis; only tests that the real Redis passes are
//! expected. The reason for each test that does not pass is a line of `docs/redis-tests.tsv`: file, test, reason, with tabs
//! between. The chore fails if a test has no reason, or if a reason belongs to a test that passes, so neither goes stale.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sleeve_tests::server::workspace_root;

/// The words of the command line.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Results of a real Redis (JSON)
    #[arg(long, required = true, value_name = "file")]
    pub reference: Vec<PathBuf>,
    /// Results of Sleeve (JSON); several files count as one run
    #[arg(required = true, value_name = "file")]
    pub results: Vec<PathBuf>,
}

/// The reason of a test without a line in the table.
const UNEXPLAINED: &str = "not explained yet";

/// The number of times that each test of each file passed.
type Passed = BTreeMap<String, BTreeMap<String, u64>>;

/// The reasons, by file and test.
type Reasons = BTreeMap<(String, String), String>;

/// Compares the results and writes the document.
pub fn run(options: &Options) -> Result<(), String> {
    let docs = workspace_root().join("docs");
    let reasons_path = docs.join("redis-tests.tsv");
    let reasons = parse_reasons(&text_of(&reasons_path)?)?;
    let mut report = Report::new(&passed_in(&options.reference)?, &passed_in(&options.results)?);
    let faults = report.explain(&reasons);
    let target = docs.join("redis-tests.md");
    fs::write(&target, report.page()).map_err(|error| format!("docs/redis-tests.md: {error}"))?;
    println!("docs/redis-tests.md: {} of {} tests pass", report.passed(), report.expected());
    if faults.is_empty() { Ok(()) } else { Err(format!("docs/redis-tests.tsv:\n{}", faults.join("\n"))) }
}

fn text_of(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads results; a test counts as often as it passed in the document in which it passed most often.
fn passed_in(paths: &[PathBuf]) -> Result<Passed, String> {
    let mut passed = Passed::new();
    for path in paths {
        let document: Value =
            serde_json::from_str(&text_of(path)?).map_err(|error| format!("{}: {error}", path.display()))?;
        let files = document["files"].as_object().ok_or_else(|| format!("{}: it has no \"files\"", path.display()))?;
        for (file, result) in files {
            let mut counts = BTreeMap::<String, u64>::new();
            for name in result["passing"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                *counts.entry(name.to_owned()).or_default() += 1;
            }
            let known = passed.entry(file.clone()).or_default();
            for (name, count) in counts {
                let most = known.entry(name).or_default();
                *most = count.max(*most);
            }
        }
    }
    Ok(passed)
}

/// Reads lines of file, test and reason. Empty lines and lines that begin with `#` are skipped.
fn parse_reasons(text: &str) -> Result<Reasons, String> {
    let mut reasons = Reasons::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let parts: Vec<&str> = line.split('\t').collect();
        let [file, test, reason] = parts[..] else {
            return Err(format!("docs/redis-tests.tsv, line {}: not a file, a test and a reason", number + 1));
        };
        reasons.insert((file.to_owned(), test.to_owned()), reason.to_owned());
    }
    Ok(reasons)
}

/// The comparison of two runs.
#[derive(Debug, Default)]
struct Report {
    files: Vec<FileReport>,
}

/// A file of the suite.
#[derive(Debug)]
struct FileReport {
    name: String,
    expected: u64,
    passed: u64,
    missing: Vec<MissingTest>,
}

/// A test that a real Redis passes and Sleeve does not.
#[derive(Debug)]
struct MissingTest {
    name: String,
    reason: String,
}

impl Report {
    /// Compares the results of Sleeve with those of a real Redis. Files that Sleeve's run left out are left out here too.
    fn new(reference: &Passed, results: &Passed) -> Self {
        let mut files = Vec::new();
        for (name, expected) in reference {
            let Some(passed) = results.get(name) else { continue };
            let hits = |test: &String, count: u64| passed.get(test).copied().unwrap_or_default().min(count);
            let missing = expected.iter().filter(|(test, count)| hits(test, **count) < **count);
            files.push(FileReport {
                name: name.clone(),
                expected: expected.values().sum(),
                passed: expected.iter().map(|(test, count)| hits(test, *count)).sum(),
                missing: missing
                    .map(|(test, _)| MissingTest { name: test.clone(), reason: UNEXPLAINED.to_owned() })
                    .collect(),
            });
        }
        Self { files }
    }

    fn expected(&self) -> u64 {
        self.files.iter().map(|file| file.expected).sum()
    }

    fn passed(&self) -> u64 {
        self.files.iter().map(|file| file.passed).sum()
    }

    /// Adds the reasons. Returns a line for each test without a reason and for each reason without such a test.
    fn explain(&mut self, reasons: &Reasons) -> Vec<String> {
        let mut unused: Reasons = reasons.clone();
        let mut faults = Vec::new();
        for file in &mut self.files {
            for test in &mut file.missing {
                match unused.remove(&(file.name.clone(), test.name.clone())) {
                    Some(reason) => test.reason = reason,
                    None => faults.push(format!("{}\t{}\tthe reason is missing", file.name, test.name)),
                }
            }
        }
        let was_run = |file: &str| self.files.iter().any(|report| report.name == file);
        let stale = unused.keys().filter(|(file, _)| was_run(file));
        faults.extend(stale.map(|(file, test)| format!("{file}\t{test}\tit passes: remove the line")));
        faults
    }

    /// Returns the document.
    fn page(&self) -> String {
        let mut page = format!(
            "# Redis's own tests\n\n\
             The Tcl suite of Redis 7.0.15, run against Sleeve in place of redis-server: {} of the {} tests that a real\n\
             Redis 7.0.15 passes. `cargo xtask redis-tests` writes this page from the results of a run; the reasons stand in\n\
             [redis-tests.tsv](redis-tests.tsv).\n\n\
             | file | passed | of |\n| --- | ---: | ---: |\n",
            self.passed(),
            self.expected()
        );
        for file in &self.files {
            let _ = writeln!(page, "| {} | {} | {} |", file.name, file.passed, file.expected);
        }
        if self.files.iter().any(|file| !file.missing.is_empty()) {
            page += "\n## Tests that do not pass\n\n| file | test | reason |\n| --- | --- | --- |\n";
        }
        for file in &self.files {
            for test in &file.missing {
                let _ = writeln!(page, "| {} | {} | {} |", file.name, cell(&test.name), cell(&test.reason));
            }
        }
        page
    }
}

/// Returns a text as a cell of a table.
fn cell(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "\\<")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(rows: &[(&str, &str, u64)]) -> Passed {
        let mut passed = Passed::new();
        for (file, test, count) in rows {
            passed.entry((*file).to_owned()).or_default().insert((*test).to_owned(), *count);
        }
        passed
    }

    #[test]
    fn missing_tests_are_listed_with_their_reasons() {
        let reference = passed(&[("unit/a", "one", 1), ("unit/a", "two|x", 2), ("unit/b", "three", 1)]);
        let mut report = Report::new(&reference, &passed(&[("unit/a", "one", 1), ("unit/a", "two|x", 1)]));
        assert_eq!((report.passed(), report.expected()), (2, 3), "a file that was not run is left out");
        let reasons = parse_reasons("# file\n\nunit/a\ttwo|x\tno fork\n").unwrap();
        assert_eq!(report.explain(&reasons), Vec::<String>::new());
        assert!(
            report.page().contains("| unit/a | 2 | 3 |") && report.page().contains("| unit/a | two\\|x | no fork |")
        );
    }

    #[test]
    fn missing_and_stale_reasons_are_faults() {
        let mut report = Report::new(&passed(&[("f", "a", 1), ("f", "b", 1)]), &passed(&[("f", "a", 1)]));
        let reasons = parse_reasons("f\ta\told\ng\tc\tof a file that was not run").unwrap();
        assert_eq!(report.explain(&reasons), ["f\tb\tthe reason is missing", "f\ta\tit passes: remove the line"]);
        assert!(parse_reasons("f a").is_err());
    }
}
