//! `sleeve backup` and `sleeve restore`: a server's snapshots, kept with their checksums.
//!
//! `backup` asks for a full sync, as `cli --rdb` does. From top to bottom: here (the order of the steps), `restore` (a snapshot
//! into a server's folder) → `data_folder` (the processes that use one, and the older data in it), `rotation` → `draft` (the
//! file under its temporary name, verified and named) → `checksum` → `name`, `options`. A snapshot that has its name was read
//! back to its end, and its checksum is beside it.

mod checksum;
mod data_folder;
mod draft;
mod name;
pub mod options;
pub mod restore;
mod rotation;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use indicatif::{ProgressBar, ProgressStyle};
use sleeve_disk::own;

use crate::endpoint::{Endpoint, Login, without_number};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::output;
use crate::shell::connection::{Connection, Target, error_of};
use crate::shell::replica;
use draft::{Draft, Unpublished, Verified};
use name::SnapshotName;
use options::BackupOptions;

/// The place of the new snapshot.
enum Place {
    /// A folder, which gets a file with a name of ours.
    Folder(PathBuf, SnapshotName),
    /// A file with this name.
    File(PathBuf),
}

impl Place {
    /// Returns the path of the snapshot, if no other has it.
    fn path(&self) -> PathBuf {
        match self {
            Self::Folder(folder, name) => folder.join(name.to_string()),
            Self::File(path) => path.clone(),
        }
    }
}

/// Runs the backup with these options.
pub fn run(options: &BackupOptions) -> ExitCode {
    let interrupt = match Interrupt::watch_end() {
        Ok(interrupt) => Arc::new(interrupt),
        Err(error) => return fail(&error.to_string()),
    };
    match try_run(options, &interrupt) {
        Ok(()) => ExitCode::SUCCESS,
        Err(EarlyEnd { has_snapshot: false, .. }) if interrupt.is_heard() => {
            eprintln!("interrupted: there is no new snapshot");
            ExitCode::from(INTERRUPTED)
        }
        Err(EarlyEnd { text, .. }) => fail(&text),
    }
}

/// The reason why a backup ended early.
struct EarlyEnd {
    /// The words for the user.
    text: String,
    /// True if the snapshot has its name.
    has_snapshot: bool,
}

impl From<String> for EarlyEnd {
    fn from(text: String) -> Self {
        Self { text, has_snapshot: false }
    }
}

fn fail(text: &str) -> ExitCode {
    output::flush();
    eprintln!("{text}");
    ExitCode::FAILURE
}

/// Turns a write beyond the largest size of a file (`ulimit -f`) into an error, like that of a full disk. The system would end
/// the process otherwise, and its temporary file would stay.
fn survive_size_limit() {
    _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

fn try_run(options: &BackupOptions, interrupt: &Arc<Interrupt>) -> Result<(), EarlyEnd> {
    survive_size_limit();
    let place = place(options)?;
    let (endpoint, login) = resolve(options)?;
    let path = place.path();
    let mut draft = Draft::begin(&path)?;
    let mut connection = connect(&endpoint, &login, options, interrupt)?;
    fetch(&mut connection, &mut draft).map_err(|text| explain(&text, &endpoint))?;
    let verified = draft.verify().map_err(|text| {
        format!("the snapshot that {endpoint} sent {text}. Nothing was kept; try again, and look into the server's log")
    })?;
    if interrupt.is_heard() {
        return Err(String::new().into());
    }
    let named = publish(&mut draft, &place, &verified, options.force)
        .map_err(|text| EarlyEnd { text, has_snapshot: draft.is_named() })?;
    let Verified { keys, bytes, .. } = verified;
    output::line(format_args!("{}: {keys} keys, {bytes} bytes, checked", named.path().display()));
    if let (Some(keep), Place::Folder(folder, name)) = (options.keep, &named) {
        let removed = rotation::remove_oldest(folder, name, keep);
        let removed = removed
            .map_err(|text| EarlyEnd { text: format!("the snapshot is there, but {text}"), has_snapshot: true })?;
        removed.iter().for_each(|path| output::line(format_args!("removed {}", path.display())));
    }
    Ok(())
}

/// Returns the place that the options name, if a snapshot can be put there.
fn place(options: &BackupOptions) -> Result<Place, String> {
    let target = &options.target;
    let shown = target.display();
    match fs::metadata(target) {
        Ok(found) if found.is_dir() && options.force => {
            Err(format!("--force means nothing to a folder: a snapshot in {shown} gets a name that is free"))
        }
        Ok(found) if found.is_dir() => Ok(Place::Folder(target.clone(), SnapshotName::at(SystemTime::now()))),
        _ if options.keep.is_some() => {
            Err(format!("--keep needs a folder, and {shown} is none: make it first, or leave --keep out"))
        }
        Ok(found) if !found.is_file() => {
            Err(format!("{shown}: {}", own::refusal(found.file_type(), "a regular file or a folder")))
        }
        Ok(_) if !options.force => Err(format!("{shown} is there: choose another name, or add --force")),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("cannot look at {shown}: {error}")),
        found => {
            let is_folder = target.as_os_str().as_encoded_bytes().ends_with(b"/");
            if found.is_err() && (is_folder || !draft::folder_of(target).is_dir()) {
                let folder = if is_folder { target } else { draft::folder_of(target) };
                return Err(format!("the folder {} is not there: make it first", folder.display()));
            }
            own::follow(target).map(Place::File).map_err(|error| format!("cannot follow {shown}: {error}"))
        }
    }
}

/// Returns the server and the login that the options name; a password may come from the environment.
fn resolve(options: &BackupOptions) -> Result<(Endpoint, Login), String> {
    let mut address = options.address.clone();
    address.url = options.server.clone().or(address.url);
    let (endpoint, mut login) = address.resolve(None)?;
    let of = |name| std::env::var(name).ok();
    login.password = login.password.or_else(|| of("REDISCLI_AUTH")).or_else(|| of("VALKEYCLI_AUTH"));
    login.check()?;
    Ok((endpoint, login))
}

/// Connects and logs in. A wait for the server ends at Ctrl-C, and after the time of `--patience`.
fn connect(
    endpoint: &Endpoint,
    login: &Login,
    options: &BackupOptions,
    interrupt: &Arc<Interrupt>,
) -> Result<Connection, String> {
    let mut connection = Connection::open(&Target::Server(endpoint.clone())).map_err(|error| {
        let why = without_number(&error);
        format!("cannot connect to {endpoint}: {why}. Is the server running, and are host and port right?")
    })?;
    connection.heed_within(Arc::clone(interrupt), options.patience());
    let mut requests = Vec::new();
    match (&login.user, &login.password) {
        (Some(user), Some(password)) => requests.push(vec!["AUTH", user, password]),
        (None, Some(password)) => requests.push(vec!["AUTH", password]),
        (_, None) => {}
    }
    if login.resp3 {
        requests.push(vec!["HELLO", "3"]);
    }
    let database = login.database.to_string();
    if login.database != 0 {
        requests.push(vec!["SELECT", &database]);
    }
    for words in requests {
        let reply = connection.ask(&words).map_err(|error| explain(&without_number(&error), endpoint))?;
        if let Some(text) = error_of(&reply) {
            return Err(explain(&text, endpoint));
        }
    }
    Ok(connection)
}

/// Fetches the snapshot into the draft, under a progress line that is printed only if the error output is a terminal.
fn fetch(connection: &mut Connection, draft: &mut Draft) -> Result<(), String> {
    let template = |text| ProgressStyle::with_template(text).unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = ProgressBar::no_length().with_style(template("snapshot: {bytes}, {bytes_per_sec}"));
    let announced = |length: Option<u64>| {
        if let Some(length) = length {
            bar.set_style(template("snapshot: {bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left"));
            bar.set_length(length);
        }
    };
    let fetched = replica::fetch(connection, announced, &mut bar.wrap_write(draft.file()));
    bar.finish_and_clear();
    fetched.map(drop)
}

/// Names the snapshot. In a folder it takes the next name if another backup has the first one.
fn publish(draft: &mut Draft, place: &Place, verified: &Verified, force: bool) -> Result<Place, String> {
    let failed = |path: &Path, fault: &Unpublished| {
        let (path, why) = (path.display(), without_number(&fault.error));
        match fault.is_named {
            true => format!("the snapshot is {path}, but its name may not survive a power failure: {why}"),
            false => format!("cannot name the snapshot {path}: {why}. There is no new snapshot"),
        }
    };
    let (folder, mut name) = match place {
        Place::File(path) => {
            return match draft.publish(path, verified, force).map_err(|error| failed(path, &error))? {
                true => Ok(Place::File(path.clone())),
                false => {
                    Err(format!("{} or its .sha256 is there: choose another name, or add --force", path.display()))
                }
            };
        }
        Place::Folder(folder, name) => (folder, name.clone()),
    };
    loop {
        let path = folder.join(name.to_string());
        if draft.publish(&path, verified, false).map_err(|error| failed(&path, &error))? {
            return Ok(Place::Folder(folder.clone(), name));
        }
        name = name.next();
    }
}

/// Returns the fault of a backup with the next step.
fn explain(text: &str, endpoint: &Endpoint) -> String {
    let next = if text.contains("NOAUTH") {
        "The server wants a password: give it in the URL, with -a, or in REDISCLI_AUTH"
    } else if text.contains("WRONGPASS") || text.contains("invalid password") {
        "Give the right user and password"
    } else if text.contains("NOPERM") {
        "Let the user run REPLCONF and SYNC: ACL SETUSER name +replconf +sync"
    } else if text.starts_with("Error writing the snapshot") {
        "Make room, or choose another folder"
    } else {
        "Look into the server's log, and try again"
    };
    let text = text.trim_end_matches('.');
    format!("no snapshot of {endpoint}: {text}. {next}. Nothing was kept")
}
