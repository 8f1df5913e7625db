//! Tests of the end of a server with a final snapshot, while a script runs and delays that snapshot.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sleeve_disk::disk::gated::Gate;
use sleeve_disk::disk::read_small;
use sleeve_server::{Closed, Engine, Local, Opt};

use crate::busy::{ENDLESS, Peer, Served};
use crate::logged::{Conversation, Logged};

/// Starts a server. One client runs a script, and another asks the server to end with a snapshot before the script counts as
/// a long one. Returns the server, the script's client, and the folder of the snapshot.
fn asked_to_save(name: &str, script: &[&str]) -> (Served, Peer, PathBuf) {
    let folder = std::env::temp_dir().join(format!("sleeve-busy-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of our own");
    let served = Served::new(2, "3600000");
    let path = folder.to_str().expect("a path of text").as_bytes();
    served.engine.config.assign(Opt::Dir, &[path]).expect("a folder");
    served.engine.config.assign(Opt::EnableDebugCommand, &[b"yes"]).expect("an option");
    let mut runner = served.open();
    runner.ask(&["DEBUG", "SET-DISABLE-DENY-SCRIPTS", "1"], "+OK\r\n");
    runner.send(script);
    served.until_locked();
    let mut other = served.open_beside();
    other.send(&["SHUTDOWN", "SAVE"]);
    while !served.engine.clients.pause.is_begun() {
        std::thread::yield_now();
    }
    served.set_threshold("20");
    (served, runner, folder)
}

/// Removes `folder`. The thread of an abandoned snapshot may still create its file there, which makes one attempt fail.
fn remove(folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while folder.exists() {
        let outcome = std::fs::remove_dir_all(folder);
        assert!(Instant::now() < deadline, "{}: {outcome:?}", folder.display());
    }
}

#[test]
fn the_end_of_the_server_with_a_snapshot_ends_one_that_has_not_written() {
    let (served, mut runner, folder) = asked_to_save("unwritten", ENDLESS);
    _ = runner.0.read_to_end(&mut Vec::new());
    served.server.stop();
    assert!(folder.join("dump.rdb").is_file());
    remove(&folder);
}

/// Waits until the server is about to end and spares the running script, which has written.
fn wait_until_spared(served: &Served) {
    let running = &served.engine.scripts.running;
    while running.longest().and_then(|run| running.ends_gently(run)) != Some(false) {
        std::thread::yield_now();
    }
}

#[test]
fn a_shutdown_with_save_waits_for_a_writing_script_unless_nosave_follows() {
    let writer = "redis.call('set', 'k', 'v') while redis.call('config', 'get', 'maxclients')[2] ~= '77' do end";
    let (served, mut runner, folder) = asked_to_save("written", &["EVAL", writer, "1", "k"]);
    let mut other = served.open();
    wait_until_spared(&served);
    other.send(&["SCRIPT", "KILL"]);
    assert!(other.line().starts_with("-UNKILLABLE "));
    served.engine.config.assign(Opt::Maxclients, &[b"77"]).expect("a number");
    _ = runner.0.read_to_end(&mut Vec::new());
    served.server.stop();
    assert!(folder.join("dump.rdb").is_file());
    remove(&folder);
    let writer = "redis.call('set', 'k', 'v') while true do end";
    let (served, _runner, folder) = asked_to_save("unsaved", &["EVAL", writer, "1", "k"]);
    let mut other = served.open();
    wait_until_spared(&served);
    other.send(&["SHUTDOWN", "NOSAVE"]);
    _ = other.0.read_to_end(&mut Vec::new());
    served.server.stop();
    remove(&folder);
}

/// Sends PING in a session in the same process, and returns the reply.
fn ping(engine: &Arc<Engine>) -> Result<Vec<u8>, Closed> {
    let mut replies = Vec::new();
    Local::open(engine, || {}).exchange(b"PING\r\n", &mut replies).map(|_| replies)
}

#[test]
fn an_engine_outlives_its_workers_unless_half_of_a_script_is_left() {
    let (served, mut runner, folder) = asked_to_save("outlived", ENDLESS);
    _ = runner.0.read_to_end(&mut Vec::new());
    served.server.stop();
    // The thread that wrote the snapshot may still be posting the stop, and would close a session that opens meanwhile.
    let deadline = Instant::now() + Duration::from_secs(60);
    while ping(&served.engine) != Ok(b"+PONG\r\n".to_vec()) {
        assert!(Instant::now() < deadline, "no session answers after the end of the workers");
        std::thread::yield_now();
    }
    remove(&folder);
    let served = Served::new(2, "20");
    let (mut runner, mut other) = (served.open(), served.open());
    runner.send(&["EVAL", "redis.call('set', 'k', 'v') while true do end", "1", "k"]);
    served.until_locked();
    other.send(&["SHUTDOWN", "NOSAVE"]);
    _ = runner.0.read_to_end(&mut Vec::new());
    served.server.stop();
    assert_eq!(ping(&served.engine), Err(Closed));
}

/// Checks that all acknowledged writes are in the AOF if clients send requests repeatedly while the server ends.
#[test]
fn writes_answered_while_a_shutdown_ends_a_script_are_in_the_aof() {
    const CLIENTS: usize = 6;
    let logged = Logged::new(&[(Opt::BusyReplyThreshold, "20"), (Opt::Workers, "2")]);
    let (mut runner, mut other) = (logged.open(), logged.open());
    runner.send("EVAL \"redis.call('set', 'half', 'no') while true do end\" 0");
    while !other.ask("PING").starts_with("-BUSY ") {}
    let begun = std::sync::Barrier::new(CLIENTS + 1);
    let answered: Vec<Vec<String>> = std::thread::scope(|scope| {
        let retry = |mut client: Conversation, id: usize| {
            for round in 0.. {
                if round == 10 {
                    begun.wait();
                }
                // The fourth reply is that of EXEC. The transaction succeeds only after the script has written its key.
                if !client.can_send(&format!("MULTI\r\nRENAME half half\r\nSET c{id}:{round} v\r\nEXEC")) {
                    break;
                }
                let frames: Vec<String> = (0..4).map_while(|_| client.frame_or_end()).collect();
                match frames.get(3) {
                    Some(reply) if reply.starts_with('*') => return vec![format!("c{id}:{round}")],
                    Some(_) => {}
                    None => return Vec::new(),
                }
            }
            Vec::new()
        };
        let clients: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let client = logged.open();
                scope.spawn(move || retry(client, id))
            })
            .collect();
        begun.wait();
        other.send("SHUTDOWN NOSAVE");
        clients.into_iter().map(|client| client.join().expect("it ends")).collect()
    });
    runner.until_closed();
    logged.engine.persistence.aof.finish(&logged.engine);
    let increment = logged.engine.config.resolve(b"appendonlydir/appendonly.aof.1.incr.aof");
    let bytes = read_small(&logged.gate, &increment, 1 << 20).expect("the log");
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("half"), "{text}");
    for name in answered.into_iter().flatten() {
        assert!(text.contains(&name), "{name} was answered and is nowhere: {text}");
    }
}

#[test]
fn nothing_is_logged_of_a_script_that_is_ended_with_the_server() {
    for form in ["EVAL \"{}\" 0", "MULTI\r\nSET before yes\r\nEVAL \"{}\" 0\r\nEXEC"] {
        let logged = Logged::new(&[(Opt::BusyReplyThreshold, "20")]);
        let (mut runner, mut other) = (logged.open(), logged.open());
        other.ask("SET whole yes");
        runner.send(&form.replace("{}", "redis.call('set', 'half', 'no') while true do end"));
        while !other.ask("PING").starts_with("-BUSY ") {}
        other.send("SHUTDOWN NOSAVE");
        runner.until_closed();
        logged.engine.persistence.aof.finish(&logged.engine);
        let increment = logged.engine.config.resolve(b"appendonlydir/appendonly.aof.1.incr.aof");
        let bytes = read_small(&logged.gate, &increment, 1 << 20).expect("the log");
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("whole") && !text.contains("half") && !text.contains("before"), "{text}");
    }
}

#[test]
fn save_is_answered_behind_a_rewrite_of_the_log() {
    let logged = Logged::new(&[(Opt::Appendonly, "no"), (Opt::Workers, "1")]);
    let (mut one, mut other) = (logged.open(), logged.open());
    logged.gate.set(Gate::Closed);
    assert_eq!(one.ask("BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
    logged.gate.wait_for_sync();
    other.send("SAVE");
    while !one.ask("INFO clients").contains("blocked_clients:1\r\n") {}
    logged.gate.set(Gate::Open);
    assert_eq!(other.frame(), "+OK\r\n");
    assert!(one.ask("INFO persistence").contains("rdb_saves:1\r\n"));
}
