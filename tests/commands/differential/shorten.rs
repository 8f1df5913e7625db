//! Shortens a long history for as long as its last step still brings a difference, and prints it for a person.
//!
//! Histories are played against emptied servers again and again, which is slow: only a failing run does it. One thread uses
//! it at a time.

use std::fmt::Write;

use sleeve_tests::transcript::escape::escape;

use super::group::{Servers, Step};
use super::reply::Replies;

/// The number of steps that are repeated to make a failing history shorter.
const REPLAYED_MAX: usize = 300_000;

/// The largest number of steps of a history that are shown.
const SHOWN_MAX: usize = 60;

/// The largest number of bytes of a word or a reply that are shown.
const CLIPPED_MAX: usize = 400;

/// Plays a history; returns the replies to its last step if they differ.
fn play(group: &Servers<'_>, history: &[Step]) -> Option<Replies> {
    let (index, replies) = group.again().run(history)?;
    (index + 1 == history.len()).then_some(replies)
}

/// Returns a shorter history with a last step that still gets different replies, or none if the difference does not come
/// back.
fn shorten(group: &Servers<'_>, history: &[Step]) -> Option<Vec<Step>> {
    // Most differences need only the few steps right before them.
    let lengths = [1, 4, 16, 64, 256, 1024, 8192, history.len()];
    let tails = lengths.iter().map(|&length| &history[history.len().saturating_sub(length)..]);
    let mut short = tails.into_iter().find(|tail| play(group, tail).is_some())?.to_vec();
    let (mut size, mut budget) = (short.len() / 2, REPLAYED_MAX);
    while size > 0 {
        let mut start = 0;
        while start + size < short.len() {
            let mut fewer = short.clone();
            fewer.drain(start..start + size);
            if budget < fewer.len() {
                return Some(short);
            }
            budget -= fewer.len();
            if play(group, &fewer).is_some() { short = fewer } else { start += size }
        }
        size /= 2;
    }
    Some(short)
}

/// Returns the end of a history and the replies to its last step.
pub fn describe(group: &Servers<'_>, history: &[Step], replies: &Replies) -> String {
    let short = shorten(group, history);
    let shown = short.as_deref().unwrap_or(history);
    let replies = short.as_ref().and_then(|short| play(group, short)).unwrap_or_else(|| replies.clone());
    let mut text = String::new();
    // Writing to a string does not fail.
    if short.is_none() {
        let _ = writeln!(text, "  (seen once; the same {} steps did not bring it back)", history.len());
    }
    if shown.len() > SHOWN_MAX {
        let _ = writeln!(text, "  ({} steps before these)", shown.len() - SHOWN_MAX);
    }
    for step in &shown[shown.len().saturating_sub(SHOWN_MAX)..] {
        let _ = writeln!(text, "  {}", line(step));
    }
    for (server, reply) in group.servers.iter().zip(replies) {
        let _ = writeln!(text, "  {:>8}: {}", server.kind().name(), clipped(&reply));
    }
    text
}

fn line(step: &Step) -> String {
    let (connection, words) = match step {
        Step::Send(connection, words) => (connection, words),
        Step::Choose(connection, words, _) => (connection, words),
        Step::Look => return "(a look at everything)".into(),
    };
    let words: Vec<String> = words.iter().map(|word| format!("\"{}\"", clipped(word).replace('"', "\\\""))).collect();
    format!("{connection}> {}", words.join(" "))
}

/// Returns the beginning of a text, which is enough of a long one.
fn clipped(bytes: &[u8]) -> String {
    let more = if bytes.len() > CLIPPED_MAX { "..." } else { "" };
    escape(&bytes[..bytes.len().min(CLIPPED_MAX)]) + more
}
