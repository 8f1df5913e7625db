//! Odd values of every type and encoding: empty, with wrong counts, with elements twice, damaged. RESTORE and the loading of
//! a file take or refuse each as real servers do.
//!
//! `odd_values/outcomes.txt` has a line for each value. It says how Sleeve and each real server answers RESTORE (which checks
//! in depth, `sanitize-dump-payload yes`), and how each loads a file with the value between two others. If every server that
//! knows the type loads a file, Sleeve loads it; if all of them refuse a payload, Sleeve refuses it. Without peers Sleeve is
//! held to the lines. `SLEEVE_RECORD=1` writes the file anew, with the peers.

mod cases;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::sync::Arc;

use cases::Case;
use sleeve_disk::disk::memory::MemoryDisk;
use sleeve_disk::disk::{Disk, Open};
use sleeve_server::boot;
use sleeve_server::engine::origin::Origin;
use sleeve_server::{Config, Engine, Local};
use sleeve_store::rdb;
use sleeve_tests::{Connection, Kind, Server};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/interop/odd_values/outcomes.txt");
const PEERS: [Kind; 3] = [Kind::Redis, Kind::Redis8, Kind::Valkey];

/// The part of the names of values that Redis 8.2 frees twice when it refuses or deletes them, which ends it some requests
/// later: streams with wrong lists of pending entries. A server that was given one is started anew for the next value.
const FREED_TWICE: &str = "-pending-";

/// The outcomes of a value: by RESTORE, and in a file.
type Outcome = (String, String);

fn outcome(restore: &str, file: &str) -> Outcome {
    (restore.to_owned(), file.to_owned())
}

/// Returns the value as a dump.
fn payload(case: &Case) -> Vec<u8> {
    let mut payload = [&[case.number][..], &case.bytes, &case.version().to_le_bytes()].concat();
    let sum = rdb::crc64(&payload);
    payload.extend(sum.to_le_bytes());
    payload
}

/// Returns a file with the value between two strings, and no sum.
fn file(case: &Case) -> Vec<u8> {
    let head = [case.magic.as_bytes(), b"\xfe\x00\x00\x06before\x01v", &[case.number], b"\x03odd"].concat();
    [&head[..], &case.bytes, b"\x00\x06behind\x01v\xff", &[0; 8]].concat()
}

fn answer(reply: &[u8]) -> &'static str {
    match reply {
        b"+OK\r\n" => "takes",
        b"-ERR Bad data format\r\n" => "refuses",
        b"-ERR DUMP payload version or checksum are wrong\r\n" => "-",
        _ => "other",
    }
}

/// Returns the outcome of a load, from the replies to EXISTS of the three keys.
fn loaded(exists: [bool; 3]) -> &'static str {
    match exists {
        [true, true, true] => "loads",
        [true, false, true] => "skips",
        _ => "in part",
    }
}

const KEYS: [&str; 3] = ["before", "odd", "behind"];

/// Returns the outcome of the engine in this process, with the file as its snapshot on a disk in memory.
fn of_file(file: &[u8]) -> &'static str {
    let disk = Arc::new(MemoryDisk::new());
    let engine = Engine::begin(Config::default(), Origin::of_machine().on(disk.clone()));
    let opened = disk.open(&engine.persistence.snapshots.path(&engine), Open::Create).expect("a file");
    opened.append(&[std::io::IoSlice::new(file)]).expect("room");
    if boot::load(&engine).is_err() {
        return "refuses";
    }
    let mut client = Local::open(&engine, || {});
    loaded(KEYS.map(|key| {
        let mut reply = Vec::new();
        client.exchange(format!("EXISTS {key}\r\n").as_bytes(), &mut reply).expect("the session lives");
        reply == b":1\r\n"
    }))
}

fn own(case: &Case, engine: &Arc<Engine>) -> Outcome {
    let (payload, mut reply) = (payload(case), Vec::new());
    let head = format!("*5\r\n$7\r\nRESTORE\r\n$3\r\nodd\r\n$1\r\n0\r\n${}\r\n", payload.len());
    let request = [head.as_bytes(), &payload, b"\r\n$7\r\nREPLACE\r\n"].concat();
    Local::open(engine, || {}).exchange(&request, &mut reply).expect("the session lives");
    outcome(answer(&reply), of_file(&file(case)))
}

/// A real server, which is started anew where a file has ended it.
struct Peer {
    server: Server,
    connection: Option<Connection>,
}

impl Peer {
    fn start(kind: Kind) -> Self {
        let server = Server::start_with(kind, &["--enable-debug-command", "yes", "--save", ""]);
        Self { connection: Some(server.connect()), server }
    }

    fn ask<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Option<Vec<u8>> {
        if self.connection.is_none() {
            _ = fs::remove_file(self.server.folder().join("dump.rdb"));
            self.server.restart().expect("it starts without a file");
            self.connection = Some(self.server.connect());
        }
        let reply = self.connection.as_mut().and_then(|connection| connection.command(words).ok());
        self.connection = self.connection.take().filter(|_| reply.is_some());
        reply
    }

    fn restore(&mut self, case: &Case) -> &'static str {
        self.ask(&["CONFIG", "SET", "sanitize-dump-payload", "yes"]);
        let words: [&[u8]; 5] = [b"RESTORE", b"odd", b"0", &payload(case), b"REPLACE"];
        let answered = self.ask(&words).map_or("ends", |reply| answer(&reply));
        if case.name.contains(FREED_TWICE) {
            self.connection = None;
        } else {
            self.ask(&["DEL", "odd"]);
        }
        answered
    }

    fn load(&mut self, case: &Case) -> &'static str {
        self.ask(&["CONFIG", "SET", "sanitize-dump-payload", "no"]);
        fs::write(self.server.folder().join("dump.rdb"), file(case)).expect("the folder of the server");
        match self.ask(&["DEBUG", "RELOAD", "NOSAVE"]).as_deref() {
            Some(b"+OK\r\n") => loaded(KEYS.map(|key| self.ask(&["EXISTS", key]).as_deref() == Some(b":1\r\n"))),
            // Some servers end, and some reply.
            _ => {
                self.connection = None;
                "refuses"
            }
        }
    }
}

/// Returns the recorded outcomes of each case, those of Sleeve first.
fn recorded() -> BTreeMap<String, Vec<Outcome>> {
    let text = fs::read_to_string(FILE).expect("a file of the repository");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split('|').map(str::trim);
            let name = words.next().unwrap_or_default().to_owned();
            let rest: Vec<&str> = words.collect();
            (name, rest.chunks(2).map(|pair| outcome(pair[0], pair.get(1).unwrap_or(&""))).collect())
        })
        .collect()
}

fn record(cases: &[Case], engine: &Arc<Engine>) {
    let mut peers = PEERS.map(Peer::start);
    let mut text = "# value | Sleeve: RESTORE | file | Redis 7.0: RESTORE | file | Redis 8: RESTORE | file | Valkey: RESTORE | file\n"
        .to_owned();
    for case in cases {
        _ = write!(text, "{}", case.name);
        let mut put = |(restore, file): Outcome| _ = write!(text, " | {restore} | {file}");
        put(own(case, engine));
        peers.iter_mut().for_each(|peer| put(outcome(peer.restore(case), peer.load(case))));
        text.push('\n');
    }
    fs::write(FILE, text).expect("a file of the repository");
}

#[test]
fn odd_values_are_taken_and_refused_as_recorded() {
    let (cases, engine) = (cases::all(), Engine::new(Config::default()));
    if std::env::var_os("SLEEVE_RECORD").is_some() {
        record(&cases, &engine);
    }
    let recorded = recorded();
    assert_eq!(recorded.len(), cases.len(), "record the outcomes with SLEEVE_RECORD=1");
    for case in &cases {
        let outcomes = recorded.get(&case.name).unwrap_or_else(|| panic!("{} is not recorded", case.name));
        assert_eq!(own(case, &engine), outcomes[0], "{}", case.name);
    }
}

/// Cases in which Sleeve refuses a file that all servers load which know the type, with the reason: those servers load the
/// damage unnoticed.
const ON_PURPOSE: [(&str, &str); 5] = [
    ("12-zset-ziplist-score", "a score that is no number becomes 0"),
    ("24-hash-timed-twice", "a field twice; Redis 8 refuses it where it checks in depth"),
    ("25-hash-timed-listpack-odd", "a field without a deadline; likewise"),
    ("25-hash-timed-listpack-twice", "a field twice; likewise"),
    ("26-stream-block-count-more", "a block ends before its entries do; likewise"),
];

#[test]
fn sleeve_is_neither_stricter_nor_laxer_than_all_other_servers() {
    let recorded = recorded();
    let mut wrong = Vec::new();
    for (name, outcomes) in &recorded {
        let [(restore, file), peers @ ..] = outcomes.as_slice() else { panic!("{name} has no outcomes") };
        let known: Vec<_> = peers.iter().filter(|(restore, _)| restore != "-").collect();
        let is_on_purpose = ON_PURPOSE.iter().any(|(case, _)| case == name);
        let is_stricter = file == "refuses" && !known.is_empty() && known.iter().all(|(_, file)| file != "refuses");
        let is_laxer = restore == "takes" && !known.is_empty() && known.iter().all(|(restore, _)| restore == "refuses");
        let skips_alone = file == "skips" && known.iter().all(|(_, file)| file == "loads");
        if (is_stricter || is_laxer || skips_alone) != is_on_purpose {
            wrong.push(format!("{name}: {outcomes:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Checks that each peer answers as recorded: RESTORE of every value, and the loading of some of the files, each of which may
/// end the server.
#[test]
fn the_recorded_answers_are_those_of_real_servers() {
    const FILES_EVERY: usize = 29;
    let recorded = recorded();
    for (place, kind) in PEERS.into_iter().enumerate() {
        let mut peer = Peer::start(kind);
        for (number, case) in cases::all().iter().enumerate() {
            let (restore, file) = &recorded[&case.name][place + 1];
            let restored = peer.restore(case);
            if restored == "-" {
                // The server is an older version, which does not know the type.
                continue;
            }
            assert_eq!(restored, restore, "{} of {}", case.name, kind.name());
            if number % FILES_EVERY == place {
                assert_eq!(peer.load(case), file, "{} of {}", case.name, kind.name());
            }
        }
    }
}
