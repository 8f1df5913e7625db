//! `sleeve cli`: redis-cli's command line, formats and exit codes.
//!
//! From top to bottom: `options` → here (which of the modes) → `repl`, `pipe`, `scan` → `session` (state and printing) →
//! `connection` (`embedded` for an engine in this process); `format`, `json` and `text` print frames, `editor` and `help` read wire's table, `input` splits lines.

mod connection;
mod editor;
mod embedded;
mod format;
mod help;
mod input;
mod json;
pub mod options;
mod pipe;
mod repl;
mod scan;
mod session;
mod text;

use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;
use std::time::Duration;

use sleeve_server::{Config, Engine};

use crate::endpoint::{Login, without_number};
use crate::output;
use connection::Target;
use format::Format;
use options::Options;
use session::{Manner, Outcome, Session};

/// Does what the options ask for; the exit code is redis-cli's.
pub fn run(options: &Options) -> ExitCode {
    match try_run(options) {
        Ok(code) => code,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(options: &Options) -> Result<ExitCode, String> {
    let (target, mut login) = target(options)?;
    find_password(options, &mut login)?;
    let mut session = Session::new(target, login, manner(options)?);
    if options.pipe {
        return Ok(transfer(&mut session, options));
    }
    if options.scan {
        return list(&mut session, options);
    }
    if options.command.is_empty() {
        return interact(&mut session);
    }
    let Some(words) = words(options)? else {
        output::line(format_args!("Invalid quoted string"));
        return Ok(ExitCode::FAILURE);
    };
    Ok(repeat(&mut session, &words, options))
}

/// Where the options lead: `-u embedded://` starts an engine that lasts as long as the shell.
fn target(options: &Options) -> Result<(Target, Login), String> {
    if options.address.url.as_deref().is_some_and(|url| url.starts_with("embedded://")) {
        if options.pipe {
            return Err("--pipe needs a server: an embedded engine would be gone with its data".to_owned());
        }
        let login = Login { database: options.database.unwrap_or(0), resp3: options.address.resp3, ..Login::default() };
        return Ok((Target::Embedded(Engine::new(Config::default())), login));
    }
    let (endpoint, login) = options.address.resolve(options.database)?;
    Ok((Target::Server(endpoint), login))
}

/// The password from the terminal or the environment, and the warning about one on the command line.
fn find_password(options: &Options, login: &mut Login) -> Result<(), String> {
    if options.askpass {
        login.password = Some(ask_password().map_err(|error| error.to_string())?);
    } else if login.password.is_some() {
        if !options.no_auth_warning {
            eprintln!(
                "Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe."
            );
        }
    } else {
        login.password = std::env::var("REDISCLI_AUTH").ok();
    }
    Ok(())
}

/// Reads a line from the terminal without showing it.
fn ask_password() -> io::Result<String> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let input = io::stdin();
    eprint!("Please input password: ");
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

fn manner(options: &Options) -> Result<Manner, String> {
    let terminal = io::stdout().is_terminal();
    let (between, end) = (options.between.as_bytes().to_vec(), options.end.as_bytes().to_vec());
    let format = match options {
        Options { quoted_json: true, .. } => Format::QuotedJson,
        Options { json: true, .. } => Format::Json,
        Options { csv: true, .. } => Format::Csv,
        Options { no_raw: true, .. } => Format::Standard,
        Options { raw, .. } if *raw || !terminal => Format::Raw { between, end },
        _ => Format::Standard,
    };
    let show_pushes = match options.show_pushes.as_deref() {
        None => terminal,
        Some(answer) if answer.starts_with(['y', 'Y']) => true,
        Some(answer) if answer.starts_with(['n', 'N']) => false,
        Some(answer) => return Err(format!("--show-pushes takes yes or no, not '{answer}'")),
    };
    let prefer_resp3 = (options.json || options.quoted_json) && !options.resp2;
    // As in redis-cli, `-e` means the one command of the command line.
    let exit_error = options.exit_error && !options.command.is_empty();
    Ok(Manner { format, show_pushes, exit_error, prefer_resp3 })
}

/// The command's words, quotes undone and standard input put in where the options say so; `None` for bad quotes.
fn words(options: &Options) -> Result<Option<Vec<Vec<u8>>>, String> {
    let mut words = Vec::new();
    for word in &options.command {
        words.push(match options.quoted_input {
            true => match input::unquote(word.as_bytes()) {
                Some(word) => word,
                None => return Ok(None),
            },
            false => word.clone().into_vec(),
        });
    }
    if options.last_from_stdin {
        words.push(read_input()?);
    }
    if let Some(tag) = &options.tag_from_stdin {
        let place = words.iter_mut().skip(1).find(|word| word.as_slice() == tag.as_bytes());
        *place.ok_or("Using -X option but stdin tag not match.")? = read_input()?;
    }
    Ok(Some(words))
}

fn read_input() -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn repeat(session: &mut Session, words: &[Vec<u8>], options: &Options) -> ExitCode {
    let pause = pause(options);
    let mut left = options.repeat;
    while left != 0 {
        match session.issue(words) {
            Outcome::Lost => return ExitCode::FAILURE,
            Outcome::Refused if options.exit_error => return ExitCode::FAILURE,
            _ => {}
        }
        // A negative count never reaches zero.
        left -= i64::from(left > 0);
        if left != 0 && !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    ExitCode::SUCCESS
}

fn pause(options: &Options) -> Duration {
    Duration::try_from_secs_f64(options.interval).unwrap_or_default()
}

fn transfer(session: &mut Session, options: &Options) -> ExitCode {
    if !session.connect() {
        return ExitCode::FAILURE;
    }
    let timeout = (options.pipe_timeout > 0).then(|| Duration::from_secs(options.pipe_timeout.into()));
    match session.connection().and_then(|connection| connection.socket()) {
        Some(socket) => pipe::run(socket, timeout),
        None => ExitCode::FAILURE,
    }
}

fn list(session: &mut Session, options: &Options) -> Result<ExitCode, String> {
    let pattern = match (&options.pattern, &options.quoted_pattern) {
        (_, Some(quoted)) => Some(input::unquote(quoted.as_bytes()).ok_or("Invalid quoted string")?),
        (plain, None) => plain.as_ref().map(|pattern| pattern.as_bytes().to_vec()),
    };
    let listing = scan::Listing { pattern, count: options.count, pause: pause(options) };
    if !session.connect() {
        return Ok(ExitCode::FAILURE);
    }
    let format = session.manner().format.clone();
    let Some(connection) = session.connection() else { return Ok(ExitCode::FAILURE) };
    scan::run(connection, &listing, &format).map_err(|error| format!("ERROR: {}", without_number(&error)))?;
    Ok(ExitCode::SUCCESS)
}

fn interact(session: &mut Session) -> Result<ExitCode, String> {
    if io::stdin().is_terminal() {
        repl::run_interactive(session).map_err(|error| error.to_string())?;
    } else {
        repl::run_plain(session).map_err(|error| error.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
