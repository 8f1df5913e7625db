//! `sleeve cli`: redis-cli's command line, formats and exit codes.
//!
//! From top to bottom: `options` → `modes` (which of them, and the options that belong to it) → here → a mode: `prompt`
//! (commands line by line), `pipe`, `keys` (those that look at all keys), `stat`, `latency` (those that measure time),
//! `replica` (those that ask for a full sync) →
//! `session` (state and printing) → `connection` (a socket, or an engine in this process). `format` prints frames; `help`
//! reads wire's table.

mod cluster_options;
pub mod connection;
pub mod format;
mod help;
mod keys;
mod latency;
mod modes;
pub mod options;
pub mod pipe;
mod prompt;
pub mod replica;
mod session;
mod stat;

use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use sleeve_disk::own;
use sleeve_server::{Config, Engine};

use crate::endpoint::{Endpoint, Login, without_number};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::output;
pub use cluster_options::gather;
use connection::{Connection, Target};
use format::Format;
use keys::census::Measure;
use keys::{Listing, census, hotkeys, scan};
use latency::{intrinsic, spectrum};
use modes::Mode;
pub use modes::typed_options;
use options::{Input, Output, ShellOptions};
use prompt::input;
use session::{Manner, Outcome, Session};

/// The interval between two lines of `--stat`, unless `-i` sets it.
const TIME_OF_STAT: Duration = Duration::from_secs(1);

/// The longest script: no server takes a longer argument.
const SCRIPT_BYTES_MAX: u64 = 512 << 20;

/// Runs the mode that the options name; the exit code is redis-cli's. `typed` says which of them were on the command line.
pub fn run(options: &ShellOptions, typed: &ArgMatches) -> ExitCode {
    match try_run(options, typed) {
        Ok(code) => code,
        Err(text) => {
            output::flush();
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(options: &ShellOptions, typed: &ArgMatches) -> Result<ExitCode, String> {
    let mode = Mode::of(options, io::stdin().is_terminal());
    modes::check(mode, typed)?;
    if let Some(seconds) = options.modes.intrinsic_latency {
        intrinsic::run(seconds, &Interrupt::watch().map_err(|error| error.to_string())?);
        return Ok(ExitCode::SUCCESS);
    }
    let (target, login) = target(options)?;
    let mut manner = manner(options)?;
    manner.announce = matches!(mode, Mode::Prompt | Mode::Lines);
    let mut session = Session::new(target, login, manner);
    match mode {
        Mode::Command | Mode::Eval => {
            let Some(words) = words(options)? else {
                output::line(format_args!("Invalid quoted string"));
                return Ok(ExitCode::FAILURE);
            };
            repeat(&mut session, &words, options)
        }
        Mode::Prompt => {
            prompt::run_interactive(&mut session).map_err(|error| error.to_string()).map(|()| ExitCode::SUCCESS)
        }
        Mode::Lines => prompt::run_plain(&mut session, options.input.exit_error).map_err(|error| error.to_string()),
        _ => observe(&mut session, mode, options),
    }
}

/// Runs a mode that looks at the server or its keys, or transfers data, and ends cleanly on Ctrl-C.
fn observe(session: &mut Session, mode: Mode, options: &ShellOptions) -> Result<ExitCode, String> {
    if !session.connect() {
        return Ok(ExitCode::FAILURE);
    }
    let interrupt = Arc::new(Interrupt::watch().map_err(|error| error.to_string())?);
    session.heed(Arc::clone(&interrupt));
    let done = match mode {
        Mode::Pipe => return Ok(transfer(session, options, &interrupt)),
        Mode::Rdb | Mode::Replica => return act_as_replica(session, options, &interrupt),
        Mode::Stat => stat::run(session, options.input.interval.unwrap_or(TIME_OF_STAT), &interrupt),
        Mode::Latency => latency::run(session, false, options.input.interval, &interrupt),
        Mode::LatencyHistory => latency::run(session, true, options.input.interval, &interrupt),
        Mode::LatencyDist => spectrum::run(session, options.input.interval, &interrupt),
        _ => return walk_through(session, mode, options, &interrupt),
    };
    done.map(|()| ExitCode::SUCCESS).map_err(|error| format!("Error: {}", without_number(&error)))
}

/// Runs a mode that asks for a full sync.
fn act_as_replica(session: &mut Session, options: &ShellOptions, interrupt: &Interrupt) -> Result<ExitCode, String> {
    let Some(connection) = session.connection() else { return Ok(ExitCode::FAILURE) };
    match options.replica.destination() {
        Some((path, functions)) => replica::save(connection, path, functions),
        None => replica::follow(connection, interrupt),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Runs a mode that looks at all keys.
fn walk_through(
    session: &mut Session,
    mode: Mode,
    options: &ShellOptions,
    interrupt: &Interrupt,
) -> Result<ExitCode, String> {
    let pattern = match (&options.modes.pattern, &options.modes.quoted_pattern) {
        (_, Some(quoted)) => Some(input::unquote(quoted.as_bytes()).ok_or("Invalid quoted string")?),
        (plain, None) => plain.as_ref().map(|pattern| pattern.as_bytes().to_vec()),
    };
    let listing = Listing { pattern, count: options.modes.count, pause: options.input.interval.unwrap_or_default() };
    let format = session.manner().format.clone();
    let Some(connection) = session.connection() else { return Ok(ExitCode::FAILURE) };
    let done = match mode {
        Mode::BigKeys => census::run(connection, &listing, Measure::Length, interrupt),
        Mode::MemKeys => census::run(connection, &listing, Measure::Memory(options.modes.memkeys_samples), interrupt),
        Mode::HotKeys => hotkeys::run(connection, &listing, interrupt),
        _ => match scan::run(connection, &listing, &format, interrupt) {
            // A reader of the names has to learn from the exit code that some are missing.
            Ok(false) => return Ok(ExitCode::from(INTERRUPTED)),
            done => done.map(|_| ()),
        },
    };
    done.map(|()| ExitCode::SUCCESS).map_err(|error| format!("Error: {}", without_number(&error)))
}

/// Returns the target of the options: `-u embedded://` starts an engine that lasts as long as the shell.
fn target(options: &ShellOptions) -> Result<(Target, Login), String> {
    if options.address.url.as_deref().is_some_and(|url| url.starts_with("embedded://")) {
        let needs_server = [
            (options.modes.pipe, "--pipe"),
            (options.replica.destination().is_some(), "--rdb"),
            (options.replica.replica, "--replica"),
        ];
        if let Some((_, mode)) = needs_server.iter().find(|(is_asked_for, _)| *is_asked_for) {
            return Err(format!("{mode} needs a server: an embedded engine has no data, and ends with the shell"));
        }
        options.address.check_embedded()?;
        let mut login = options.address.login(options.login.database);
        find_password(options, &mut login)?;
        return Ok((Target::Embedded(Engine::new(Config::default())), login));
    }
    let (endpoint, login) = resolve(options)?;
    Ok((Target::Server(endpoint), login))
}

/// Returns the server of the options, and the login with its password.
fn resolve(options: &ShellOptions) -> Result<(Endpoint, Login), String> {
    let (endpoint, mut login) = options.address.resolve(options.login.database)?;
    find_password(options, &mut login)?;
    Ok((endpoint, login))
}

/// Checks the options of `--cluster`, and returns the way to its nodes: an end point of which only the kind counts, and the
/// login.
pub fn reach(options: &ShellOptions, typed: &ArgMatches) -> Result<(Endpoint, Login), String> {
    modes::check(Mode::Cluster, typed)?;
    resolve(options)
}

/// Takes the password from the terminal or the environment, and warns about one on the command line.
fn find_password(options: &ShellOptions, login: &mut Login) -> Result<(), String> {
    if options.login.askpass {
        login.password = Some(ask_password("Please input password: ").map_err(|error| error.to_string())?);
    } else if login.password.is_some() {
        if !options.login.no_auth_warning {
            eprintln!(
                "Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe."
            );
        }
    } else {
        let of = |name| std::env::var(name).ok();
        login.password = of("REDISCLI_AUTH").or_else(|| of("VALKEYCLI_AUTH"));
    }
    login.check()
}

/// Reads a line from the terminal without showing it.
pub fn ask_password(question: &str) -> io::Result<String> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let input = io::stdin();
    eprint!("{question}");
    io::stderr().flush()?;
    let shown = tcgetattr(&input).ok();
    if let Some(mut hidden) = shown.clone() {
        hidden.local_modes -= LocalModes::ECHO;
        tcsetattr(&input, OptionalActions::Flush, &hidden)?;
    }
    let mut line = String::new();
    let result = input.read_line(&mut line);
    if let Some(shown) = shown {
        tcsetattr(&input, OptionalActions::Flush, &shown)?;
    }
    eprintln!();
    result?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn manner(options: &ShellOptions) -> Result<Manner, String> {
    let terminal = io::stdout().is_terminal();
    let (between, end) = (options.output.between.as_bytes().to_vec(), options.output.end.as_bytes().to_vec());
    let format = match &options.output {
        Output { quoted_json: true, .. } => Format::QuotedJson,
        Output { json: true, .. } => Format::Json,
        Output { csv: true, .. } => Format::Csv,
        Output { no_raw: true, .. } => Format::Standard,
        Output { raw, .. } if *raw || !terminal => Format::Raw { between, end },
        _ => Format::Standard,
    };
    let show_pushes = match options.output.show_pushes.as_deref() {
        None => terminal,
        Some(answer) if answer.starts_with(['y', 'Y']) => true,
        Some(answer) if answer.starts_with(['n', 'N']) => false,
        Some(answer) => return Err(format!("--show-pushes takes yes or no, not '{answer}'")),
    };
    let prefer_resp3 = (options.output.json || options.output.quoted_json) && !options.login.resp2;
    let follow = options.login.follow;
    Ok(Manner { format, show_pushes, exit_error: options.input.exit_error, prefer_resp3, follow, announce: false })
}

/// Returns the command's words, with quotes removed and standard input inserted as the options say; `None` for bad quotes.
fn words(options: &ShellOptions) -> Result<Option<Vec<Vec<u8>>>, String> {
    let mut words = Vec::new();
    for word in &options.command {
        words.push(match options.input.quoted_input {
            true => match input::unquote(word.as_bytes()) {
                Some(word) => word,
                None => return Ok(None),
            },
            false => word.clone().into_vec(),
        });
    }
    insert_input(&mut words, &options.input)?;
    match &options.modes.eval {
        Some(file) => script(file, words).map(Some),
        None => Ok(Some(words)),
    }
}

/// Inserts standard input into the words as `-x` and `-X` say.
pub fn insert_input(words: &mut Vec<Vec<u8>>, input: &Input) -> Result<(), String> {
    if input.last_from_stdin {
        words.push(read_input()?);
    }
    if let Some(tag) = &input.tag_from_stdin {
        let place = words.iter_mut().skip(1).find(|word| word.as_slice() == tag.as_bytes());
        *place.ok_or("Using -X option but stdin tag not match.")? = read_input()?;
    }
    Ok(())
}

/// Returns the EVAL of a file's script. The words before a lone comma are keys, the others arguments.
fn script(file: &Path, words: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, String> {
    let script = own::read_input(file, SCRIPT_BYTES_MAX)
        .map_err(|error| format!("Can't open file '{}': {}", file.display(), without_number(&error)))?;
    let comma = words.iter().position(|word| word == b",");
    let count = comma.unwrap_or(words.len()).to_string().into_bytes();
    let places = words.into_iter().enumerate().filter(|(place, _)| Some(*place) != comma);
    Ok([b"EVAL".to_vec(), script, count].into_iter().chain(places.map(|(_, word)| word)).collect())
}

fn read_input() -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn repeat(session: &mut Session, words: &[Vec<u8>], options: &ShellOptions) -> Result<ExitCode, String> {
    let pause = options.input.interval.unwrap_or_default();
    if session::is_stream(words) {
        // Only Ctrl-C ends these commands, so it is no failure.
        session.heed(Arc::new(Interrupt::watch().map_err(|error| error.to_string())?));
    }
    let mut left = options.input.repeat;
    while left != 0 {
        match session.issue(words) {
            Outcome::Lost => return Ok(ExitCode::FAILURE),
            Outcome::Refused if options.input.exit_error => return Ok(ExitCode::FAILURE),
            Outcome::Interrupted => break,
            _ => {}
        }
        // A negative count never reaches zero.
        left -= i64::from(left > 0);
        if left != 0 && !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn transfer(session: &mut Session, options: &ShellOptions, interrupt: &Interrupt) -> ExitCode {
    let timeout = (options.modes.pipe_timeout > 0).then(|| Duration::from_secs(options.modes.pipe_timeout.into()));
    match session.connection().and_then(|connection| Connection::socket(connection)) {
        Some(socket) => pipe::run(socket, timeout, interrupt),
        None => ExitCode::FAILURE,
    }
}
