//! Tests of the gathered calls and how they leave, rule by rule, and of the part of a reply that each call gets.

use std::hash::RandomState;

use sleeve_wire::frame::{Frame, decode};

use super::call::Call;
use super::flight::{Outgoing, PreparedGathering, Receivers};
use super::gathering::{Gathering, Progress};
use super::group::Group;
use super::marks::Marks;
use super::split::{hand_out, is_refusal};
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::slot::{Completions, Handle, Payload, Source};
use crate::pipe::testing::source;
use crate::resp::request::Request;
use crate::resp::request::name::Name;

/// A gathering with its surrounding state.
struct Table {
    source: Source,
    hasher: RandomState,
    marks: Marks,
    gathering: Gathering,
    progress: Progress,
}

impl Table {
    fn new() -> Self {
        Self {
            source: source(),
            hasher: RandomState::new(),
            marks: Marks::default(),
            gathering: Gathering::default(),
            progress: Progress { sequence: 1, ..Progress::default() },
        }
    }

    /// Adds a call. Its line begins with the database if that is not 0.
    fn add(&mut self, line: &str) -> Handle {
        let (database, line) = match line.split_once(':') {
            Some((database, line)) => (database.parse().expect("a number"), line),
            None => (0, line),
        };
        let words: Vec<&str> = line.split(' ').collect();
        let write = |request: &mut Request| {
            words.iter().for_each(|word| _ = request.word(word));
            request.call(Name::of(&words));
        };
        let Self { source, hasher, marks, gathering, progress } = self;
        let added = Request::with(write, |request| {
            let call = Call::mergeable(request, database, hasher);
            let call = call.unwrap_or_else(|| Call::alone(request, database, hasher));
            let (target, handle) = source.pair(request.name);
            gathering.add(&call, target, 0, marks, progress);
            handle
        });
        added.expect("it can be sent")
    }

    /// Returns the gathering that leaves.
    fn leave(&mut self) -> PreparedGathering {
        let groups = std::mem::take(&mut self.gathering).groups;
        self.progress.merged = self.progress.sequence;
        self.progress.sequence += 1;
        PreparedGathering::of(groups, &mut self.source)
    }
}

/// Returns the requests that leave together, as lines.
fn lines(outgoing: &Outgoing) -> Vec<String> {
    let mut rest = outgoing.bytes.as_slice();
    let mut lines = Vec::new();
    for unit in &outgoing.units {
        let (bytes, after) = rest.split_at(unit.length);
        rest = after;
        let Ok((Frame::Array(items), length)) = decode(bytes) else { panic!("no request: {}", bytes.escape_ascii()) };
        assert_eq!(length, bytes.len());
        let words = items.map(|item| match item {
            Ok(Frame::Bulk(word)) => String::from_utf8_lossy(word).into_owned(),
            other => panic!("no word: {other:?}"),
        });
        let line = words.collect::<Vec<_>>().join(" ");
        lines.push(if unit.database == 0 { line } else { format!("{}:{line}", unit.database) });
    }
    assert!(rest.is_empty());
    lines
}

/// Returns the requests that leave after calls are made in this order, with callers that wait for the replies.
fn leaving(calls: &[&str]) -> Vec<String> {
    let mut table = Table::new();
    let _handles: Vec<Handle> = calls.iter().map(|line| table.add(line)).collect();
    lines(&table.leave().outgoing)
}

#[test]
fn calls_of_a_kind_leave_as_one() {
    for (calls, expected) in [
        (&["SET a 1", "SET b 2", "SET c 3"][..], &["MSET a 1 b 2 c 3"][..]),
        (&["GET a", "GET b"], &["MGET a b"]),
        (&["HGET h a", "HGET h b", "HGET i a"], &["HMGET h a b", "HGET i a"]),
        (&["SISMEMBER s a", "SISMEMBER s b"], &["SMISMEMBER s a b"]),
        (&["ZSCORE z a", "ZSCORE z b"], &["ZMSCORE z a b"]),
        (&["LPUSH l a b", "LPUSH l c"], &["LPUSH l a b c"]),
        (&["RPUSH l a", "RPUSH m a", "RPUSH l b"], &["RPUSH l a b", "RPUSH m a"]),
        (&["INCR n", "INCRBY n 5", "INCR n"], &["INCRBY n 7"]),
        (&["DECR n", "DECRBY n 5", "INCRBY n -1"], &["INCRBY n -7"]),
        (&["GET a", "GET b", "GET a", "GET a"], &["MGET a b"]),
        (&["GET a"], &["GET a"]),
        (&["INCR n"], &["INCR n"]),
        (&["SET a 1", "1:SET a 2", "SET b 3", "1:SET b 4"], &["MSET a 1 b 3", "1:MSET a 2 b 4"]),
    ] {
        assert_eq!(leaving(calls), expected, "{calls:?}");
    }
}

#[test]
fn calls_that_cannot_be_merged_go_alone_and_in_order() {
    for (calls, expected) in [
        (&["SET a 1", "SET b 2 NX", "SET c 3"][..], &["MSET a 1 c 3", "SET b 2 NX"][..]),
        (&["SET a 1", "SET a 2 NX", "SET a 3"], &["SET a 1", "SET a 2 NX", "SET a 3"]),
        (&["SET a 1", "SET c 1", "SET d 1", "EXPIRE a 5", "SET b 2"], &["MSET c 1 d 1 b 2", "SET a 1", "EXPIRE a 5"]),
        (&["SET a 1", "RENAME a b", "SET b 2", "SET c 3"], &["SET a 1", "RENAME a b", "MSET b 2 c 3"]),
        // The keys that these calls touch are unknown.
        (
            &["SET a 1", "SET b 1", "FLUSHALL", "SET c 2", "SET d 2"],
            &["SET a 1", "SET b 1", "FLUSHALL", "MSET c 2 d 2"],
        ),
        (&["SET a 1", "PUBLISH c m", "SET b 2"], &["SET a 1", "PUBLISH c m", "SET b 2"]),
        (
            &["LPUSH l a", "LPUSH l b", "EVAL x 1 l", "LPUSH l c"],
            &["LPUSH l a", "LPUSH l b", "EVAL x 1 l", "LPUSH l c"],
        ),
    ] {
        assert_eq!(leaving(calls), expected, "{calls:?}");
    }
}

#[test]
fn calls_on_a_key_keep_their_order_and_could_be_asked_again_in_it() {
    for (calls, expected) in [
        (&["SET a 1", "SET b 1", "SET a 2", "SET c 1"][..], &["MSET a 1 b 1 a 2 c 1"][..]),
        // A call on a key that appears again later is not merged: if it were refused, it would be sent again behind the later
        // call.
        (
            &["SET a 1", "SET b 1", "GET a", "GET c", "GET d", "SET b 2", "SET a 2"],
            &["MSET b 1 b 2", "SET a 1", "MGET c d", "GET a", "SET a 2"],
        ),
        (&["GET a", "GET b", "GET a", "GET c", "SET a 1"], &["MGET b c", "GET a", "GET a", "SET a 1"]),
        (&["GET a", "SET a 1", "GET a"], &["GET a", "SET a 1", "GET a"]),
        (&["SADD s a", "SREM s a", "SADD s b"], &["SADD s a", "SREM s a", "SADD s b"]),
        (&["LPUSH l a", "LPUSH l b", "RPUSH l c", "LPUSH l d"], &["LPUSH l a", "LPUSH l b", "RPUSH l c", "LPUSH l d"]),
        (&["1:SET a 1", "1:SET b 1", "GET a", "1:GET a"], &["1:SET b 1", "1:SET a 1", "GET a", "1:GET a"]),
        (&["DEL a b", "DEL c", "SET b 1"], &["DEL a b", "DEL c", "SET b 1"]),
    ] {
        assert_eq!(leaving(calls), expected, "{calls:?}");
    }
}

#[test]
fn a_number_goes_one_way_at_a_time_and_never_out_of_range() {
    let most = i64::MAX.to_string();
    let (up, down) = (format!("INCRBY n {most}"), format!("DECRBY n {most}"));
    for (calls, expected) in [
        (&["INCR n", "DECR n", "INCR n"][..], vec!["INCR n", "DECR n", "INCR n"]),
        (&["INCRBY n 0", "DECR n", "INCRBY n 0", "DECR n"], vec!["INCRBY n -2"]),
        (&[&up, "INCR n"], vec![&up, "INCR n"]),
        (&[&down, "DECR n", "DECR n"], vec![&down, "DECR n", "DECR n"]),
        (&["INCRBY n five", "INCR n", "INCR n"], vec!["INCRBY n five", "INCRBY n 2"]),
        (&["INCR n", "INCRBY n -1", "INCR m", "INCR m"], vec!["INCR n", "INCRBY n -1", "INCRBY m 2"]),
    ] {
        assert_eq!(leaving(calls), expected, "{calls:?}");
    }
}

#[test]
fn unread_neighbours_merge_only_if_the_count_is_meaningless() {
    let leaving = |calls: &[(&str, bool)]| {
        let mut table = Table::new();
        let read: Vec<Handle> = calls
            .iter()
            .filter_map(|(line, is_read)| {
                let handle = table.add(line);
                // A forgotten and a dropped reply are the same to the gatherer.
                if line.ends_with('f') {
                    drop(handle.forget());
                    None
                } else {
                    is_read.then_some(handle)
                }
            })
            .collect();
        let lines = lines(&table.leave().outgoing);
        drop(read);
        lines
    };
    for (calls, expected) in [
        (&[("DEL a", false), ("DEL b c", false), ("DEL f", false)][..], &["DEL a b c f"][..]),
        (
            &[("DEL a", false), ("DEL b", false), ("DEL c", true), ("DEL d", false), ("DEL e", false)],
            &["DEL a b", "DEL c", "DEL d e"],
        ),
        (&[("SADD s a", true), ("SADD s b", true)], &["SADD s a", "SADD s b"]),
        (&[("SADD s a", false), ("SADD t a", false), ("SADD s b", false)], &["SADD s a b", "SADD t a"]),
        (&[("HSET h a 1", false), ("HSET h b 2 c 3", false)], &["HSET h a 1 b 2 c 3"]),
        (
            &[("ZADD z 1 a", false), ("ZADD z CH 1 b", false), ("ZADD z 2 c", false), ("ZADD z 3 d", false)],
            &["ZADD z 1 a", "ZADD z CH 1 b", "ZADD z 2 c 3 d"],
        ),
        (&[("ZADD z 1 a", false), ("ZADD z 2 b", false)], &["ZADD z 1 a 2 b"]),
        (&[("PFADD p a", false), ("PFADD p", false)], &["PFADD p a"]),
        (
            &[("UNLINK a", false), ("UNLINK b", false), ("TOUCH c", false), ("TOUCH d", false)],
            &["UNLINK a b", "TOUCH c d"],
        ),
    ] {
        assert_eq!(leaving(calls), expected, "{calls:?}");
    }
}

#[test]
fn calls_on_keys_of_a_merged_command_in_flight_are_held_back() {
    let mut table = Table::new();
    let _gone: Vec<Handle> = ["SET a 1", "SET b 2", "GET c"].map(|line| table.add(line)).into();
    let prepared = table.leave();
    for (group, touch) in prepared.alone {
        touch.keys().for_each(|key| table.marks.forget(key, 1, group));
    }
    let progress = table.progress;
    // A call that left alone holds back no later gathering.
    for (line, is_free) in [
        ("SET d 1", true),
        ("SET c 1", true),
        ("EXPIRE c 5", true),
        ("EXPIRE b 5", false),
        ("GET a", false),
        ("PING", false),
    ] {
        table.gathering = Gathering::default();
        let _handle = table.add(line);
        assert_eq!(table.gathering.is_free(progress), is_free, "{line}");
        assert!(table.gathering.is_free(Progress { answered: 1, ..progress }), "{line}");
    }
}

/// Returns the answers that these calls get from this reply to the command that they became, and the calls that are asked
/// again.
fn answers_to(calls: &[&str], reply: Payload) -> (Vec<Option<Result<String, Error>>>, Vec<String>) {
    let mut table = Table::new();
    let handles: Vec<Handle> = calls.iter().map(|line| table.add(line)).collect();
    let mut prepared = table.leave();
    let outcome = prepared.awaited.pop_front().expect("something is waited for").outcome;
    let Receivers::Parts(group) = outcome else { panic!("it went alone") };
    let again: Option<Group> = hand_out(reply, group, &mut Completions::default());
    let again = again.map(Outgoing::one_by_one);
    let lines = again.as_ref().map(lines).unwrap_or_default();
    let shown = |payload: Payload| match payload {
        Payload::Failed(error) => Err(error),
        payload => Ok(match payload.frame() {
            Ok(Frame::Simple(text)) => format!("+{}", text.escape_ascii()),
            Ok(Frame::Bulk(text)) => format!("${}", text.escape_ascii()),
            Ok(Frame::Double(text)) => format!(",{}", text.escape_ascii()),
            Ok(Frame::Integer(number)) => format!(":{number}"),
            Ok(Frame::Null) => "nil".to_owned(),
            other => panic!("{other:?}"),
        }),
    };
    let answers = handles.into_iter().map(|handle| handle.take().ok().map(shown)).collect();
    drop(again);
    (answers, lines)
}

fn of(reply: &str) -> Payload {
    Payload::of(reply.as_bytes())
}

fn texts(answers: Vec<Option<Result<String, Error>>>) -> Vec<String> {
    let text = |answer: Option<Result<_, _>>| answer.map_or("?".to_owned(), |answer| answer.expect("no error"));
    answers.into_iter().map(text).collect()
}

#[test]
fn each_caller_gets_its_part() {
    for (calls, reply, expected) in [
        (&["SET a 1", "SET b 2"][..], "+OK\r\n", &["+OK", "+OK"][..]),
        (&["GET a", "GET b", "GET a"], "*2\r\n$1\r\nx\r\n$0\r\n\r\n", &["$x", "$", "$x"]),
        (&["HGET h a", "HGET h b"], "*2\r\n$-1\r\n$1\r\ny\r\n", &["nil", "$y"]),
        (&["SISMEMBER s a", "SISMEMBER s a"], "*2\r\n:1\r\n:0\r\n", &[":1", ":0"]),
        (&["ZSCORE z a", "ZSCORE z b"], "*2\r\n,1.5\r\n_\r\n", &[",1.5", "nil"]),
        (&["LPUSH l a", "LPUSH l b c", "LPUSH l d"], ":10\r\n", &[":7", ":9", ":10"]),
        (&["INCR n", "INCRBY n 5", "INCR n"], ":10\r\n", &[":4", ":9", ":10"]),
        (&["DECR n", "DECR n"], ":-9223372036854775808\r\n", &[":-9223372036854775807", ":-9223372036854775808"]),
    ] {
        let (answers, again) = answers_to(calls, of(reply));
        assert_eq!(texts(answers), expected, "{calls:?}");
        assert!(again.is_empty(), "{again:?}");
    }
}

#[test]
fn a_nil_that_may_be_an_error_is_asked_again() {
    for nil in ["$-1\r\n", "_\r\n"] {
        let (answers, again) =
            answers_to(&["GET a", "GET b", "GET c", "GET b"], of(&format!("*3\r\n$1\r\nx\r\n{nil}$1\r\ny\r\n")));
        assert_eq!(again, ["GET b", "GET b"]);
        assert_eq!(texts(answers), ["$x", "?", "$y", "?"]);
    }
}

#[test]
fn an_error_of_the_server_has_each_asked_alone_with_its_own_words() {
    let calls = ["INCR n", "DECRBY n -5", "INCRBY n 2"];
    let (answers, again) = answers_to(&calls, of("-ERR increment or decrement would overflow\r\n"));
    assert!(answers.iter().all(Option::is_none));
    assert_eq!(again, calls);
    for (calls, error) in [
        (["SET a 1", "SET b 2"], "-OOM command not allowed when used memory > 'maxmemory'.\r\n"),
        (["LPUSH l a b", "LPUSH l c"], "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        (["HGET h a", "HGET h b"], "-NOPERM no\r\n"),
    ] {
        assert_eq!(answers_to(&calls, of(error)).1, calls);
    }
}

#[test]
fn a_connection_error_fails_all_merged_calls() {
    let (answers, again) = answers_to(&["SET a 1", "SET b 2"], Payload::Failed(Error::disconnected("on purpose")));
    assert!(again.is_empty());
    for answer in answers {
        let error = answer.expect("it is told").expect_err("it failed");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown));
    }
}

#[test]
fn an_impossible_reply_is_an_error_and_no_call_gets_anothers_reply() {
    for (calls, reply) in [
        (["GET a", "GET b"], "*1\r\n$1\r\nx\r\n"),
        (["GET a", "GET b"], "*3\r\n$1\r\nx\r\n$1\r\ny\r\n$1\r\nz\r\n"),
        (["GET a", "GET b"], "+OK\r\n"),
        (["LPUSH l a", "LPUSH l b"], "$1\r\n2\r\n"),
        (["INCR n", "INCRBY n 9223372036854775806"], ":-9223372036854775808\r\n"),
    ] {
        let (answers, again) = answers_to(&calls, of(reply));
        assert!(again.is_empty());
        let first = answers.into_iter().next().flatten().expect("it is told");
        assert_eq!(first.expect_err("it failed").kind(), ErrorKind::Protocol, "{reply:?}");
    }
}

#[test]
fn refusals_that_stay_are_known() {
    for (reply, stays) in [
        ("-ERR unknown command 'SMISMEMBER', with args beginning with: \r\n", true),
        ("-NOPERM User default has no permissions to run the 'mset' command\r\n", true),
        ("-NOPERM No permissions to access a key\r\n", false),
        ("-CROSSSLOT Keys in request don't hash to the same slot\r\n", true),
        ("-OOM command not allowed when used memory > 'maxmemory'.\r\n", false),
        ("+OK\r\n", false),
    ] {
        assert_eq!(is_refusal(&of(reply)), stays, "{reply}");
    }
}
