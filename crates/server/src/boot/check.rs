//! A test of a configuration without starting a server: `sleeve serve --check`.
//!
//! The configuration is read as at a start, with users and certificates. It opens nothing that could disturb a running
//! server: it listens nowhere, and opens none of the server's files. So it can be run next to the server that uses this
//! configuration, which may be the one that has its ports: an address in use is a warning. Permissions are those of the user of
//! the check.

use std::io;
use std::path::Path;

use sleeve_disk::own;

use super::{load_users, pid_file};
use crate::config::load::LoadError;
use crate::config::{Config, Opt, arguments, load, value};
use crate::engine::Engine;
use crate::host::facts;
use crate::loading;
use crate::net::listeners;
use crate::net::tls;

/// Returns the effects of the configuration, a line for each; warnings first. `words` is the command line of a server.
///
/// # Errors
/// The reasons why the server would not start: all that can be found independently of each other.
pub fn check(words: &[Vec<u8>]) -> Result<Vec<String>, Vec<String>> {
    let config = Config::default();
    let loaded = load::load_all(&config, &arguments::of_process(words), io::stdin());
    let mut lines: Vec<String> = loaded.warnings.into_iter().map(|warning| format!("warning: {warning}")).collect();
    let mut faults: Vec<String> = loaded.faults.iter().map(LoadError::fault).collect();
    faults.extend(check_log(&config).err());
    check_files(&config, &mut lines);
    let engine = Engine::new(config);
    faults.extend(load_users(&engine).err().map(|error| error.to_string()));
    let config = &engine.config;
    if config.number(Opt::TlsPort) != 0 {
        faults.extend(tls::load(config).err());
    }
    check_sockets(config, &mut lines, &mut faults);
    check_folder(config, &mut lines, &mut faults);
    lines.extend(loading::ignored_log(config).map(|ignored| format!("warning: {ignored}")));
    if !faults.is_empty() {
        return Err(faults);
    }
    lines.push(format!("workers: {}", config.number(Opt::Workers)));
    lines.push(format!("databases: {}", engine.keyspace.store.databases()));
    lines.push(match config.memory(Opt::Maxmemory) {
        0 => "memory: no limit".to_owned(),
        bytes => format!("memory: {bytes} bytes, then {}", config.choice(Opt::MaxmemoryPolicy)),
    });
    lines.push(data_line(config));
    lines.sort_by_key(|line| !line.starts_with("warning: "));
    Ok(lines)
}

/// Returns the line about the source of the data and its files.
fn data_line(config: &Config) -> String {
    let snapshot = config.resolve(&config.text(Opt::Dbfilename));
    let rules = config.text(Opt::Save);
    let saved = match rules.is_empty() {
        true => "no snapshots by themselves".to_owned(),
        false => format!("snapshots in {} by the rules {}", snapshot.display(), String::from_utf8_lossy(&rules)),
    };
    let folder = config.resolve(&config.text(Opt::Appenddirname));
    match config.flag(Opt::Appendonly) {
        true => format!("data: a log in {}, synced {}; {saved}", folder.display(), config.choice(Opt::Appendfsync)),
        false => format!("data: no log; {saved}"),
    }
}

/// Checks the server log, which is opened before anything else; no server starts without it.
fn check_log(config: &Config) -> Result<(), String> {
    let name = config.text(Opt::Logfile);
    if name.is_empty() {
        return Ok(());
    }
    let path = config.resolve(&name);
    pid_file::writable(&path)
        .map_err(|error| format!("Can't open the log file '{}': {}", path.display(), value::reason(&error)))
}

/// Adds the warnings of a start.
fn check_files(config: &Config, lines: &mut Vec<String>) {
    lines.extend(pid_file::obstacle(config).map(|obstacle| format!("warning: {obstacle}")));
    let wanted = config.number(Opt::Maxclients) as u64;
    let possible = facts::clients_possible(wanted);
    if possible < wanted {
        lines.push(format!("warning: the limit of open files allows {possible} clients, not {wanted}"));
    }
}

/// Adds the lines about the sockets at which clients would be served, and those that cannot be opened.
fn check_sockets(config: &Config, lines: &mut Vec<String>, faults: &mut Vec<String>) {
    let sockets = match listeners::prospects(config) {
        Ok(sockets) if sockets.is_empty() => return faults.push(crate::boot::StartError::Nowhere.to_string()),
        Ok(sockets) => sockets,
        Err(error) => return faults.push(error.to_string()),
    };
    for socket in sockets {
        if socket.is_taken() {
            let name = &socket.name;
            lines.push(format!("warning: another server has {name}: this one can start when that one has ended"));
        } else if let Some(obstacle) = &socket.obstacle {
            faults.push(obstacle.to_string());
        }
        lines.push(format!("listens on: {}{}", socket.name, if socket.is_tls { " with TLS" } else { "" }));
    }
}

/// Checks that the files of the data may be written. A server never starts without its AOF; without snapshots it does.
fn check_folder(config: &Config, lines: &mut Vec<String>, faults: &mut Vec<String>) {
    let refused = |path: &Path, error| format!("'{}' cannot be written: {}", path.display(), value::reason(&error));
    if config.flag(Opt::Appendonly) {
        let folder = config.resolve(&config.text(Opt::Appenddirname));
        let tried = match std::fs::metadata(&folder) {
            Ok(found) if found.is_dir() => pid_file::writable(&folder.join("new")),
            Ok(found) => Err(own::refusal(found.file_type(), "a folder")),
            Err(_) => pid_file::writable(&folder),
        };
        faults.extend(tried.err().map(|error| format!("The AOF's folder {}", refused(&folder, error))));
    }
    if !config.text(Opt::Save).is_empty() {
        let file = config.resolve(&config.text(Opt::Dbfilename));
        let warning =
            |error| format!("warning: the snapshot {}; clients that write get an error then", refused(&file, error));
        lines.extend(pid_file::writable(&file).err().map(warning));
    }
}
