//! Timeouts: reported in time however much is queued, and reported truthfully.

use std::time::{Duration, Instant};

use sleeve_wire::frame::Frame;

use super::reply_reader::ReplyReader;
use super::slot::Completions;
use super::testing::source;
use super::timeout::Situation;
use super::transaction_state::{Check, Watch};
use super::*;
use crate::config::{Endpoint, Resend};
use crate::error::{Effect, Error};
use crate::resp::request::name::Name;
use queue::UNWATCH;

fn unnamed(bytes: &[u8]) -> EncodedRequest<'_> {
    EncodedRequest { bytes, name: Name::UNKNOWN }
}

fn situation() -> Situation<'static> {
    static ENDPOINT: Endpoint = Endpoint::Embedded(None);
    Situation { endpoint: &ENDPOINT, limit: Some(Duration::from_millis(100)), trouble: None, ledger: None }
}

fn pipe() -> Pipe {
    Pipe::new(0, source())
}

fn lend_all(pipe: &mut Pipe) -> String {
    let mut text = String::new();
    while let Some((bytes, written)) = pipe.lend() {
        text.push_str(&String::from_utf8_lossy(&bytes[written..]));
        let length = bytes.len() - written;
        pipe.wrote(bytes, length);
    }
    text
}

fn effect(handle: Handle) -> Effect {
    handle.take().ok().expect("it is done").frame().expect_err("it failed").effect()
}

/// Returns a reply of a string of this length.
fn bulk(length: usize) -> Vec<u8> {
    let text: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
    [format!("${length}\r\n").as_bytes(), &text, b"\r\n"].concat()
}

/// Checks that large replies are moved once at most, and that no single read takes long.
#[test]
fn large_replies_come_whole_in_reads_of_bounded_length() {
    let lengths = [3, 700_000, 5, 0, 300_000, 300_000, 250_000, 1, 3_000_000, 2_000_000, 7];
    let lengths = if cfg!(miri) { &[3, 300_000, 5][..] } else { &lengths };
    let (mut pipe, mut reply_reader, mut done) = (pipe(), ReplyReader::default(), Completions::default());
    pipe.connect();
    let handles: Vec<Handle> = lengths.iter().map(|_| pipe.push(0, unnamed(b"*1\r\n$1\r\nA\r\n"), 0)).collect();
    lend_all(&mut pipe);
    let replies: Vec<Vec<u8>> = lengths.iter().map(|&length| bulk(length)).collect();
    let bytes = replies.join(&b">1\r\n+message\r\n"[..]);
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let room = reply_reader.room();
        assert!((1..=320 * 1024).contains(&room.len()), "{}", room.len());
        let count = room.len().min(rest.len());
        room[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        let replies = reply_reader.filled(count).expect("they are replies");
        assert!(pipe.take(replies, &mut reply_reader.pending));
        assert!(reply_reader.deliver(&mut done).expect("they are asked for").is_none());
    }
    for (handle, reply) in handles.into_iter().zip(&replies) {
        let payload = handle.take().ok().expect("it is done");
        assert!(payload.frame() == sleeve_wire::frame::decode(reply).map(|(frame, _)| frame).map_err(Error::protocol));
    }
}

/// Checks that the replies of a transaction stay where they are until the last is there, however many they are.
#[test]
fn a_long_transaction_is_answered_when_all_its_replies_have_come() {
    let count = if cfg!(miri) { 200 } else { 40_000 };
    let (mut pipe, mut reply_reader, mut done) = (pipe(), ReplyReader::default(), Completions::default());
    pipe.connect();
    let before = pipe.push(0, unnamed(b"A"), 0);
    let (targets, handles): (Vec<_>, Vec<_>) = (0..count).map(|_| pipe.source.pair(Name::UNKNOWN)).unzip();
    let (outcome, told) = pipe.source.pair(Name::UNKNOWN);
    pipe.push_transaction(TransactionState::new(targets, outcome, None), 3, b"X", 0);
    let after = pipe.push(3, unnamed(b"B"), 0);
    lend_all(&mut pipe);
    let execution = [format!("*{count}\r\n").into_bytes(), b":1\r\n".repeat(count)].concat();
    let replies =
        [&b"$1\r\na\r\n+OK\r\n+OK\r\n"[..], &b"+QUEUED\r\n".repeat(count), &execution, b"$1\r\nb\r\n"].concat();
    let mut rest = replies.as_slice();
    while !rest.is_empty() {
        assert_eq!(told.is_done(), rest.len() <= 7, "{} bytes are to come", rest.len());
        let room = reply_reader.room();
        let length = room.len().min(rest.len()).min(10_007);
        room[..length].copy_from_slice(&rest[..length]);
        rest = &rest[length..];
        let replies = reply_reader.filled(length).expect("they are replies");
        assert!(pipe.take(replies, &mut reply_reader.pending));
        assert!(reply_reader.deliver(&mut done).expect("they are asked for").is_none());
    }
    assert!(pipe.is_idle() && reply_reader.pending.is_empty() && handles.iter().all(Handle::is_done));
    for (handle, reply) in [(before, Frame::Bulk(b"a")), (told, Frame::Integer(1)), (after, Frame::Bulk(b"b"))] {
        assert_eq!(handle.take().ok().expect("it is done").frame(), Ok(reply));
    }
}

/// Checks the room behind a large reply: a read into no room would look like the end of the connection, and the rest of a
/// buffer outlives the connection.
#[test]
fn a_large_reply_leaves_room_to_read_into_behind_it() {
    for behind in [1, 2, 3, 100] {
        let (mut pipe, mut reply_reader, mut done) = (pipe(), ReplyReader::default(), Completions::default());
        pipe.connect();
        let handles = [0, 0].map(|database| pipe.push(database, unnamed(b"A"), 0));
        lend_all(&mut pipe);
        let next = bulk(200);
        let bytes = [&bulk(300_000)[..], &next[..behind]].concat();
        let mut read = |mut rest: &[u8]| {
            while !rest.is_empty() {
                let room = reply_reader.room();
                assert!(room.len() >= 1024, "room for {} bytes behind {behind}", room.len());
                let length = room.len().min(rest.len());
                room[..length].copy_from_slice(&rest[..length]);
                rest = &rest[length..];
                let replies = reply_reader.filled(length).expect("they are replies");
                assert!(pipe.take(replies, &mut reply_reader.pending));
                assert!(reply_reader.deliver(&mut done).expect("they are asked for").is_none());
            }
        };
        read(&bytes);
        read(&next[behind..]);
        assert!(handles.iter().all(Handle::is_done));
        drop(reply_reader.cut());
        assert!(reply_reader.room().len() >= 1024);
    }
}

/// Checks the state after bytes that cannot be believed. Another reader may be waiting for its turn when one finds them: the
/// bytes that it finds must not be handed to the entries that are left.
#[test]
fn after_an_invalid_reply_nothing_is_read_before_the_cut() {
    let (mut pipe, mut reply_reader, mut done) = (pipe(), ReplyReader::default(), Completions::default());
    let read = |reply_reader: &mut ReplyReader, bytes: &[u8]| {
        reply_reader.room()[..bytes.len()].copy_from_slice(bytes);
        reply_reader.filled(bytes.len())
    };
    pipe.connect();
    let asked = [3, 3].map(|database| pipe.push(database, unnamed(b"A"), 0));
    lend_all(&mut pipe);
    let replies = read(&mut reply_reader, b"-NOPERM no permissions to run 'select'\r\n").expect("it is a reply");
    assert!(pipe.take(replies, &mut reply_reader.pending));
    assert!(reply_reader.deliver(&mut done).is_err(), "the connection is in another database than is thought");
    assert!(
        read(&mut reply_reader, b"$1\r\na\r\n$1\r\nb\r\n").is_err() && read(&mut reply_reader, b"$1\r\nc\r\n").is_err()
    );
    assert!(!asked.iter().any(Handle::is_done));
    drop(reply_reader.cut());
    assert_eq!(read(&mut reply_reader, b"+more\r\n+than was asked for\r\n"), Ok(2));
    reply_reader.distrust();
    assert!(read(&mut reply_reader, b"$1\r\nd\r\n").is_err());
    drop(reply_reader.cut());
    assert_eq!(read(&mut reply_reader, b"$1\r\ne\r\n"), Ok(1));
}

/// Checks a fault of the past: removing one after the other moved all bytes behind it each time, which took minutes.
#[test]
#[cfg_attr(miri, ignore = "160,000 requests")]
fn a_long_queue_expires_in_time_in_proportion_to_its_length() {
    const COUNT: u32 = 160_000;
    let mut pipe = pipe();
    let request = b"*3\r\n$3\r\nSET\r\n$8\r\nkey:0000\r\n$8\r\nsomething\r\n";
    let handles: Vec<Handle> = (0..COUNT).map(|now_ms| pipe.push(now_ms % 2, unnamed(request), now_ms)).collect();
    let since = Instant::now();
    let mut done = Completions::default();
    for now_ms in (0..=COUNT).step_by(7) {
        pipe.expire(now_ms, &situation(), &mut done);
    }
    pipe.expire(COUNT, &situation(), &mut done);
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    assert_eq!((pipe.queue.held, pipe.queue.gathered()), (0, 0));
    assert!(handles.into_iter().all(|handle| effect(handle) == Effect::None));
}

#[test]
fn requests_behind_a_full_socket_time_out_and_others_keep_their_database() {
    let mut pipe = pipe();
    pipe.connect();
    let first = pipe.push(0, unnamed(b"*1\r\n$1\r\nA\r\n"), 0);
    let (bytes, _) = pipe.lend().expect("it may leave");
    let second = pipe.push(3, unnamed(b"*1\r\n$1\r\nB\r\n"), 0);
    let third = pipe.push(3, unnamed(b"*1\r\n$1\r\nC\r\n"), 5);
    let length = bytes.len();
    let mut done = Completions::default();
    assert_eq!(pipe.oldest_ms(), Some(0));
    pipe.expire(3, &situation(), &mut done);
    assert_eq!((effect(first), effect(second)), (Effect::Unknown, Effect::None));
    assert_eq!(pipe.oldest_ms(), Some(5));
    pipe.wrote(bytes, length);
    assert_eq!(lend_all(&mut pipe), "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*1\r\n$1\r\nC\r\n");
    assert!(!third.is_done());
    // The last request is removed whole, too, and the next one gets its own place.
    let lost = pipe.push(7, unnamed(b"*1\r\n$1\r\nD\r\n"), 6);
    pipe.expire(7, &situation(), &mut done);
    assert_eq!(effect(lost), Effect::None);
    _ = pipe.push(3, unnamed(b"*1\r\n$1\r\nE\r\n"), 8);
    assert_eq!(lend_all(&mut pipe), "*1\r\n$1\r\nE\r\n");
}

/// Checks a fault of the past: each timed-out request caused a copy of all gathered bytes.
#[test]
fn timed_out_bytes_are_removed_only_before_they_leave_or_when_many() {
    let (mut pipe, mut done) = (pipe(), Completions::default());
    let many = b"x".repeat(1000);
    let _kept = pipe.push(3, unnamed(&many), 0);
    let told: Vec<Handle> = (0..20).map(|due_ms| pipe.push_due(5, unnamed(b"DUE"), due_ms).0).collect();
    let behind = pipe.push(5, unnamed(b"BEHIND"), 20);
    let (place, queued) = (pipe.queue.out.bytes.as_ptr(), pipe.queue.held);
    for now_ms in 1..=20 {
        assert!(pipe.expire_due(now_ms, &situation(), &mut done) && pipe.queue.out.bytes.as_ptr() == place);
    }
    assert_eq!(told.into_iter().map(effect).collect::<Vec<_>>(), [Effect::None; 20]);
    assert!(pipe.queue.held <= queued - 60, "there is room for others");
    pipe.connect();
    let select = |database: u8| format!("*2\r\n$6\r\nSELECT\r\n$1\r\n{database}\r\n");
    let all = select(3) + &String::from_utf8_lossy(&many) + &select(5) + "BEHIND";
    assert_eq!(lend_all(&mut pipe), all);
    assert_eq!((pipe.queue.held, pipe.queue.gathered()), (all.len() + 2 * HELD_BYTES, 0));
    // A large buffer is not kept, and a client that closes keeps nothing.
    let (late, _) = pipe.push_due(7, unnamed(&many), 30);
    assert!(pipe.expire_due(31, &situation(), &mut done) && !behind.is_done());
    assert_eq!((effect(late), pipe.queue.held, pipe.queue.gathered()), (Effect::None, all.len() + 2 * HELD_BYTES, 0));
    _ = pipe.push(5, unnamed(b"LAST"), 32);
    assert_eq!(lend_all(&mut pipe), "LAST");
    // The request that is first in line on a fresh connection gets a SELECT, though no caller waits for it.
    let (first, _) = pipe.push_due(5, unnamed(b"FIRST"), 40);
    _ = pipe.push(5, unnamed(&many), 33);
    assert!(pipe.expire_due(41, &situation(), &mut done) && effect(first) == Effect::None);
    pipe.cut(VecDeque::new(), Resend::Reads);
    pipe.expire(0, &situation(), &mut done);
    pipe.connect();
    assert_eq!(lend_all(&mut pipe), select(5) + &String::from_utf8_lossy(&many));
}

#[test]
fn a_timed_out_request_leaves_all_its_replies_in_their_place() {
    let (mut pipe, mut reply_reader, mut done) = (pipe(), ReplyReader::default(), Completions::default());
    pipe.connect();
    // This stands for ASKING and a request whose caller has got its timeout error.
    pipe.gather(Asker::Nobody, 2, 0, b"TOLD", Time::Issued(0));
    let next = pipe.push(0, unnamed(b"NEXT"), 0);
    lend_all(&mut pipe);
    let replies = b"+OK\r\n:7\r\n:8\r\n";
    reply_reader.room()[..replies.len()].copy_from_slice(replies);
    let count = reply_reader.filled(replies.len()).expect("they are replies");
    assert!(pipe.take(count, &mut reply_reader.pending));
    assert!(reply_reader.deliver(&mut done).expect("they are in order").is_none());
    let payload = next.take().ok().expect("it is answered");
    assert_eq!(payload.frame().expect("a reply"), Frame::Integer(8));
}

#[test]
fn a_request_issued_before_it_was_queued_times_out_by_its_own_time() {
    let (mut pipe, mut done) = (pipe(), Completions::default());
    pipe.connect();
    let young = pipe.push(0, unnamed(b"YOUNG"), 1000);
    let mut unit = |issued_ms| {
        let (target, handle) = pipe.source.pair(Name::UNKNOWN);
        (Unit { database: 0, target, length: 3, issued_ms }, handle)
    };
    let ((old, old_handle), (fresh, fresh_handle)) = (unit(900), unit(995));
    assert!(pipe.push_issued(vec![old, fresh], b"OLDNEW", 1000, Some(160)), "the oldest is the next");
    assert_eq!(pipe.queue.next_due_ms, Some(1060));
    assert_eq!(lend_all(&mut pipe), "YOUNGOLDNEW");
    assert!(pipe.expire_due(1061, &situation(), &mut done), "it has waited for long enough");
    assert_eq!(effect(old_handle), Effect::Unknown);
    assert!(!young.is_done() && !fresh_handle.is_done());
    pipe.expire(1001, &situation(), &mut done);
    assert_eq!([young, fresh_handle].map(effect), [Effect::Unknown; 2]);
    // Without a timeout, no deadline is watched.
    let (target, _handle) = pipe.source.pair(Name::UNKNOWN);
    let unit = Unit { database: 0, target, length: 3, issued_ms: 0 };
    assert!(!pipe.push_issued(vec![unit], b"OLD", 5000, None));
    assert_eq!(pipe.queue.next_due_ms, None);
}

/// Checks a fault of the past: the task yielded for other tasks although there were none.
#[test]
fn one_request_alone_is_no_burst_however_long_it_is() {
    let mut pipe = pipe();
    let (name, time) = (Name::UNKNOWN, Time::Issued(0));
    let _long = pipe.push_long(0, name, LongRequest::of(&vec![b'x'; queue::LONG_MIN]), time);
    assert!(!pipe.queue.is_burst());
    let _behind = pipe.push(0, unnamed(b"A"), 0);
    assert!(pipe.queue.is_burst());
}

/// Returns a transaction with one condition, and the handle for its outcome.
fn with_condition(pipe: &mut Pipe) -> (TransactionState, Handle) {
    let (outcome, told) = pipe.source.pair(Name::UNKNOWN);
    let watch = Watch { request: b"W".to_vec(), checks: vec![Check::Exists(true)], execution: b"X".to_vec() };
    (TransactionState::new(Vec::new(), outcome, Some(watch)), told)
}

#[test]
fn timed_out_requests_are_not_sent_again_after_a_lost_connection() {
    let (mut pipe, mut done) = (pipe(), Completions::default());
    pipe.connect();
    let (due, _) = pipe.push_due(3, unnamed(b"DUE"), 10);
    let old = pipe.push(5, unnamed(b"OLD"), 0);
    let (later, _) = pipe.push_due(5, unnamed(b"LATER"), 30);
    let (bytes, _) = pipe.lend().expect("it may leave");
    pipe.wrote(bytes, 7);
    pipe.expire_due(11, &situation(), &mut done);
    assert_eq!(effect(due), Effect::Unknown);
    let behind = pipe.push(5, unnamed(b"BEHIND"), 20);
    assert!(pipe.cut(VecDeque::new(), Resend::Reads).is_empty(), "none had left whole");
    assert_eq!(pipe.oldest_ms(), Some(0), "nobody else is told before");
    pipe.expire(5, &situation(), &mut done);
    assert_eq!(effect(old), Effect::None);
    pipe.connect();
    assert_eq!(lend_all(&mut pipe), "*2\r\n$6\r\nSELECT\r\n$1\r\n5\r\nLATERBEHIND");
    assert!(!later.is_done() && !behind.is_done());
}

#[test]
fn a_timed_out_transaction_does_not_begin_again_on_the_next_connection() {
    let (mut pipe, mut done) = (pipe(), Completions::default());
    pipe.connect();
    let (transaction, told) = with_condition(&mut pipe);
    pipe.push_transaction(transaction, 0, b"W", 0);
    assert_eq!(lend_all(&mut pipe), "W");
    let next = pipe.push(0, unnamed(b"N"), 5);
    pipe.expire(1, &situation(), &mut done);
    assert_eq!(effect(told), Effect::Unknown);
    pipe.cut(VecDeque::new(), Resend::Reads);
    pipe.connect();
    assert_eq!(lend_all(&mut pipe), "N");
    assert!(!next.is_done());
}

#[test]
fn a_transaction_that_is_not_executed_in_time_releases_its_keys() {
    let mut pipe = pipe();
    pipe.connect();
    let (transaction, told) = with_condition(&mut pipe);
    pipe.push_transaction(transaction, 2, b"W", 0);
    assert_eq!(lend_all(&mut pipe), "*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\nW");
    let (mut pending, mut done) = (VecDeque::new(), Completions::default());
    assert!(pipe.take(3, &mut pending));
    let Some(Entry { asker: Asker::Transaction(mut transaction), .. }) = pending.pop_front() else {
        panic!("no transaction")
    };
    transaction.accept(b"+OK\r\n", &mut done);
    transaction.accept(b":1\r\n", &mut done);
    let (asker, request, time) = (Asker::Transaction(transaction), b"X".to_vec(), Time::Issued(1));
    pipe.resume(asker, 2, 2, request, time);
    pipe.expire(2, &situation(), &mut done);
    assert_eq!(effect(told), Effect::None);
    let next = pipe.push(2, unnamed(b"N"), 3);
    assert_eq!(lend_all(&mut pipe).as_bytes(), [UNWATCH, b"N"].concat());
    assert!(pipe.take(2, &mut pending));
    assert!(matches!(pending.pop_front(), Some(Entry { asker: Asker::Nobody, replies: 1, .. })));
    let Some(Entry { asker: Asker::Slot(target), .. }) = pending.pop_front() else { panic!("no asker") };
    target.complete(slot::Payload::of(b":7\r\n"), &mut done);
    assert_eq!(next.take().ok().expect("it is done").frame(), Ok(Frame::Integer(7)));
}

#[test]
fn a_write_that_is_to_be_sent_again_and_is_not_may_have_been_executed() {
    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    type End = fn(&mut Pipe, &mut Completions);
    let ends: [End; 3] = [
        |pipe, done| _ = pipe.expire(10, &situation(), done),
        |pipe, done| _ = pipe.expire_due(60, &situation(), done),
        |pipe, done| pipe.queue.clear().iter_mut().for_each(|entry| entry.fail(&Error::closed("it ended"), done)),
    ];
    for (bytes, name, expected) in [(SET, "SET", Effect::Unknown), (GET, "GET", Effect::None)] {
        for (way, end) in ends.into_iter().enumerate() {
            let (mut pipe, mut done, name) = (pipe(), Completions::default(), Name::of(&[name]));
            pipe.connect();
            let request = EncodedRequest { bytes, name };
            let handle = if way == 1 { pipe.push_due(0, request, 50).0 } else { pipe.push(0, request, 0) };
            lend_all(&mut pipe);
            assert!(pipe.cut(VecDeque::new(), Resend::Overwrites).is_empty());
            // The request may be gathered anew in between, and the connection lost again.
            assert!(pipe.cut(VecDeque::new(), Resend::Overwrites).is_empty());
            end(&mut pipe, &mut done);
            done.finish();
            assert_eq!(effect(handle), expected);
        }
    }
}
