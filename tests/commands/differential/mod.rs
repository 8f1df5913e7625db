//! A comparison of several servers under the same random commands: of every reply, and of all data at the end.
//!
//! Sleeve with one worker, Sleeve with two, and the yardstick get the same commands in the same order. A run comes in
//! segments, each with a seed of its own and empty servers at its beginning. If a reply differs, the test thins out the steps
//! before it for as long as the difference stays, and prints the remaining steps with the seed. The commands come from the
//! grammar in the command table; `SLEEVE_SEED` chooses others, `cargo xtask soak differential --count N` runs more.

mod content;
mod group;
mod reply;
mod shorten;

use group::{CONNECTIONS, OPTIONS, Servers, Step};
use sleeve_tests::generator::{Generator, RANDOM, Scope, Words};
use sleeve_tests::random::seed;
use sleeve_tests::soak;
use sleeve_tests::transcript::frame::leaves;
use sleeve_tests::{Kind, Server};
use sleeve_wire::commands::Group;

/// The number of different faults after which a run ends, because more would be of the same kinds.
const FAULTS_MAX: usize = 12;

/// The number of commands between two comparisons of all data, after which the data is deleted.
const SEGMENT: usize = 20_000;

/// The most commands that are sent together.
const TOGETHER_MAX: usize = 100;

/// Commands that other servers do not have yet, or have under the same name with another meaning.
const NOT_ON_VALKEY: &[&str] = &["hgetdel", "sort", "sort_ro"];

/// Commands that changed in 7.2: consumers show more, are created and removed at other times, and lag is counted better.
const CHANGED_SINCE_7_0: &[&str] = &["xinfo|consumers", "xinfo|stream", "xinfo|groups", "xgroup|delconsumer", "xsetid"];

/// Makes the steps of a segment.
struct Steps {
    generator: Generator,
    /// Connections that are in a transaction, as far as the generator knows.
    in_transaction: [bool; CONNECTIONS],
}

impl Steps {
    fn new(seed: u64, scope: &Scope) -> Steps {
        Steps { generator: Generator::new(seed, scope.clone()), in_transaction: [false; CONNECTIONS] }
    }

    /// Returns some steps on one connection.
    fn next(&mut self) -> Vec<Step> {
        let random = self.generator.random();
        let connection = random.below(CONNECTIONS);
        let count = if random.once_in(4) { 1 + random.below(3) } else { 1 + random.below(TOGETHER_MAX) };
        let mut steps = vec![];
        if random.once_in(30) {
            let (option, _) = *random.pick(OPTIONS);
            let value = *random.pick(&["0", "4", "16", "64", "128", "512"]);
            let value =
                if option == "list-max-listpack-size" { *random.pick(&["-1", "-2", "4", "16", "128"]) } else { value };
            let words = ["CONFIG", "SET", option, value].map(|word| word.as_bytes().to_vec());
            // Redis 7.0 knows no packed sets.
            if !option.starts_with("set-max-listpack") {
                steps.push(Step::Send(connection, words.to_vec()));
            }
        }
        for _ in 0..count {
            let step = self.step(connection);
            let consumers = step.words().map(consumers).unwrap_or_default();
            steps.push(step);
            steps.extend(consumers.into_iter().map(|words| Step::Send(connection, words)));
        }
        steps
    }

    fn step(&mut self, connection: usize) -> Step {
        let in_transaction = &mut self.in_transaction[connection];
        let words = if *in_transaction { self.generator.command_in_transaction() } else { self.generator.command() };
        let name = String::from_utf8_lossy(&words[0]).to_ascii_lowercase();
        match name.as_str() {
            "multi" => *in_transaction = true,
            "exec" | "discard" => *in_transaction = false,
            _ => {}
        }
        if RANDOM.contains(&name.as_str()) {
            let chooser = self.generator.random().below(CONNECTIONS);
            return Step::Choose(connection, words, chooser);
        }
        Step::Send(connection, words)
    }
}

/// Returns the requests that create the consumers of a group that a command makes. Since 7.2 consumers are created by a
/// request, before that by an entry that they receive.
fn consumers(words: &Words) -> Vec<Words> {
    let is = |index: usize, name: &str| words.get(index).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    let make = |name: &str| {
        let head = [b"XGROUP", b"CREATECONSUMER".as_slice(), &words[2], &words[3], name.as_bytes()];
        head.iter().map(|word| word.to_vec()).collect()
    };
    if is(0, "XGROUP") && is(1, "CREATE") && words.len() > 4 {
        ["alice", "bob", "carol"].map(make).to_vec()
    } else {
        Vec::new()
    }
}

/// Returns the commands that the yardstick knows, with the options of its version.
fn scope(yardstick: &Server) -> Scope {
    let mut scope = Scope { clock: false, ..Scope::default() };
    let known = leaves(&reply::ask(&mut yardstick.connect(), &[b"COMMAND".to_vec(), b"LIST".to_vec()]));
    let is_valkey = yardstick.kind() == Kind::Valkey;
    // The table's versions are those of Redis; Valkey has the options of 7.2, where it went its own way.
    scope.newest = if is_valkey { (7, 2) } else { (7, 0) };
    scope.entries_read = !is_valkey;
    scope.rows.retain(|row| {
        let is_known = known.iter().any(|name| name == row.full_name.as_bytes());
        let is_changed = CHANGED_SINCE_7_0.contains(&row.full_name) && !is_valkey;
        let is_compared = matches!(
            row.group,
            Group::Generic | Group::List | Group::Set | Group::Hash | Group::SortedSet | Group::Stream | Group::Geo
        );
        let is_other = NOT_ON_VALKEY.contains(&row.full_name) || !is_compared;
        is_known && !is_changed && !(is_valkey && is_other)
    });
    scope
}

/// Sends `commands` commands to all servers and lists the differences, shortened.
fn compare(servers: &[Server], protocol: u8, seed: u64, commands: usize) -> Vec<String> {
    let scope = servers.last().map(scope).unwrap_or_default();
    let mut faults: Vec<String> = Vec::new();
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let mut sent = 0;
    while sent < commands && faults.len() < FAULTS_MAX {
        let segment_seed = seed.wrapping_mul(1_000_003).wrapping_add(u64::try_from(sent).unwrap_or(0));
        let mut steps = Steps::new(segment_seed, &scope);
        let mut group = Servers::new(servers, protocol);
        let mut history: Vec<Step> = Vec::new();
        while history.len() < SEGMENT {
            let begin = history.len();
            history.extend(steps.next());
            if history.len() >= SEGMENT {
                history.push(Step::Look);
            }
            let Some((index, replies)) = group.run(&history[begin..]) else { continue };
            history.truncate(begin + index + 1);
            let name =
                history.last().and_then(Step::words).map(|words| words[0].to_ascii_lowercase()).unwrap_or_default();
            if !seen.contains(&name) {
                seen.push(name);
                let fault = shorten::describe(&group, &history, &replies);
                eprintln!("segment {segment_seed}:\n{fault}");
                faults.push(fault);
            }
            // The servers no longer hold the same data.
            break;
        }
        sent += history.len();
    }
    faults
}

fn start(kind: Kind, arguments: &[&str]) -> Server {
    Server::start_with(kind, &[&["--enable-debug-command", "yes"], arguments].concat())
}

fn assert_same(yardstick: Kind, protocol: u8, seed: u64, commands: usize) {
    let encodings = if yardstick == Kind::Redis { "7.0" } else { "7.2" };
    let sleeve = |workers| start(Kind::Sleeve, &["--workers", workers, "--encodings", encodings]);
    let servers = [sleeve("1"), sleeve("2"), start(yardstick, &[])];
    let faults = compare(&servers, protocol, seed, commands);
    let count = faults.len();
    assert!(faults.is_empty(), "seed {seed}, RESP{protocol}: {count} commands differ\n{}", faults.join("\n"));
}

#[test]
fn redis_agrees_with_redis() {
    let servers = [start(Kind::Redis, &[]), start(Kind::Redis, &[])];
    let faults = compare(&servers, 2, seed(1), soak::count(20_000));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn sleeve_agrees_with_redis_in_resp2() {
    assert_same(Kind::Redis, 2, seed(7), soak::count(500_000));
}

#[test]
fn sleeve_agrees_with_redis_in_resp3() {
    assert_same(Kind::Redis, 3, seed(11), soak::count(500_000));
}

#[test]
fn sleeve_agrees_with_valkey() {
    assert_same(Kind::Valkey, 3, seed(13), soak::count(100_000));
}
