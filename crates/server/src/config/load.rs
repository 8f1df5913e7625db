//! Start-up: applies the configuration file, standard input and the command line to the options, in this order.
//!
//! The three are one text, as in Redis, so the last line about an option counts and line numbers go on from one to the next.
//! `include` inserts further files at its place; it may be a pattern. The words of an error are Redis's with this program's
//! name, because scripts look for them. All lines are read, even after one that cannot be used: a start reports the first
//! fault, and a check of the configuration reports all. Called once, by the thread that starts the engine.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use std::os::unix::ffi::OsStrExt;

use sleeve_disk::own;

use super::arguments::Arguments;
use super::file;
use super::file::{BadLine, Directive};
use super::state::Config;
use super::table::{Kind, Opt, find, names};
use super::unsupported;
use super::value::reason;

/// The greatest depth of files that include files; more is taken for a circle.
const INCLUDE_DEPTH_MAX: usize = 16;

/// The greatest size of a configuration file, which is far more than any has.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A directive of Redis that is no option, and for a feature that this server does not have yet.
const UNBUILT: &[u8] = b"loadmodule";

/// The names besides those of options with which a line may begin.
const DIRECTIVES: [&str; 3] = ["include", "user", "rename-command"];

/// The reason why the configuration cannot be used; shown to the operator as it is.
#[derive(Debug)]
pub enum LoadError {
    /// A file that cannot be read, and the system's reason.
    File(PathBuf, String),
    /// Standard input cannot be read.
    StandardInput(String),
    /// A line that cannot be used.
    Line(BadLine),
    /// Options that are valid one by one but not together.
    Whole(String),
}

impl std::error::Error for LoadError {}

impl LoadError {
    /// Returns the fault as one line of text, with the number and the text of its input line, if there is one.
    pub fn fault(&self) -> String {
        match self {
            Self::File(path, reason) => format!("can't open config file '{}': {reason}", path.display()),
            Self::StandardInput(reason) => format!("can't read the configuration from stdin: {reason}"),
            Self::Line(bad) => {
                let text = String::from_utf8_lossy(&bad.text);
                format!("line {}, '{text}': {}", bad.line, bad.reason.replace('\n', ". "))
            }
            Self::Whole(reason) => reason.clone(),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headline = concat!("\n*** FATAL CONFIG FILE ERROR (Sleeve ", env!("CARGO_PKG_VERSION"), ") ***\n");
        match self {
            Self::File(..) | Self::StandardInput(_) => write!(out, "Fatal error, {}", self.fault()),
            Self::Line(bad) => {
                let text = String::from_utf8_lossy(&bad.text);
                write!(
                    out,
                    "{headline}Reading the configuration file, at line {}\n>>> '{text}'\n{}",
                    bad.line, bad.reason
                )
            }
            Self::Whole(reason) => write!(out, "{headline}{reason}"),
        }
    }
}

/// Applies the command line to `config`. Reads `standard_input` only if the command line asks for it. Returns a warning for
/// each line that has no effect here.
///
/// # Errors
/// The first fault; `config` has been given all usable lines.
pub fn load(config: &Config, arguments: &Arguments, standard_input: impl Read) -> Result<Vec<String>, LoadError> {
    let Loaded { warnings, faults } = load_all(config, arguments, standard_input);
    faults.into_iter().next().map_or(Ok(warnings), Err)
}

/// The result of loading a configuration.
#[derive(Debug, Default)]
pub struct Loaded {
    /// A warning for each line that has no effect here.
    pub warnings: Vec<String>,
    /// The faults, in the order in which a start would report them.
    pub faults: Vec<LoadError>,
}

/// Applies the command line as [`load`] does, and returns all faults.
pub fn load_all(config: &Config, arguments: &Arguments, standard_input: impl Read) -> Loaded {
    let mut reading = Reading {
        config,
        warnings: Vec::new(),
        faults: Vec::new(),
        refused: Vec::new(),
        has_save_points: false,
        has_workers: false,
    };
    reading.apply(&arguments.defaults, 0);
    // The first rule for snapshots of what follows replaces those of the defaults.
    reading.has_save_points = false;
    match whole_text(config, arguments, standard_input) {
        Ok(text) => reading.apply(&text, 0),
        Err(error) => reading.faults.push(error),
    }
    reading.count_threads_of_redis();
    let refused = reading.refused.into_iter().map(|(_, bad)| LoadError::Line(bad));
    let contradiction = contradiction(config).map(LoadError::Whole);
    let faults = reading.faults.into_iter().chain(refused).chain(contradiction).collect();
    Loaded { warnings: reading.warnings, faults }
}

/// Returns the reason why the options cannot be used together, if there is one.
fn contradiction(config: &Config) -> Option<String> {
    if !config.flag(Opt::ClusterEnabled) {
        return None;
    }
    if config.is_set(Opt::Replicaof) {
        return Some("replicaof directive not allowed in cluster mode".to_owned());
    }
    bus_port(config).err()
}

/// The distance between the port for clients and the port for the other nodes of a cluster.
const BUS_PORT_OFFSET: i64 = 10_000;

/// Returns the port on which a node of a cluster listens for the other nodes.
///
/// # Errors
/// The option `cluster-port` leaves the choice to the server, and the port for clients is too high for the usual one.
pub fn bus_port(config: &Config) -> Result<u16, String> {
    let own = config.number(Opt::ClusterPort);
    let base = config.number(if config.flag(Opt::TlsCluster) { Opt::TlsPort } else { Opt::Port });
    let port = if own == 0 { base + BUS_PORT_OFFSET } else { own };
    u16::try_from(port).map_err(|_| {
        format!(
            "Port {base} is too high for a node of a cluster, which also listens on a port {BUS_PORT_OFFSET} above it: set \
             'cluster-port', or choose a port up to {}",
            i64::from(u16::MAX) - BUS_PORT_OFFSET
        )
    })
}

/// Returns the configuration file, the standard input and the command line as one text, as far as they are used.
fn whole_text(config: &Config, arguments: &Arguments, mut standard_input: impl Read) -> Result<Vec<u8>, LoadError> {
    let mut text = Vec::new();
    if let Some(file) = &arguments.file {
        let path = Path::new(std::ffi::OsStr::from_bytes(file));
        text = read_file(path)?;
        let absolute = std::path::absolute(path).map_err(|error| LoadError::File(path.into(), reason(&error)))?;
        config.set_file(absolute);
    }
    if arguments.standard_input {
        standard_input.read_to_end(&mut text).map_err(|error| LoadError::StandardInput(reason(&error)))?;
    }
    if !arguments.lines.is_empty() {
        text.push(b'\n');
        text.extend(&arguments.lines);
    }
    Ok(text)
}

/// The reading of one text and of the files that it includes.
struct Reading<'a> {
    config: &'a Config,
    warnings: Vec<String>,
    faults: Vec<LoadError>,
    /// Lines with a value that a fixed option does not take. Such a line is a fault unless a later line about the same option
    /// has a valid value: a distribution's service may add an option after a file that says otherwise.
    refused: Vec<(Opt, BadLine)>,
    /// A line has set rules for snapshots already: the rules of further lines are added to them.
    has_save_points: bool,
    /// A line has set the number of workers.
    has_workers: bool,
}

impl Reading<'_> {
    /// Applies the lines of one text to the options.
    fn apply(&mut self, text: &[u8], depth: usize) {
        for line in file::parse(text) {
            let fault = match line {
                Ok(directive) => self.obey(&directive, depth).err().map(|reason| BadLine {
                    line: directive.line,
                    text: directive.text,
                    reason,
                }),
                Err(bad) => Some(bad),
            };
            self.faults.extend(fault.map(LoadError::Line));
        }
    }

    fn obey(&mut self, directive: &Directive, depth: usize) -> Result<(), String> {
        match included(directive) {
            Some(_) if depth == INCLUDE_DEPTH_MAX => {
                return Err("Too many levels of include; does a file include itself?".into());
            }
            Some(path) => {
                for path in paths(path) {
                    match read_file(&path) {
                        Ok(text) => self.apply(&text, depth + 1),
                        Err(error) => self.faults.push(error),
                    }
                }
            }
            None => self.take(directive)?,
        }
        Ok(())
    }

    /// Sets an option to the words of its line, or decides about a line of an unsupported option.
    fn take(&mut self, directive: &Directive) -> Result<(), String> {
        let Some(name) = directive.words.first() else { return Ok(()) };
        let row = find(name).map(|(row, _)| row);
        let Err(reason) = self.assign(name, &directive.words) else {
            self.refused.retain(|(option, _)| row.is_none_or(|row| row.option != *option));
            return Ok(());
        };
        let text = &directive.text;
        if let Some(why) = unsupported::reason(name) {
            if unsupported::needs_no_warning(&directive.words) {
                return Ok(());
            }
            let shown = String::from_utf8_lossy(text);
            let line = directive.line;
            self.warnings.push(format!("'{shown}', line {line} of the configuration, has no effect: {why}"));
            return Ok(());
        }
        match row.filter(|row| matches!(row.kind, Kind::Fixed(_))) {
            Some(row) => self.refused.push((row.option, BadLine { line: directive.line, text: text.clone(), reason })),
            None => return Err(reason),
        }
        Ok(())
    }
}

/// Giving options their values.
impl Reading<'_> {
    fn assign(&mut self, name: &[u8], words: &[Vec<u8>]) -> Result<(), String> {
        let is_save = name.eq_ignore_ascii_case(Opt::Save.name().as_bytes());
        if is_save && self.has_save_points && words.get(1).is_some_and(|word| !word.is_empty()) {
            let before = self.config.text(Opt::Save).to_vec();
            let known = before.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).map(<[u8]>::to_vec);
            let all: Vec<Vec<u8>> =
                words.iter().take(1).cloned().chain(known).chain(words[1..].iter().cloned()).collect();
            return assign(self.config, &all);
        }
        self.has_save_points |= is_save;
        self.has_workers |= name.eq_ignore_ascii_case(Opt::Workers.name().as_bytes());
        assign(self.config, words)
    }

    /// Takes the threads that a configuration of Redis wants for workers. With `io-threads 1`, which is Redis's default, the
    /// number of workers is that of the cores.
    fn count_threads_of_redis(&mut self) {
        let threads = self.config.number(Opt::IoThreads);
        if threads > 1 && !self.has_workers {
            // The range of workers has that of these threads in it.
            let fault = self.config.assign(Opt::Workers, &[threads.to_string().as_bytes()]).err();
            self.faults.extend(fault.map(LoadError::Whole));
        }
    }
}

fn included(directive: &Directive) -> Option<&[u8]> {
    match directive.words.as_slice() {
        [name, path] if name.eq_ignore_ascii_case(b"include") => Some(path),
        _ => None,
    }
}

/// Applies the words of one line to their option.
fn assign(config: &Config, words: &[Vec<u8>]) -> Result<(), String> {
    let Some((name, values)) = words.split_first() else { return Ok(()) };
    if name.eq_ignore_ascii_case(b"user") && !values.is_empty() {
        return config.add_user(values);
    }
    if let (true, [old, new]) = (name.eq_ignore_ascii_case(b"rename-command"), values) {
        return config.rename_command(old, new);
    }
    let Some((row, _)) = find(name) else {
        if name.eq_ignore_ascii_case(UNBUILT) {
            return Err("This directive is not supported yet: leave the line out, there are no modules".into());
        }
        return Err(unknown(name));
    };
    config.assign(row.option, &values.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Returns the message for a line that begins with an unknown name.
fn unknown(name: &[u8]) -> String {
    let refused = "Bad directive or wrong number of arguments";
    nearest(name).map_or_else(|| refused.to_owned(), |meant| format!("{refused}\nDid you mean '{meant}'?"))
}

/// Returns the known name that may have been meant: the nearest one, if the number of differing letters is small enough, one
/// for names of up to seven letters and one more for each further four. Of two that are equally near the first one counts. If
/// none is near, it is the shortest name that begins with the given one.
fn nearest(name: &[u8]) -> Option<&'static str> {
    let name = std::str::from_utf8(name).ok().filter(|name| name.len() <= NAME_BYTES_MAX)?.to_ascii_lowercase();
    let known = || names().map(|(_, known)| known).chain(DIRECTIVES).chain(unsupported::names());
    let apart = known().map(|known| (strsim::damerau_levenshtein(&name, known), known));
    let (letters, nearest) = apart.min_by_key(|(letters, _)| *letters)?;
    let is_near = letters <= (name.len() / 4).max(1);
    if is_near || name.len() < PREFIX_BYTES_MIN {
        return Some(nearest).filter(|_| is_near && letters != 0);
    }
    known().filter(|known| known.starts_with(&name)).min_by_key(|known| known.len())
}

/// The least length of the beginning of a name: shorter ones begin too many.
const PREFIX_BYTES_MIN: usize = 4;

/// The greatest length of a name that is compared: the comparison takes memory by the square of the length.
const NAME_BYTES_MAX: usize = 64;

fn read_file(path: &Path) -> Result<Vec<u8>, LoadError> {
    own::read_input(path, FILE_BYTES_MAX).map_err(|error| LoadError::File(path.into(), reason(&error)))
}

/// Returns the files that an `include` names: the path itself, or all matches of a pattern, in order, even if there are none.
fn paths(path: &[u8]) -> Vec<PathBuf> {
    let plain = || vec![PathBuf::from(std::ffi::OsStr::from_bytes(path))];
    if !path.iter().any(|byte| b"*?[".contains(byte)) {
        return plain();
    }
    // If the name is not valid text, or no valid pattern, it is taken as the path itself.
    let found = std::str::from_utf8(path).ok().and_then(|pattern| glob::glob(pattern).ok());
    found.map_or_else(plain, |found| found.filter_map(Result::ok).collect())
}
