//! Writes a real server's replies into transcripts.
//!
//! Only the replies of steps that were played are replaced. A pattern that does not fit the real reply is a mistake in the
//! transcript and is reported, not recorded. One thread records.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::escape::escape;
use super::play::{Target, run_case, settled};
use super::script::Script;

/// Returns the transcripts in `folder`, by name.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    Ok(files)
}

/// Reads the transcript at `path`; the error names the file and the line.
pub fn read(path: &Path) -> io::Result<Script> {
    let text = fs::read_to_string(path)?;
    Script::parse(&text).map_err(|fault| io::Error::other(format!("{}: {fault}", path.display())))
}

/// Records the replies of `target` for every case of `script` that it plays, and lists the faults.
pub fn record(script: &mut Script, target: &Target) -> Vec<String> {
    let mut faults = Vec::new();
    for case in script.cases.iter_mut().filter(|case| target.plays(&case.options)) {
        for step in &mut case.steps {
            step.expected = [Vec::new(), Vec::new()];
        }
        for protocol in case.options.protocols.clone() {
            let outcomes = run_case(case, protocol, target.address);
            let name = case.name.clone();
            for (step, outcome) in case.steps.iter_mut().zip(outcomes) {
                let place = format!("line {} ({name}, RESP{protocol}): {}", step.line, step.source());
                match outcome {
                    Err(error) => faults.push(format!("{place}: {error}")),
                    Ok(replies) => {
                        let replies = settled(step, &replies);
                        let Some(pattern) = &step.pattern else {
                            if step.capture.is_none() {
                                step.set_expected(protocol, &replies);
                            }
                            continue;
                        };
                        if !pattern.matches(&replies.concat()) {
                            faults.push(format!("{place}: the pattern does not fit {}", escape(&replies.concat())));
                        }
                    }
                }
            }
        }
        if let [only] = case.options.protocols[..] {
            // The case has one protocol only; its replies are written with the plain mark.
            for step in &mut case.steps {
                step.expected[usize::from(only == 2)] = step.expected[usize::from(only == 3)].clone();
            }
        }
    }
    faults
}
