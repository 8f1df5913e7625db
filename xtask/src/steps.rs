//! Running programs step by step: a line before, a line after, and a count at the end.
//!
//! A step that fails does not stop the next one, so that one run shows everything that is wrong.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use sleeve_tests::server::workspace_root;

/// The number of checks by their outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
    /// The messages of failed tests, as far as they were found in the output, or the reason why a step failed as a whole.
    pub said: Vec<String>,
}

/// The lines of a step's reason that are repeated at the end.
const REPEATED_LINES_MAX: usize = 20;

/// A run of steps.
#[derive(Debug, Default)]
pub struct Steps {
    total: Count,
    done: usize,
    failures: Vec<String>,
}

impl Steps {
    /// Runs one step that counts for itself.
    pub fn step(&mut self, name: &str, work: impl FnOnce() -> Result<Count, String>) {
        self.done += 1;
        println!("==> {}. {name}", self.done);
        let started = Instant::now();
        let count = work().unwrap_or_else(|reason| {
            println!("{reason}");
            Count { failed: 1, said: last_lines(&reason), ..Count::default() }
        });
        println!("    {}: {}, {:.1} s", name, describe(&count), started.elapsed().as_secs_f64());
        if count.failed > 0 {
            self.failures.push(name.to_owned());
            self.total.said.extend(count.said);
        }
        self.total.passed += count.passed;
        self.total.failed += count.failed;
        self.total.skipped += count.skipped;
    }

    /// Runs one step that either passes or fails.
    pub fn check(&mut self, name: &str, work: impl FnOnce() -> Result<(), String>) {
        self.step(name, || work().map(|()| Count { passed: 1, ..Count::default() }));
    }

    /// Prints the failures and their reasons once more, because the end of a long log may be the only part that is read, and
    /// the closing line.
    ///
    /// # Errors
    /// An empty text (everything is printed already) when a step failed.
    pub fn close(self) -> Result<(), String> {
        for words in &self.total.said {
            println!("{words}");
        }
        for name in &self.failures {
            println!("failed: {name}");
        }
        println!("{}", describe(&self.total));
        let _ = std::io::stdout().flush();
        if self.total.failed == 0 { Ok(()) } else { Err(String::new()) }
    }
}

/// Returns the end of a reason: a few lines that are worth repeating behind a long log.
fn last_lines(reason: &str) -> Vec<String> {
    let lines: Vec<&str> = reason.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(REPEATED_LINES_MAX)..].iter().map(|line| (*line).to_owned()).collect()
}

fn describe(count: &Count) -> String {
    let skipped = if count.skipped > 0 { format!(", {} skipped", count.skipped) } else { String::new() };
    format!("{} passed, {} failed{skipped}", count.passed, count.failed)
}

/// Returns the cargo that runs this chore.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace_root());
    command
}

/// Runs a program to its end with its output on the terminal.
///
/// # Errors
/// When it cannot be started or ends with a failure.
pub fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run {}: {error}", name_of(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", name_of(command))) }
}

/// Runs a program to its end and returns its output.
///
/// # Errors
/// As [`run`], with everything that it printed as errors.
pub fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", name_of(command)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    Err(format!("{} ended with {}\n{}", name_of(command), output.status, printed.trim_end()))
}

/// Runs `cargo test …`, shows its output and adds up its `test result:` lines.
///
/// # Errors
/// When it ends with a failure that no test explains, such as code that does not compile.
pub fn run_tests(command: &mut Command) -> Result<Count, String> {
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("cannot run {}: {error}", name_of(command)))?;
    let mut count = Count::default();
    // The message of the panic is the next line that is not empty.
    let mut is_panic = false;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line.map_err(|error| error.to_string())?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            let begins_panic = line.starts_with("thread '") && line.contains(" panicked at ");
            if (begins_panic || is_panic) && !line.trim().is_empty() {
                count.said.push(line.trim().to_owned());
                is_panic = false;
            }
            is_panic |= begins_panic;
            if let Some(result) = line.trim().strip_prefix("test result: ") {
                count.passed += counted(result, "passed");
                count.failed += counted(result, "failed");
                count.skipped += counted(result, "ignored");
            }
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() && count.failed == 0 {
        return Err(format!("cargo test ended with {status}"));
    }
    Ok(count)
}

/// Returns the number before a word, as in `ok. 3 passed; 1 failed`.
fn counted(result: &str, word: &str) -> usize {
    let words: Vec<&str> = result.split([' ', ';']).filter(|word| !word.is_empty()).collect();
    let place = words.iter().position(|candidate| *candidate == word);
    place.and_then(|place| words.get(place.checked_sub(1)?)?.parse().ok()).unwrap_or(0)
}

/// Returns the folder of cargo's build output.
///
/// # Errors
/// When cargo does not say.
pub fn target_folder() -> Result<PathBuf, String> {
    let text = output_of(cargo().args(["metadata", "--format-version", "1", "--no-deps", "--offline"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    metadata["target_directory"].as_str().map(PathBuf::from).ok_or_else(|| "cargo names no target folder".into())
}

/// Builds the binary `sleeve` in a profile and returns its path.
///
/// # Errors
/// When it does not compile.
pub fn build_sleeve(profile: &str) -> Result<PathBuf, String> {
    run(cargo().args(["build", "--package", "sleeve-cli", "--profile", profile]))?;
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(target_folder()?.join(folder).join("sleeve"))
}

/// Returns whether a program of this name is on `PATH`.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn name_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(OsStr::to_string_lossy).map(|word| word.into_owned()).collect();
    // The program's folder is left out: it is of no interest, and would name a machine.
    let program = words[0].rsplit('/').next().unwrap_or_default().to_owned();
    [&[program], &words[1..]].concat().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{Count, Steps, counted, describe, last_lines};

    #[test]
    fn test_results_are_counted() {
        let result = "FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        assert_eq!(counted(result, "passed"), 12);
        assert_eq!(counted(result, "failed"), 3);
        assert_eq!(counted(result, "ignored"), 1);
        assert_eq!(counted("ok.", "passed"), 0);
    }

    #[test]
    fn the_reason_of_a_failed_check_is_repeated_at_the_end() {
        let mut steps = Steps::default();
        steps.check("the machine", || Err("changed:\n\n  a file".to_owned()));
        assert_eq!(steps.total.said, ["changed:", "  a file"]);
        assert_eq!(last_lines(&"x\n".repeat(30)).len(), 20);
    }

    #[test]
    fn the_closing_line_is_plain() {
        assert_eq!(describe(&Count { passed: 4, failed: 1, ..Count::default() }), "4 passed, 1 failed");
        assert_eq!(describe(&Count { passed: 4, skipped: 2, ..Count::default() }), "4 passed, 0 failed, 2 skipped");
    }
}
