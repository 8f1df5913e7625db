//! A command that a caller has sent, the answer that it expects, and the check of the answer.

use std::pin::Pin;

use super::model::{Least, Model};
use super::staleness::CachedRead;
use crate::error::Error;
use crate::reply::Reply;
use crate::sys::clock_us;

/// The expected answer of a call.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// This number.
    Number(i64),
    /// The length of a text that ends with this token at that moment.
    Length { key: String, token: String },
    /// These words.
    Words(String),
    /// Any answer that says that the command is done.
    Done,
    /// A value of a key that the cache may have kept.
    Cached { key: String, least: Least, is_hit: bool, is_settled: bool },
    /// One of the values that callers have set, or nil.
    Set(Vec<String>),
    /// A text that grows, with the tokens that this caller knows to be in it.
    Grown { key: String, tokens: Vec<String>, behind: Vec<usize> },
    /// An element of this list, or nil.
    Element(String),
}

/// The answer of a call, by the type that was asked for.
pub(super) enum Answer {
    Number(i64),
    Done,
    Texts(Vec<Option<String>>),
}

pub(super) type Hearing = Pin<Box<dyn Future<Output = Result<Answer, Error>>>>;

/// A command that was sent.
pub(super) struct Call {
    pub(super) expected: Expected,
    pub(super) database: u32,
    pub(super) write: Option<usize>,
    pub(super) hearing: Hearing,
    pub(super) began_us: u64,
    pub(super) limit_us: u64,
    /// The time for which the command may wait on the server.
    pub(super) wait_us: u64,
    /// True if the call uses the connection that all callers share.
    pub(super) is_shared: bool,
}

/// Awaits a number as the answer.
pub(super) fn number(reply: Reply<i64>) -> Hearing {
    Box::pin(async move { reply.await.map(Answer::Number) })
}

/// Awaits a text as the answer.
pub(super) fn text(reply: Reply<Option<String>>) -> Hearing {
    Box::pin(async move { reply.await.map(|text| Answer::Texts(vec![text])) })
}

/// Awaits the answer that a command is done.
pub(super) fn done(reply: Reply<()>) -> Hearing {
    Box::pin(async move { reply.await.map(|()| Answer::Done) })
}

/// Checks that an answer is the expected one of its call.
pub(super) fn check(call: &Call, answer: Answer, model: &mut Model) {
    let is_right = match (&call.expected, &answer) {
        (Expected::Number(expected), Answer::Number(number)) => number == expected,
        (Expected::Length { key, token }, Answer::Number(length)) => {
            model.appended(call.database, key, token, *length as usize);
            true
        }
        (Expected::Done, _) => true,
        (Expected::Words(said), Answer::Texts(texts)) => texts.first() == Some(&Some(said.clone())),
        (Expected::Set(prefixes), Answer::Texts(texts)) => {
            let fits = |(prefix, text): (&String, &Option<String>)| {
                text.as_ref().is_none_or(|text| text.starts_with(prefix.as_str()))
            };
            prefixes.len() == texts.len() && prefixes.iter().zip(texts).all(fits)
        }
        (Expected::Grown { key, tokens, behind }, Answer::Texts(texts)) => {
            let text = texts.first().cloned().flatten().unwrap_or_default();
            model.saw(call.database, key, &text);
            model.saw_behind(behind, &text);
            tokens.iter().all(|token| text.contains(token.as_str()))
        }
        (Expected::Cached { key, least, is_hit, is_settled }, Answer::Texts(texts)) => {
            let (database, key, text) = (call.database, key.clone(), texts.first().cloned().flatten());
            let (began_us, ended_us, is_hit, is_prompt) = (call.began_us, clock_us(), *is_hit, *is_settled);
            let (behind, heard) = Default::default();
            let read = CachedRead { database, key, text, began_us, ended_us, behind, heard, is_hit, is_prompt };
            model.read_cached(least.clone(), read);
            true
        }
        (Expected::Element(key), Answer::Texts(texts)) => match texts.as_slice() {
            [Some(list), Some(element)] => {
                model.got(element.clone());
                list == key && element.starts_with(&format!("{}/", call.database))
            }
            _ => true,
        },
        _ => false,
    };
    if !is_right {
        let said = match &answer {
            Answer::Number(number) => number.to_string(),
            Answer::Done => "done".to_owned(),
            Answer::Texts(texts) => format!("{texts:.60?}"),
        };
        model.wrong(format!("{:?} in {} was answered {said}", call.expected, call.database));
    }
}
