//! An attack: random commands with hostile arguments from several clients at once, and the conditions that must hold
//! afterwards.
//!
//! Each client makes its commands from the command table's grammar and a seed (`hostile/commands.rs`, `hostile/lua.rs`). Some
//! pretend to be replicas, and some make the server follow hostile primaries (`hostile/peers.rs`). Turns of attack and of
//! inspection (`hostile/checks.rs`) alternate. A failure prints the seed of its turn and the requests that each client had
//! under way; `SLEEVE_SEED` repeats it. The clients run at the same time, so the same seed gives the same commands, not the
//! same order between clients.

mod checks;
mod client;
mod commands;
mod lua;
mod peers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{Arena, Client, Fault, Progress, Role, Tally};
use commands::Manners;
use peers::Peers;
use sleeve_tests::random::seed;
use sleeve_tests::{Connection, Kind, Server, soak};

/// The number of commands between two checks of the server.
const TURN: usize = 6_000;

/// The attackers.
const ROLES: [Role; 5] = [Role::Counts, Role::Counts, Role::Counts, Role::Anything, Role::Rude];

/// The time, in milliseconds, after which a client without progress is helped.
const NURSE_MS: u64 = 25;

/// The limit of the server's memory, with `maxmemory` at a quarter of it.
const MEMORY_MAX: u64 = 1536 << 20;

/// Limits that keep a run finite: of strings, replies, scripts and data; and a script may soon be killed.
const ARGUMENTS: &[&str] = &[
    "--enable-debug-command",
    "yes",
    "--maxmemory",
    "384mb",
    "--proto-max-bulk-len",
    "1mb",
    "--busy-reply-threshold",
    "20",
    "--lua-memory-max",
    "32mb",
    "--client-output-buffer-limit",
    "normal 32mb 0 0 pubsub 4mb 0 0",
];

/// Attacks a server with so many workers; every command's bytes depend on the seed.
fn attack(workers: usize, seed: u64, commands: usize) {
    let count = workers.to_string();
    let server = Server::start_with(Kind::Sleeve, &[ARGUMENTS, &["--workers", &count]].concat());
    let mut sent = 0;
    for turn in 0.. {
        if sent >= commands {
            break;
        }
        let turn_seed = seed.wrapping_mul(1_000_003).wrapping_add(turn);
        let result = take_turn(&server, workers, turn_seed, TURN.min(commands - sent));
        let Ok(tally) = result else {
            let fault = result.err().unwrap_or_default();
            panic!(
                "{workers} workers, seed {seed}, turn {turn} ({turn_seed}), {sent} commands:\n{fault}\n{}",
                end_of_log(&server)
            );
        };
        sent += tally.commands;
    }
    let peak = server.peak_bytes();
    assert!(peak < MEMORY_MAX, "the server took {peak} bytes");
}

/// Attacks with all clients once, and then checks the server.
fn take_turn(server: &Server, workers: usize, seed: u64, commands: usize) -> Result<Tally, Fault> {
    // In every fourth turn clients may kill each other, and then the killer is not known.
    let quiet = !seed.is_multiple_of(4);
    let arena = Arena {
        address: server.address(),
        stop: AtomicBool::new(false),
        progress: ROLES.iter().map(|_| Progress::default()).collect(),
    };
    let (before, peers) = (forced_ends(server)?, Peers::new());
    let results: Vec<Result<Tally, Fault>> = std::thread::scope(|scope| {
        let nurse = scope.spawn(|| nurse(&arena));
        peers.listen(scope, &arena, seed);
        let clients: Vec<_> = ROLES
            .iter()
            .enumerate()
            .map(|(number, &role)| {
                let counted = role == Role::Counts;
                let manners = Manners { counted, quiet, port: server.port(), peers: peers.ports() };
                let client = Client::new(&arena, number, seed.wrapping_mul(31).wrapping_add(number as u64), manners);
                let arena = &arena;
                scope.spawn(move || {
                    let result = client.run(role, commands / ROLES.len());
                    if result.is_err() {
                        arena.stop.store(true, Ordering::Relaxed);
                    }
                    result.map_err(|fault| format!("client {number} ({role:?}): {fault}"))
                })
            })
            .collect();
        let results = clients
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|_| Err("a client panicked".into())))
            .collect();
        nurse.join().ok();
        results
    });
    let faults: Vec<&str> = results.iter().filter_map(|result| result.as_ref().err()).map(String::as_str).collect();
    if !faults.is_empty() {
        return Err(faults.join("\n"));
    }
    checks::settle(server, workers)?;
    let mut total = Tally::default();
    for tally in results.iter().flatten() {
        total.commands += tally.commands;
        total.ended += tally.ended;
    }
    let after = forced_ends(server)?;
    if quiet && total.ended as u64 > after.saturating_sub(before) {
        return Err(format!("{} connections were ended, {} of them for what they took", total.ended, after - before));
    }
    clean(server)?;
    Ok(total)
}

/// Returns the number of connections that the server has closed because they used too much memory.
fn forced_ends(server: &Server) -> Result<u64, Fault> {
    let mut admin = server.try_connect().map_err(|error| error.to_string())?;
    Ok(checks::figure(&mut admin, "client_output_buffer_limit_disconnections")?
        + checks::figure(&mut admin, "evicted_clients")?)
}

/// Restores the server to its first state, as far as the next turn needs it.
fn clean(server: &Server) -> Result<(), Fault> {
    let mut admin = server.try_connect().map_err(|error| error.to_string())?;
    for line in [
        "FLUSHALL",
        "SCRIPT FLUSH",
        "FUNCTION FLUSH",
        "ACL DELUSER u1 u2 u3",
        "CONFIG SET encodings 7.0",
        "CONFIG SET notify-keyspace-events A",
    ] {
        checks::ask(&mut admin, line)?;
    }
    Ok(())
}

/// Helps clients that stand still: ends pauses, scripts and waits. It ends when all clients are done.
fn nurse(arena: &Arena) {
    let mut connection: Option<Connection> = None;
    let mut seen: Vec<(u64, Instant)> = arena.progress.iter().map(|_| (0, Instant::now())).collect();
    while !arena.is_over() {
        std::thread::sleep(Duration::from_millis(NURSE_MS));
        for (progress, seen) in arena.progress.iter().zip(&mut seen) {
            let replies = progress.replies.load(Ordering::Relaxed);
            if replies != seen.0 || progress.done.load(Ordering::Relaxed) {
                *seen = (replies, Instant::now());
                continue;
            }
            let id = progress.id.load(Ordering::Relaxed).to_string();
            if connection.is_none() {
                connection = Connection::open(arena.address).ok();
            }
            let help: [&[&str]; 5] = [
                &["FAILOVER", "ABORT"],
                &["CLIENT", "UNPAUSE"],
                &["SCRIPT", "KILL"],
                &["FUNCTION", "KILL"],
                &["CLIENT", "UNBLOCK", &id],
            ];
            if let Some(nurse) = &mut connection
                && help.iter().any(|words| nurse.command(words).is_err())
            {
                // Another client has killed it.
                connection = None;
            }
        }
    }
}

/// Returns the end of the server's log, or its last panic if one stands further up.
fn end_of_log(server: &Server) -> String {
    let log = server.log();
    let lines: Vec<&str> = log.lines().collect();
    let end = lines.len().saturating_sub(15);
    let panic = lines.iter().position(|line| line.contains("panicked at")).unwrap_or(end).min(end);
    [&lines[panic..end.min(panic + 8)], &lines[end..]].concat().join("\n")
}

#[test]
fn one_worker_bears_an_attack() {
    attack(1, seed(1), soak::count(12_000));
}

#[test]
fn two_workers_bear_an_attack() {
    attack(2, seed(2), soak::count(12_000));
}

#[test]
fn four_workers_bear_an_attack() {
    attack(4, seed(3), soak::count(12_000));
}
