//! The conditions that must hold when the attackers have gone: every client is served, no thread spins, no connection or key
//! is left over, the figures agree.
//!
//! Every condition is waited for, because connections that were dropped end in their own time; a condition that does not come
//! to hold within a minute does not hold. One thread.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sleeve_tests::transcript::frame::{children, leaves, text};
use sleeve_tests::{Connection, Server};

/// The time, in seconds, after which a condition counts as failed.
const PATIENCE_S: u64 = 60;

/// The number of looks at each thread for one verdict about spinning.
const LOOKS: usize = 20;

/// Waits until `holds` returns no objection.
///
/// # Errors
/// The last objection.
pub fn until(mut holds: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(PATIENCE_S);
    loop {
        match holds() {
            Ok(()) => return Ok(()),
            Err(objection) if Instant::now() > deadline => return Err(objection),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Sends a command of plain words and returns its reply.
///
/// # Errors
/// The errors of the socket.
pub fn ask(connection: &mut Connection, line: &str) -> Result<Vec<u8>, String> {
    connection.command(&line.split(' ').collect::<Vec<_>>()).map_err(|error| format!("{line}: {error}"))
}

/// Returns a figure of INFO.
///
/// # Errors
/// The errors of [`ask`], and a missing figure.
pub fn figure(connection: &mut Connection, name: &str) -> Result<u64, String> {
    let info = ask(connection, "INFO everything")?;
    let info = String::from_utf8_lossy(&info).into_owned();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    let value = line.ok_or_else(|| format!("INFO has no {name}"))?;
    value.trim().parse().map_err(|_| format!("{name} is {value}"))
}

/// Checks everything that must hold after the attack.
///
/// # Errors
/// The condition that does not hold.
pub fn settle(server: &Server, workers: usize) -> Result<(), String> {
    let mut admin = until_served(server, workers)?;
    until(|| {
        expect(
            &mut admin,
            &[
                ("blocked_clients", 0),
                ("connected_clients", 1),
                ("tracking_clients", 0),
                ("pubsub_clients", 0),
                ("connected_slaves", 0),
            ],
        )
    })?;
    until(|| {
        if ask(&mut admin, "SCRIPT KILL")?.starts_with(b"-NOTBUSY") { Ok(()) } else { Err("a script runs on".into()) }
    })?;
    for words in [
        "CONFIG SET maxmemory-policy noeviction",
        "CONFIG SET min-replicas-to-write 0",
        "DEBUG SET-ACTIVE-EXPIRE 1",
        "CONFIG SET active-expire-effort 10 hz 100",
    ] {
        ask(&mut admin, words)?;
    }
    no_figure_is_negative(&mut admin)?;
    keys_agree(&mut admin)?;
    sleeps(server)
}

/// Waits until every worker serves. A new connection goes to the worker with the fewest connections.
fn until_served(server: &Server, workers: usize) -> Result<Connection, String> {
    let mut first = None;
    until(|| {
        let mut all = Vec::new();
        for _ in 0..workers * 2 {
            let mut connection = server.try_connect().map_err(|error| format!("cannot connect: {error}"))?;
            // These commands end every state that holds up other clients. An error that there is no such state is fine.
            for calm in ["FAILOVER ABORT", "CLIENT UNPAUSE", "SCRIPT KILL", "FUNCTION KILL"] {
                ask(&mut connection, calm)?;
            }
            all.push(connection);
        }
        for connection in &mut all {
            let reply = ask(connection, "REPLICAOF NO ONE")?;
            if reply != b"+OK\r\n" {
                return Err(format!("REPLICAOF NO ONE says {}", reply.escape_ascii()));
            }
            let reply = ask(connection, "PING")?;
            if reply != b"+PONG\r\n" {
                return Err(format!("PING says {}", reply.escape_ascii()));
            }
        }
        first = all.pop();
        Ok(())
    })?;
    first.ok_or_else(|| "nobody was asked".into())
}

/// Checks that no count or measure is below zero.
fn no_figure_is_negative(admin: &mut Connection) -> Result<(), String> {
    let info = ask(admin, "INFO everything")?;
    let info = String::from_utf8_lossy(&info).into_owned();
    let counts = [
        "used_",
        "mem_",
        "total_",
        "keyspace_",
        "expired_",
        "evicted_",
        "tracking_",
        "instantaneous_",
        "cmdstat_",
        "db",
    ];
    let is_negative = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default();
        (line.contains(":-") || line.contains("=-"))
            && counts.iter().any(|count| name.starts_with(count) || name.ends_with("_clients"))
    };
    info.lines().find(is_negative).map_or(Ok(()), |line| Err(format!("a figure of INFO is negative: {line}")))
}

fn expect(admin: &mut Connection, figures: &[(&str, u64)]) -> Result<(), String> {
    for &(name, wanted) in figures {
        let is = figure(admin, name)?;
        if is != wanted {
            let list = ask(admin, "CLIENT LIST")?;
            return Err(format!("{name} is {is} instead of {wanted}\n{}", String::from_utf8_lossy(&list)));
        }
    }
    Ok(())
}

/// Checks each database: DBSIZE equals the number of keys that SCAN returns, and every key is whole: its restored dump has
/// the same digest.
fn keys_agree(admin: &mut Connection) -> Result<(), String> {
    for database in 0..16 {
        ask(admin, &format!("SELECT {database}"))?;
        let mut keys = Vec::new();
        until(|| {
            keys = scan(admin)?;
            let size = ask(admin, "DBSIZE")?;
            // An expired key counts until it is removed.
            if size == format!(":{}\r\n", keys.len()).as_bytes() {
                Ok(())
            } else {
                Err(format!("SCAN meets {} keys, DBSIZE says {}", keys.len(), size.escape_ascii()))
            }
        })?;
        keys.iter().take(200).try_for_each(|key| carries_over(admin, key))?;
    }
    ask(admin, "SELECT 0")?;
    let digests = [ask(admin, "DEBUG DIGEST")?, ask(admin, "DEBUG DIGEST")?];
    if digests[0].len() == 43 && digests[0].starts_with(b"+") {
        Ok(())
    } else {
        Err(format!("a digest is {}", digests[0].escape_ascii()))
    }
}

fn scan(admin: &mut Connection) -> Result<Vec<Vec<u8>>, String> {
    let (mut cursor, mut keys) = (b"0".to_vec(), Vec::new());
    loop {
        let reply =
            admin.command(&[b"SCAN".as_slice(), &cursor, b"COUNT", b"1000"]).map_err(|error| error.to_string())?;
        let parts = children(&reply).ok_or("SCAN gives no array")?;
        cursor = text(parts[0]).unwrap_or_default().to_vec();
        keys.extend(children(parts[1]).ok_or("SCAN gives no keys")?.into_iter().filter_map(text).map(<[u8]>::to_vec));
        if cursor == b"0" {
            return Ok(keys);
        }
    }
}

/// Checks that a key and the value restored from its dump have the same digest, unless it expires in between.
fn carries_over(admin: &mut Connection, key: &[u8]) -> Result<(), String> {
    let copy = b"hostile:copy".as_slice();
    let mut ask = |words: &[&[u8]]| admin.command(words).map_err(|error| error.to_string());
    if text(&ask(&[b"PTTL", key])?) != Some(b"-1") {
        return Ok(());
    }
    let dump = ask(&[b"DUMP", key])?;
    let restored = ask(&[b"RESTORE", copy, b"0", text(&dump).unwrap_or_default(), b"REPLACE"])?;
    if restored.starts_with(b"-OOM") {
        return Ok(());
    }
    let digests = leaves(&ask(&[b"DEBUG", b"DIGEST-VALUE", key, copy])?);
    let kind = ask(&[b"TYPE", key])?;
    ask(&[b"DEL", copy])?;
    // Fields of a hash may expire between the two.
    if restored == b"+OK\r\n" && (digests.len() == 2 && digests[0] == digests[1] || kind == b"+hash\r\n") {
        return Ok(());
    }
    Err(format!("the dump of {} ({}) gives {}", key.escape_ascii(), kind.escape_ascii(), restored.escape_ascii()))
}

/// Checks that every thread of the idle server sleeps most of the time. The check reads the thread's state, not its CPU time:
/// that holds on a busy machine as well.
fn sleeps(server: &Server) -> Result<(), String> {
    until(|| {
        let tasks =
            std::fs::read_dir(format!("/proc/{}/task", server.process_id())).map_err(|error| error.to_string())?;
        let tasks: Vec<PathBuf> = tasks.flatten().map(|task| task.path()).collect();
        let mut runs = vec![0; tasks.len()];
        for _ in 0..LOOKS {
            for (task, runs) in tasks.iter().zip(&mut runs) {
                let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
                let state = stat.rsplit(')').next().unwrap_or_default().trim_start().chars().next();
                *runs += usize::from(state == Some('R'));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        match runs.iter().position(|&runs| runs > LOOKS / 2) {
            None => Ok(()),
            Some(task) => Err(format!("a thread runs on though nobody asks for anything: {}", tasks[task].display())),
        }
    })
}
