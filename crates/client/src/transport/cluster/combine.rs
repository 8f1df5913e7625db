//! Combines the answers of several nodes into one reply for one caller.
//!
//! Each part has a slot of its own; the last answer wakes this code, which combines all and completes the caller's slot. If
//! the reply has one element for each key, an error of a part is the element of each of its keys; otherwise it is the whole
//! reply. Foreign bytes: a part of an unexpected type is reported to the caller. Any thread.

use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};

use sleeve_wire::commands::ResponsePolicy;
use sleeve_wire::frame::{Frame, decode};
use sleeve_wire::number::push_i64;

use super::Cluster;
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::slot::{Completions, Handle, Payload, Target};
use crate::sys::lock::Mutex;

/// The rule by which the parts make one reply.
pub(super) enum ReplyMerge {
    /// An array with an element for each key. For each part, these are the indices of its keys.
    Elements(Vec<Vec<usize>>),
    /// The response policy of the command's row.
    Policy(Option<ResponsePolicy>),
}

/// A part: its answer, or the slot in which that arrives.
type Part = Result<Payload, Handle>;

/// Parts in flight, and the caller's slot for the whole.
pub(super) struct Parts {
    cluster: Weak<Cluster>,
    state: Mutex<Option<State>>,
}

struct State {
    parts: Vec<Part>,
    recipe: ReplyMerge,
    target: Target,
}

impl Parts {
    /// Completes the caller's end when all parts are answered.
    pub(super) fn gather(cluster: Weak<Cluster>, handles: Vec<Handle>, recipe: ReplyMerge, target: Target) {
        let parts = handles.into_iter().map(Err).collect();
        let state = Mutex::new(Some(State { parts, recipe, target }));
        let gathering = Arc::new(Self { cluster, state });
        let waker = Waker::from(Arc::clone(&gathering));
        if let Some(state) = &mut *gathering.state.lock() {
            for part in &mut state.parts {
                if let Err(handle) = part {
                    // An answer that has arrived already is found by the check below.
                    let _ = handle.poll_ready(&mut Context::from_waker(&waker), false);
                }
            }
        }
        gathering.look();
    }

    /// Combines the answers if all have arrived.
    fn look(&self) {
        let mut place = self.state.lock();
        let Some(state) = &mut *place else { return };
        state.parts = std::mem::take(&mut state.parts).into_iter().map(|part| part.or_else(Handle::take)).collect();
        if state.parts.iter().any(Result::is_err) {
            return;
        }
        let Some(State { parts, recipe, target }) = place.take() else { return };
        drop(place);
        let answers: Vec<Payload> = parts.into_iter().flatten().collect();
        let is_elsewhere = |answer: &Payload| {
            answer
                .frame()
                .is_err_and(|error| matches!(error.code(), Some("MOVED" | "ASK" | "CLUSTERDOWN" | "READONLY")))
        };
        if answers.iter().any(is_elsewhere)
            && let Some(cluster) = self.cluster.upgrade()
        {
            cluster.doubt();
        }
        let mut done = Completions::default();
        target.complete(combined(&answers, &recipe).unwrap_or_else(Payload::Failed), &mut done);
        match self.cluster.upgrade() {
            Some(cluster) => cluster.finish(&mut done),
            None => drop(done),
        }
    }
}

impl Wake for Parts {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

/// Returns one reply, made of all answers.
fn combined(answers: &[Payload], recipe: &ReplyMerge) -> Result<Payload, Error> {
    match recipe {
        ReplyMerge::Elements(places) => elements(answers, places),
        ReplyMerge::Policy(Some(ResponsePolicy::OneSucceeded)) => {
            let succeeded = answers.iter().find(|answer| answer.frame().is_ok());
            Ok(succeeded.or(answers.first()).ok_or_else(odd)?.clone())
        }
        ReplyMerge::Policy(policy) => {
            all_succeeded(answers)?;
            match policy {
                Some(ResponsePolicy::Sum) => numbers(answers, |sum, number| sum.saturating_add(number)),
                Some(ResponsePolicy::Min) => numbers(answers, i64::min),
                Some(ResponsePolicy::Max) => numbers(answers, i64::max),
                Some(ResponsePolicy::LogicalAnd) => each(answers, |one, other| one & other),
                Some(ResponsePolicy::LogicalOr) => each(answers, |one, other| one | other),
                None => joined(answers),
                _ => Ok(answers.first().ok_or_else(odd)?.clone()),
            }
        }
    }
}

/// Fails with the first error among the answers. If other parts have succeeded, the effect of the whole is unknown.
fn all_succeeded(answers: &[Payload]) -> Result<(), Error> {
    let errors: Vec<Error> = answers.iter().filter_map(|answer| answer.frame().err()).collect();
    let Some(first) = errors.first() else { return Ok(()) };
    let succeeded = answers.len() - errors.len();
    if answers.len() == 1 {
        return Err(first.clone());
    }
    let did_nothing = |error: &Error| matches!(error.effect(), Effect::None | Effect::Refused);
    let nothing_done = succeeded == 0 && errors.iter().all(did_nothing);
    let effect = if nothing_done { first.effect() } else { Effect::Unknown };
    let message =
        format!("{} ({succeeded} of {} nodes or slots have done their parts)", first.message(), answers.len());
    Err(Error::new(first.kind(), effect, message))
}

fn integer(frame: Frame<'_>) -> Result<i64, Error> {
    match frame {
        Frame::Integer(number) => Ok(number),
        _ => Err(odd()),
    }
}

fn numbers(answers: &[Payload], add: fn(i64, i64) -> i64) -> Result<Payload, Error> {
    let numbers: Vec<i64> = answers.iter().map(|answer| integer(answer.frame()?)).collect::<Result<_, _>>()?;
    let total = numbers.into_iter().reduce(add).ok_or_else(odd)?;
    let mut bytes = vec![b':'];
    push_i64(&mut bytes, total);
    bytes.extend_from_slice(b"\r\n");
    Ok(Payload::of(&bytes))
}

/// Combines arrays of numbers, number by number.
fn each(answers: &[Payload], add: fn(i64, i64) -> i64) -> Result<Payload, Error> {
    let mut total: Option<Vec<i64>> = None;
    for answer in answers {
        let Frame::Array(items) = answer.frame()? else { return Err(odd()) };
        let numbers: Vec<i64> = items.map(|item| integer(item.map_err(Error::protocol)?)).collect::<Result<_, _>>()?;
        total = match total {
            None => Some(numbers),
            Some(total) if total.len() == numbers.len() => {
                Some(total.into_iter().zip(numbers).map(|(one, other)| add(one, other)).collect())
            }
            Some(_) => return Err(odd()),
        };
    }
    let total = total.ok_or_else(odd)?;
    let mut bytes = head(total.len());
    for number in total {
        bytes.push(b':');
        push_i64(&mut bytes, number);
        bytes.extend_from_slice(b"\r\n");
    }
    Ok(Payload::of(&bytes))
}

/// Concatenates arrays; of other replies it returns the first that is not nil.
fn joined(answers: &[Payload]) -> Result<Payload, Error> {
    let mut count = 0;
    let mut elements: Vec<&[u8]> = Vec::new();
    for answer in answers {
        let frame = answer.frame()?;
        let Frame::Array(items) = frame else {
            let something = answers.iter().find(|answer| !matches!(answer.frame(), Ok(Frame::Null)));
            return Ok(something.or(answers.first()).ok_or_else(odd)?.clone());
        };
        count += items.len();
        elements.push(behind_head(answer)?);
    }
    let mut bytes = head(count);
    elements.iter().for_each(|elements| bytes.extend_from_slice(elements));
    Ok(Payload::of(&bytes))
}

/// Returns an array with an element for each key: those of a part have its indices. A server's error to a part is the element
/// of each of its keys.
fn elements(answers: &[Payload], places: &[Vec<usize>]) -> Result<Payload, Error> {
    let count = places.iter().map(Vec::len).sum();
    let mut elements: Vec<Vec<u8>> = vec![Vec::new(); count];
    for (answer, places) in answers.iter().zip(places) {
        match answer.frame() {
            Ok(Frame::Array(_)) => {
                let mut rest = behind_head(answer)?;
                for &place in places {
                    let (_, length) = decode(rest).map_err(|_| odd())?;
                    let (element, after) = rest.split_at_checked(length).ok_or_else(odd)?;
                    *elements.get_mut(place).ok_or_else(odd)? = element.to_vec();
                    rest = after;
                }
            }
            Ok(_) => return Err(odd()),
            Err(error) if error.kind() == ErrorKind::Server && answers.len() > 1 => {
                let element = format!("-{}\r\n", error.message().replace(['\r', '\n'], " ")).into_bytes();
                for &place in places {
                    *elements.get_mut(place).ok_or_else(odd)? = element.clone();
                }
            }
            Err(error) => return Err(error),
        }
    }
    let mut bytes = head(count);
    elements.iter().for_each(|element| bytes.extend_from_slice(element));
    Ok(Payload::of(&bytes))
}

/// Returns the encoded elements of an array.
fn behind_head(answer: &Payload) -> Result<&[u8], Error> {
    let bytes = answer.bytes();
    let head = bytes.iter().position(|&byte| byte == b'\n').ok_or_else(odd)?;
    bytes.get(head + 1..).ok_or_else(odd)
}

fn head(count: usize) -> Vec<u8> {
    let mut bytes = vec![b'*'];
    push_i64(&mut bytes, i64::try_from(count).unwrap_or(i64::MAX));
    bytes.extend_from_slice(b"\r\n");
    bytes
}

fn odd() -> Error {
    Error::protocol("the nodes of the cluster gave answers that do not go together")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(policy: Option<ResponsePolicy>, answers: &[&str]) -> Result<String, Error> {
        combine(&ReplyMerge::Policy(policy), answers)
    }

    fn combine(recipe: &ReplyMerge, answers: &[&str]) -> Result<String, Error> {
        let answers: Vec<Payload> = answers.iter().map(|answer| Payload::of(answer.as_bytes())).collect();
        combined(&answers, recipe).map(|payload| String::from_utf8_lossy(payload.bytes()).into_owned())
    }

    #[test]
    fn answers_are_put_together_as_the_row_says() {
        assert_eq!(policy(Some(ResponsePolicy::Sum), &[":3\r\n", ":4\r\n"]).unwrap(), ":7\r\n");
        assert_eq!(policy(Some(ResponsePolicy::Min), &[":3\r\n", ":4\r\n"]).unwrap(), ":3\r\n");
        assert_eq!(policy(Some(ResponsePolicy::Max), &[":3\r\n", ":4\r\n"]).unwrap(), ":4\r\n");
        assert_eq!(policy(Some(ResponsePolicy::AllSucceeded), &["+OK\r\n", "+OK\r\n"]).unwrap(), "+OK\r\n");
        assert_eq!(policy(Some(ResponsePolicy::OneSucceeded), &["-ERR\r\n", "+OK\r\n"]).unwrap(), "+OK\r\n");
        let and = &["*2\r\n:1\r\n:1\r\n", "*2\r\n:1\r\n:0\r\n"];
        assert_eq!(policy(Some(ResponsePolicy::LogicalAnd), and).unwrap(), "*2\r\n:1\r\n:0\r\n");
        assert_eq!(policy(Some(ResponsePolicy::LogicalOr), and).unwrap(), "*2\r\n:1\r\n:1\r\n");
        assert_eq!(policy(None, &["*1\r\n+a\r\n", "*0\r\n", "*1\r\n+b\r\n"]).unwrap(), "*2\r\n+a\r\n+b\r\n");
        assert_eq!(policy(None, &["$-1\r\n", "+a\r\n"]).unwrap(), "+a\r\n");
    }

    #[test]
    fn elements_are_in_the_callers_order_and_errors_their_own() {
        let recipe = ReplyMerge::Elements(vec![vec![0, 2], vec![1]]);
        let whole = combine(&recipe, &["*2\r\n+a\r\n$-1\r\n", "*1\r\n*1\r\n:1\r\n"]).unwrap();
        assert_eq!(whole, "*3\r\n+a\r\n*1\r\n:1\r\n$-1\r\n");
        let part = combine(&recipe, &["*2\r\n+a\r\n+c\r\n", "-NOPERM no\r\n"]).unwrap();
        assert_eq!(part, "*3\r\n+a\r\n-NOPERM no\r\n+c\r\n");
        assert!(combine(&recipe, &["*2\r\n+a\r\n+c\r\n", "*0\r\n"]).is_err());
        assert!(combine(&recipe, &["*2\r\n+a\r\n+c\r\n", ":1\r\n"]).is_err());
    }

    #[test]
    fn an_error_of_a_part_says_how_many_have_done_theirs() {
        let error = policy(Some(ResponsePolicy::Sum), &[":1\r\n", "-MOVED 1 h:1\r\n"]).unwrap_err();
        assert_eq!((error.effect(), error.code()), (Effect::Unknown, Some("MOVED")));
        assert!(error.message().contains("1 of 2"), "{error}");
        let error = policy(Some(ResponsePolicy::AllSucceeded), &["-OOM command not allowed when used memory\r\n"; 2]);
        assert_eq!(error.unwrap_err().effect(), Effect::Refused);
        assert!(policy(Some(ResponsePolicy::Sum), &[":1\r\n", "+x\r\n"]).is_err());
        assert!(policy(Some(ResponsePolicy::LogicalAnd), &["*1\r\n:1\r\n", "*0\r\n"]).is_err());
    }
}
