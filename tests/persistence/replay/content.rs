//! Everything that an engine holds, as lines to compare. One thread asks at a time.

use std::sync::Arc;
use std::thread;

use sleeve_server::host::clock::Instant;
use sleeve_server::{Engine, Local};
use sleeve_tests::connection::request;
use sleeve_tests::generator::Words;
use sleeve_tests::transcript::escape::escape;
use sleeve_tests::transcript::frame::{leaves, sorted};

/// The number of databases: those that the generator uses, and one more.
const DATABASES: usize = 4;

/// The engine that is asked, and the time to use, if not the present.
struct Asker {
    local: Local,
    now: Option<Instant>,
}

impl Asker {
    fn ask(&mut self, words: &[Vec<u8>]) -> Vec<u8> {
        let Some(now) = self.now else { return ask(&mut self.local, words) };
        let mut replies = Vec::new();
        self.local.exchange_at(now, &request(words), &mut replies).expect("nothing here ends a session");
        replies
    }

    fn ask_text(&mut self, text: &str) -> Vec<u8> {
        self.ask(&words(text))
    }

    fn ask_about(&mut self, text: &str, key: &[u8]) -> Vec<u8> {
        self.ask(&words(text).into_iter().chain([key.to_vec()]).collect::<Words>())
    }
}

/// Sends a command and waits for its reply.
pub fn ask(local: &mut Local, words: &[Vec<u8>]) -> Vec<u8> {
    let mut replies = Vec::new();
    local.exchange(&request(words), &mut replies).expect("nothing here ends a session");
    replies
}

/// Sends a command that is written with spaces between its words.
pub fn ask_text(local: &mut Local, text: &str) -> Vec<u8> {
    ask(local, &words(text))
}

fn words(text: &str) -> Words {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Returns all data as lines: each key of each database with its type, deadlines and digest, the groups of streams, the
/// functions, and the digest of all.
pub fn contents(engine: &Arc<Engine>) -> Vec<String> {
    contents_by(Asker { local: Local::open(engine, || {}), now: None })
}

/// Returns the contents as they look at this time.
pub fn contents_at(engine: &Arc<Engine>, now: Instant) -> Vec<String> {
    contents_by(Asker { local: Local::open_at(engine, now, || {}), now: Some(now) })
}

fn contents_by(mut asker: Asker) -> Vec<String> {
    let mut lines = Vec::new();
    for database in 0..DATABASES {
        asker.ask_text(&format!("SELECT {database}"));
        let mut names = leaves(&asker.ask_text("KEYS *"));
        names.sort();
        for name in &names {
            let about = describe(&mut asker, name);
            lines.push(format!("db{database} {} {about}", escape(name)));
        }
        // This also counts expired keys, which are hidden from everything else.
        lines.push(format!("db{database} {} keys", escape(&asker.ask_text("DBSIZE"))));
    }
    lines.push(format!("functions {}", escape(&sorted(&asker.ask_text("FUNCTION LIST WITHCODE"), false))));
    lines.push(format!("digest {}", escape(&asker.ask_text("DEBUG DIGEST"))));
    lines
}

fn describe(asker: &mut Asker, name: &[u8]) -> String {
    let kind = leaves(&asker.ask_about("TYPE", name)).concat();
    let more = match kind.as_slice() {
        b"stream" => {
            let key = [words("XINFO STREAM"), vec![name.to_vec()], words("FULL COUNT 1")].concat();
            without_clock(&escape(&asker.ask(&key)))
        }
        b"hash" => deadlines(asker, name, "HPEXPIRETIME"),
        _ => String::new(),
    };
    let [deadline, digest] = ["PEXPIRETIME", "DEBUG DIGEST-VALUE"].map(|question| asker.ask_about(question, name));
    format!("{} {} {} {more}", escape(&kind), escape(&deadline), escape(&digest))
}

/// Returns the deadlines of all fields of a hash, as the command `question` returns them.
fn deadlines(asker: &mut Asker, name: &[u8], question: &str) -> String {
    let mut fields = leaves(&asker.ask_about("HKEYS", name));
    fields.sort();
    let head =
        [words(question), vec![name.to_vec(), b"FIELDS".to_vec(), fields.len().to_string().into_bytes()]].concat();
    escape(&asker.ask(&[head, fields].concat()))
}

/// Returns a description of a stream without the times at which its consumers were last seen, which are of no consequence.
fn without_clock(text: &str) -> String {
    without_numbers(text, &["seen-time\\r\\n:", "active-time\\r\\n:"])
}

/// Returns a text without the numbers that stand behind these words.
pub fn without_numbers(text: &str, words: &[&str]) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some(place) = words.iter().filter_map(|word| Some(rest.find(word)? + word.len())).min() {
        kept.push_str(&rest[..place]);
        rest = rest[place..].trim_start_matches(|digit: char| digit == '-' || digit.is_ascii_digit());
    }
    kept + rest
}

/// Waits until no key is about to expire, so that both engines are asked about the same keys and fields, and expired ones
/// have been removed.
pub fn settle(engine: &Arc<Engine>) {
    let mut asker = Asker { local: Local::open(engine, || {}), now: None };
    for database in 0..DATABASES {
        asker.ask_text(&format!("SELECT {database}"));
        // Unlike KEYS, SCAN removes keys that have expired.
        let scanned = leaves(&asker.ask_text("SCAN 0 COUNT 1000000"));
        let (cursor, names) = scanned.split_first().expect("a cursor and the keys");
        assert_eq!(cursor, b"0", "one step goes over all keys");
        for name in names {
            while is_soon(&asker.ask_about("PTTL", name)) || fields_are_soon(&mut asker, name) {
                thread::yield_now();
            }
            // Each look at a large hash removes some of its fields.
            let fields = leaves(&asker.ask_about("HLEN", name)).concat().len();
            (0..fields * 10).for_each(|_| drop(asker.ask_about("HLEN", name)));
        }
    }
}

fn fields_are_soon(asker: &mut Asker, name: &[u8]) -> bool {
    let is_hash = asker.ask_about("TYPE", name) == b"+hash\r\n";
    is_hash && deadlines(asker, name, "HPTTL").split("\\r\\n").any(|part| is_soon(part.as_bytes()))
}

/// Returns whether a number is a time of less than a second.
fn is_soon(reply: &[u8]) -> bool {
    let digits = std::str::from_utf8(reply).unwrap_or_default().trim_start_matches(':').trim_end();
    digits.parse::<i64>().is_ok_and(|milliseconds| (0..1000).contains(&milliseconds))
}
