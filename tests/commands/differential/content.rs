//! The complete data of servers, compared: names, types, encodings, deadlines, digests, and the contents of dumps.
//!
//! Each value is dumped by the first server and by the yardstick and restored by all: the digests of the copies must be that
//! of the original. One thread uses it at a time.

use sleeve_tests::Connection;
use sleeve_tests::generator::leeway::{Leeway, agree};
use sleeve_tests::transcript::frame::leaves;

use super::reply::{Replies, ask, plain};

/// The number of databases that the generator uses.
const DATABASES: usize = 3;

/// Names of the copies, which no command uses.
const COPIES: [&str; 2] = ["copy:first", "copy:yardstick"];

/// Compares everything; returns the first question with replies that differ, and the replies of all servers to it.
pub fn look(servers: &mut [&mut Connection], is_valkey: bool) -> Option<Replies> {
    (0..DATABASES).find_map(|database| look_at(servers, database, is_valkey))
}

fn look_at(servers: &mut [&mut Connection], database: usize, is_valkey: bool) -> Option<Replies> {
    if let Some(fault) = same(servers, &format!("SELECT {database}"), Leeway::None) {
        return Some(fault);
    }
    if let Some(fault) = same(servers, "KEYS *", Leeway::Order) {
        return Some(fault);
    }
    let names = leaves(&ask(servers[0], &words("KEYS *")));
    names.iter().find_map(|name| look_at_key(servers, name, is_valkey))
}

fn look_at_key(servers: &mut [&mut Connection], name: &[u8], is_valkey: bool) -> Option<Replies> {
    let named = |text: &str| words(text).into_iter().chain([name.to_vec()]).collect::<Vec<_>>();
    let kind = plain(&ask(servers[0], &named("TYPE")));
    let encoding = match kind.as_slice() {
        b"list" => Leeway::Encoding,
        // Redis 7.0 packs no sets, unpacks the sorted sets that it sorts, and does not look ahead at how many there will be.
        b"set" | b"zset" if !is_valkey => Leeway::Encoding,
        // Valkey never packs a hash with field deadlines.
        b"hash" if is_valkey => Leeway::Encoding,
        _ => Leeway::None,
    };
    // Valkey's digests differ for field deadlines and for scores. The contents of a dump are compared by the digests of one
    // server.
    let content = match kind.as_slice() {
        b"hash" if is_valkey => "HGETALL",
        b"zset" if is_valkey => "ZUNION 1",
        _ => "DEBUG DIGEST-VALUE",
    };
    let questions = [
        ("TYPE", Leeway::None),
        (if kind == b"string" && is_valkey { "TYPE" } else { "OBJECT ENCODING" }, encoding),
        ("PEXPIRETIME", Leeway::Milliseconds),
        (content, Leeway::Order),
    ];
    questions.into_iter().find_map(|(question, leeway)| same_words(servers, &named(question), leeway)).or_else(|| {
        let yardstick = servers.len() - 1;
        match kind.as_slice() {
            // Valkey writes hashes with deadlines, and the version of its dumps, in a way of its own.
            b"hash" if is_valkey => None,
            _ if is_valkey => carry_over(servers, name, [0, 0]),
            // Redis 7.0 does not know the form in which newer servers write streams and packed sets.
            b"stream" | b"set" => carry_over(servers, name, [yardstick, yardstick]),
            _ => carry_over(servers, name, [0, yardstick]),
        }
    })
}

/// Restores the dumps of two servers on all servers.
fn carry_over(servers: &mut [&mut Connection], name: &[u8], sources: [usize; 2]) -> Option<Replies> {
    let dump = vec![b"DUMP".to_vec(), name.to_vec()];
    for (copy, source) in COPIES.into_iter().zip(sources) {
        let payload = plain(&ask(servers[source], &dump));
        // That a key has a deadline is part of its digest.
        let lives_on = plain(&ask(servers[source], &[b"PTTL".to_vec(), name.to_vec()])) == b"-1";
        let deadline = if lives_on { "0" } else { "100000000" };
        let restore = ["RESTORE", copy, deadline].map(|word| word.as_bytes().to_vec());
        let restore: Vec<Vec<u8>> = restore.into_iter().chain([payload, b"REPLACE".to_vec()]).collect();
        if let Some(fault) = same_words(servers, &restore, Leeway::None) {
            return Some(fault);
        }
    }
    let digest: Vec<Vec<u8>> =
        ["DEBUG", "DIGEST-VALUE"].map(|word| word.as_bytes().to_vec()).into_iter().chain([name.to_vec()]).collect();
    let digests: Vec<Vec<u8>> = digest.into_iter().chain(COPIES.map(|copy| copy.as_bytes().to_vec())).collect();
    let replies: Replies = servers.iter_mut().map(|server| ask(server, &digests)).collect();
    let differ = replies.iter().any(|reply| {
        let digests = leaves(reply);
        digests.len() != 3 || digests.iter().any(|digest| *digest != digests[0])
    });
    let remove: Vec<Vec<u8>> = ["DEL"].into_iter().chain(COPIES).map(|word| word.as_bytes().to_vec()).collect();
    let fault = same_words(servers, &remove, Leeway::None);
    if differ { Some(told(&digests, replies)) } else { fault }
}

fn same(servers: &mut [&mut Connection], question: &str, leeway: Leeway) -> Option<Replies> {
    same_words(servers, &words(question), leeway)
}

/// Asks all servers; returns their replies if they differ.
fn same_words(servers: &mut [&mut Connection], question: &[Vec<u8>], leeway: Leeway) -> Option<Replies> {
    let replies: Replies = servers.iter_mut().map(|server| ask(server, question)).collect();
    let (yardstick, others) = replies.split_last()?;
    if others.iter().all(|reply| agree(reply, yardstick, leeway)) { None } else { Some(told(question, replies)) }
}

/// Returns the replies behind the question that they answer.
fn told(question: &[Vec<u8>], replies: Replies) -> Replies {
    let question = question.join(&b' ');
    replies.into_iter().map(|reply| [&question, b" => ".as_slice(), &reply].concat()).collect()
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}
