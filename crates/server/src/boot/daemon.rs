//! The option `daemonize`: the server goes to the background.
//!
//! The process that the user started checks the configuration, starts the same program with the same command line in a
//! session of its own, and ends with its outcome: status 0 once the sockets are open, status 1 with the new process's log, or
//! the last line of its log file, if it ends before that. Redis forks instead, and its user learns of a port in use only from
//! the log file. A new process needs no fork of a process that may have threads.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use sleeve_disk::own;

use super::systemd;
use crate::config::{Config, Opt, value};

/// The variable of the environment that tells the new process that it is the one in the background.
const MARK: &str = "SLEEVE_IN_BACKGROUND";

/// The byte that the new process writes to its standard output as the last one: its sockets are open.
const IS_UP: u8 = 0;

/// Returns whether the server runs in the background: the option says so, and no supervisor waits for the process.
pub(super) fn is_wanted(config: &Config) -> bool {
    config.flag(Opt::Daemonize) && !systemd::is_supervised(config)
}

/// Starts this program again in the background, and waits until its sockets are open. Returns false in that new process, or
/// if the options want none. `input` is the part of the configuration that came from standard input.
///
/// # Errors
/// The log of a new process that has ended before its sockets were open, or the error of the system if it could not be
/// started.
pub(super) fn detach(config: &Config, input: &[u8]) -> Result<bool, String> {
    if !is_wanted(config) {
        return Ok(false);
    }
    if is_in_background() {
        // The process leads no group, so it can have a session of its own, which no terminal's signals reach.
        _ = rustix::process::setsid();
        return Ok(false);
    }
    let log = start(input).map_err(|error| format!("The server cannot go to the background: {error}"))?;
    match log.last() {
        Some(&IS_UP) => Ok(true),
        _ => Err(format!("The server in the background has ended:\n{}", reason(config, &log))),
    }
}

/// Returns the reason for which the new process has ended: its output, or what its log file says.
fn reason(config: &Config, output: &[u8]) -> String {
    let name = config.text(Opt::Logfile);
    let output = String::from_utf8_lossy(output).trim_end().to_owned();
    if !output.is_empty() || name.is_empty() {
        return output;
    }
    let path = config.resolve(&name);
    match last_line(&path) {
        Ok(line) => format!("the last line of its log '{}' is:\n{line}", path.display()),
        Err(error) => format!("its log '{}' cannot be read: {}", path.display(), value::reason(&error)),
    }
}

/// Returns the last line of a file.
fn last_line(path: &Path) -> io::Result<String> {
    let mut file = own::open(path, OpenOptions::new().read(true))?;
    let begin = file.metadata()?.len().saturating_sub(LAST_LINE_BYTES_MAX);
    file.seek(SeekFrom::Start(begin))?;
    let mut end = Vec::new();
    file.take(LAST_LINE_BYTES_MAX).read_to_end(&mut end)?;
    Ok(String::from_utf8_lossy(end.trim_ascii_end()).lines().next_back().unwrap_or_default().to_owned())
}

/// The most bytes at the end of a log file that are read for its last line.
const LAST_LINE_BYTES_MAX: u64 = 4_096;

/// Starts this program again, and returns its output until its sockets are open or it ends.
fn start(input: &[u8]) -> io::Result<Vec<u8>> {
    let mut words = env::args_os();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(words.next().unwrap_or_default()).args(words).env(MARK, "1");
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    let mut process = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    if let Some(mut pipe) = process.stdin.take() {
        pipe.write_all(input)?;
    }
    let mut log = Vec::new();
    if let Some(mut output) = process.stdout.take() {
        output.read_to_end(&mut log)?;
    }
    Ok(log)
}

/// Lets the process that waits for the sockets of this one end; from now on nothing is written to standard output.
///
/// # Errors
/// The error of the system for the null device.
pub(super) fn report_up(config: &Config) -> io::Result<()> {
    if !is_wanted(config) || !is_in_background() {
        return Ok(());
    }
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    // The reader may have been ended meanwhile.
    _ = io::stdout().write_all(&[IS_UP]).and_then(|()| io::stdout().flush());
    rustix::stdio::dup2_stdout(nowhere)?;
    Ok(())
}

fn is_in_background() -> bool {
    env::var_os(MARK).is_some()
}

/// Standard input with its bytes kept, for the process in the background to read them again.
#[derive(Debug)]
pub(super) struct KeptInput<R> {
    input: R,
    /// The bytes that have been read.
    pub kept: Vec<u8>,
}

impl<R: Read> KeptInput<R> {
    /// Returns a reader of `input` that keeps the bytes.
    pub fn new(input: R) -> Self {
        Self { input, kept: Vec::new() }
    }
}

impl<R: Read> Read for KeptInput<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(into)?;
        self.kept.extend_from_slice(into.get(..length).unwrap_or_default());
        Ok(length)
    }
}
