//! The refusals, their conditions and their words: for every command, and for scripts by their flags, in every state that
//! refuses; sent by itself, queued while the state holds, queued before it began, and called by a script.
//!
//! `refusals/recorded.txt` holds the answers of real servers, so that no peer is needed to compare with them. With
//! `SLEEVE_RECORD=1` in the environment `the_answers_are_those_of_real_servers` writes the file instead of comparing; that
//! takes minutes, and `SLEEVE_STATE` names the states that are asked anew. Redis 7.0 is the reference for which request is
//! refused when; the words that 7.2 changed, and commands that 7.0 lacks, come from Redis 8, and commands that both lack from
//! Valkey.

mod recorded;
mod requests;
mod states;

use std::collections::BTreeMap;
use std::io;

use sleeve_tests::{Connection, Kind, Server};
use sleeve_wire::frame::Scanner;

use recorded::Answers;
use requests::Asked;
use states::{Position, Stage, State};

/// The number of requests with connections that are open at the same time.
const AT_ONCE: usize = 200;

/// Asks everything of one server.
fn answers_of(server: &Server, wanted: impl Fn(State, Position) -> bool) -> Answers {
    let mut answers = BTreeMap::new();
    let asked = requests::all(&mut server.connect());
    let mut stage = Stage::new(server);
    for state in State::ALL.into_iter().filter(|state| state.is_wanted()) {
        for &position in state.positions().iter().filter(|&&position| wanted(state, position)) {
            let meant: Vec<&Asked> =
                asked.iter().filter(|asked| position != Position::Script || asked.is_command).collect();
            let of_position: &mut BTreeMap<String, String> =
                answers.entry((state.name(), position.name())).or_default();
            for some in meant.chunks(AT_ONCE) {
                let said = ask(&mut stage, state, position, some);
                of_position.extend(some.iter().map(|asked| asked.name.clone()).zip(said));
            }
        }
    }
    answers
}

/// Sends some requests in one state and position. Each has a connection of its own, because some change theirs; scripts do
/// not.
fn ask(stage: &mut Stage<'_>, state: State, position: Position, asked: &[&Asked]) -> Vec<String> {
    stage.prepare(state);
    let count = if position == Position::Script { 1 } else { asked.len() };
    let mut connections: Vec<Connection> = (0..count).map(|_| stage.connect(state)).collect();
    for (connection, asked) in connections.iter_mut().zip(asked) {
        if matches!(position, Position::Queued | Position::Changed) {
            connection.command(&["MULTI"]).expect("a reply");
        }
        if position == Position::Changed {
            states::before(state, connection);
            _ = connection.command(&asked.words);
        }
    }
    stage.begin(state);
    // A request that a pause holds is answered when the pause ends.
    let said = if state.is_pause() {
        held(stage, position, &mut connections, asked)
    } else {
        let each = asked.iter().enumerate();
        each.map(|(number, asked)| answer(state, position, &mut connections[number % count], asked)).collect()
    };
    stage.end(state);
    let each = said.into_iter().zip(asked);
    each.map(|(said, asked)| said.replace(&format!("'{}'", asked.name), "'{}'")).collect()
}

fn answer(state: State, position: Position, connection: &mut Connection, asked: &Asked) -> String {
    match position {
        Position::Plain => {
            states::before(state, connection);
            word_of(connection.command(&asked.words))
        }
        Position::Queued => match word_of(connection.command(&asked.words)) {
            queued if queued == CLOSED => queued,
            queued => format!("{queued} / {}", word_of_exec(connection.command(&["EXEC"]))),
        },
        Position::Changed => word_of_exec(connection.command(&["EXEC"])),
        Position::Script => {
            let script = ["EVAL", "return redis.pcall(unpack(ARGV))", "0"].map(str::to_owned);
            word_of(connection.command(&[script.as_slice(), &asked.words].concat()))
        }
    }
}

/// Returns which of the requests a pause holds. A server with one worker, which has answered another connection several
/// times, has looked at each.
fn held(stage: &mut Stage<'_>, position: Position, connections: &mut [Connection], asked: &[&Asked]) -> Vec<String> {
    for (connection, asked) in connections.iter_mut().zip(asked) {
        let exec = vec!["EXEC".to_owned()];
        let words = if position == Position::Changed { &exec } else { &asked.words };
        connection.send(&sleeve_tests::connection::request(words)).expect("the server listens");
    }
    (0..4).for_each(|_| stage.look());
    let looks = connections.iter_mut().map(|connection| connection.reply_within(std::time::Duration::from_millis(1)));
    let word = if position == Position::Changed { word_of_exec } else { word_of };
    let said: Vec<_> = looks.map(|look| look.transpose().map_or("held".to_owned(), word)).collect();
    stage.end_pause();
    for (connection, _) in connections.iter_mut().zip(&said).filter(|(_, said)| *said == "held") {
        _ = connection.reply();
    }
    said
}

const CLOSED: &str = "closed";

/// Returns the text of a refusal, or the outcome of the request otherwise. This test ignores the answer of the command
/// itself.
fn word_of(reply: io::Result<Vec<u8>>) -> String {
    let Ok(reply) = reply else { return CLOSED.to_owned() };
    if reply == b"+QUEUED\r\n" {
        return "queued".to_owned();
    }
    match reply.strip_prefix(b"-").map(|text| String::from_utf8_lossy(text).trim_end().to_owned()) {
        Some(text) if REFUSALS.iter().any(|refusal| text.starts_with(refusal)) => text,
        _ => "runs".to_owned(),
    }
}

/// Returns the same for each reply of a transaction.
fn word_of_exec(reply: io::Result<Vec<u8>>) -> String {
    match reply {
        Ok(reply) if reply.starts_with(b"*") => {
            let elements: Vec<String> = elements(&reply).into_iter().map(|element| word_of(Ok(element))).collect();
            format!("[{}]", elements.join(", "))
        }
        reply => word_of(reply),
    }
}

/// Returns the elements of an array as they came.
fn elements(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &reply[reply.iter().position(|&byte| byte == b'\n').map_or(reply.len(), |end| end + 1)..];
    let mut elements = Vec::new();
    while let Ok(Some(length)) = Scanner::new().scan(rest) {
        elements.push(rest[..length].to_vec());
        rest = &rest[length..];
    }
    elements
}

/// The beginnings of refusals.
const REFUSALS: [&str; 20] = [
    "READONLY",
    "MASTERDOWN",
    "OOM ",
    "NOREPLICAS",
    "MISCONF",
    "LOADING",
    "BUSY ",
    "NOPERM",
    "NOAUTH",
    "EXECABORT",
    "REDIRECT",
    "ERR Can't execute",
    "ERR Command not allowed inside",
    "ERR This Redis command is not allowed from",
    "ERR This Valkey command is not allowed from",
    "ERR Replica can't",
    "ERR Write commands are not",
    "ERR Can not",
    "ERR ACL failure",
    "ERR The user executing",
];

/// Deliberate differences (docs/differences.md), and the commands that Valkey alone forbids in a transaction.
const DELIBERATE: [(&str, &str); 12] = [
    ("busy", "watch"),
    ("key denied", "pfmerge"),
    ("redirected", "client|reply"),
    ("redirected", "multi"),
    ("redirected", "watch"),
    ("redirected", "shutdown"),
    ("loading", "cluster|info"),
    ("loading", "cluster|myid"),
    ("loading", "cluster|myshardid"),
    ("loading", "cluster|nodes"),
    ("loading", "cluster|shards"),
    ("loading", "cluster|slots"),
];

fn compare(server: &Server) {
    let (recorded, said) = (recorded::read(), answers_of(server, |_, _| true));
    let mut differences = Vec::new();
    for ((state, position), of_position) in &said {
        let of_record = &recorded[&(*state, *position)];
        for (name, said) in of_position {
            let Some(wanted) = of_record.get(name) else { continue };
            if said != wanted && !DELIBERATE.contains(&(*state, name.as_str())) {
                differences.push(format!("{state} | {position} | {name}\n  wanted {wanted}\n  said   {said}"));
            }
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn refusals_are_those_of_real_servers_with_one_worker() {
    compare(&Server::start_with(Kind::Sleeve, &[&["--workers", "1"], states::ARGUMENTS].concat()));
}

#[test]
fn every_command_is_asked_or_known_to_no_other_server() {
    let recorded = recorded::read();
    let of_plain = &recorded[&(State::Healthy.name(), Position::Plain.name())];
    let missing: Vec<&str> = requests::names().filter(|name| !of_plain.contains_key(*name)).collect();
    assert_eq!(missing, requests::OF_NOBODY_ELSE);
}

/// Asks each server for the answers of which it is the reference.
#[test]
fn the_answers_are_those_of_real_servers() {
    let is_recording = std::env::var_os("SLEEVE_RECORD").is_some();
    let mut said = Answers::new();
    // If nothing is recorded, only one server is asked, each request once and alone: more would take minutes.
    for kind in if is_recording { &[Kind::Redis, Kind::Redis8, Kind::Valkey][..] } else { &[Kind::Redis] } {
        let server = Server::start_with(*kind, &[states::ARGUMENTS, states::ARGUMENTS_OF_PEERS].concat());
        let is_asked = |state: State, position| {
            let is_quick = position == Position::Plain && state != State::Loading;
            state.is_asked(*kind, position) && (is_recording || is_quick)
        };
        recorded::merge(&mut said, answers_of(&server, is_asked), *kind);
    }
    let mut recorded = recorded::read();
    if is_recording {
        recorded.extend(said);
        return recorded::write(&recorded);
    }
    for (place, of_position) in &said {
        for (name, said) in of_position.iter().filter(|(name, _)| states::reference(place, name) == Kind::Redis) {
            assert_eq!(recorded[place].get(name), Some(said), "{place:?}: {name}");
        }
    }
}
