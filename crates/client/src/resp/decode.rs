//! Replies as Rust values.
//!
//! Decoding runs on the asking thread, straight from the reply's bytes. It takes a reply in the form of RESP2 or of RESP3
//! alike: a map may arrive as a map or as a flat array, a yes as `#t` or `:1`, a number as a number or as its text. A reply
//! that does not fit is an error that names the expected type and the received value. Nothing is guessed, and a missing value
//! (nil) is only accepted if the type can express it: `Option`, `()` and [`Value`]. This file has the trait and the types of
//! several values; `numbers` and `texts` have the other types.
//!
//! Pure functions; any thread.

mod numbers;
pub(crate) mod owned;
pub(crate) mod texts;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use sleeve_wire::frame::{Frame, FrameError, Items};

use super::value::Value;
use crate::error::Error;

/// A type that a command's reply can be turned into.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, Error, Frame, FromReply, prelude::*};
///
/// let client = Client::embedded();
/// struct User {
///     name: String,
///     age: u32,
/// }
///
/// impl FromReply for User {
///     fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
///         let (name, age) = FromReply::from_reply(frame)?;
///         Ok(Self { name, age })
///     }
/// }
///
/// client.hset("user:1", [("name", "Ann"), ("age", "36")]).wait()?;
/// let user: User = client.cmd("HMGET").arg(("user:1", "name", "age")).send().wait()?;
/// assert_eq!((user.name.as_str(), user.age), ("Ann", 36));
/// let wrong = client.hget::<i64>("user:1", "name").wait().unwrap_err();
/// assert_eq!(wrong.kind(), sleeve::ErrorKind::Conversion);
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is not a type that a reply can be turned into")]
pub trait FromReply: Sized {
    /// Reads the value from a reply, or returns the reason why it cannot be read.
    ///
    /// The frame of a whole reply is never an error; an element of a transaction's result or of an array may be one.
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error>;

    /// True if strings that are read may be parts of the reply's own memory, which they keep alive.
    #[doc(hidden)]
    const MAY_SHARE: bool = false;

    /// Reads the value from a whole reply that has no other owner. A type that can be made from the reply's memory takes it
    /// over.
    #[doc(hidden)]
    fn from_owned(reply: Box<[u8]>) -> Result<Self, Error> {
        match Self::MAY_SHARE {
            true => owned::lend(reply, Self::from_reply),
            false => Self::from_reply(owned::whole(&reply)?),
        }
    }

    /// Reads the value from a string that may have other owners. A type that can share the string does so without a copy.
    #[doc(hidden)]
    fn from_shared(string: &Arc<[u8]>) -> Result<Self, Error> {
        Self::from_reply(Frame::Bulk(string))
    }

    /// Returns whether this reply says that there is no such value, which makes it `None` for an `Option`.
    #[doc(hidden)]
    #[inline]
    fn is_absent(frame: &Frame<'_>) -> bool {
        matches!(frame, Frame::Null)
    }

    /// Returns the value of a struct's field that the reply does not have; `None` if that is an error.
    #[doc(hidden)]
    fn missing() -> Option<Self> {
        None
    }

    /// Reads several values. Bytes are the exception: several of them are one string, not an array.
    #[doc(hidden)]
    fn several_from_owned(reply: Box<[u8]>) -> Result<Vec<Self>, Error> {
        match Self::MAY_SHARE {
            true => owned::lend(reply, Self::several_from_reply),
            false => Self::several_from_reply(owned::whole(&reply)?),
        }
    }

    /// Reads several values as `several_from_owned` does, from a frame.
    #[doc(hidden)]
    fn several_from_reply(frame: Frame<'_>) -> Result<Vec<Self>, Error> {
        let items = elements(frame, "an array")?;
        let mut values = Vec::with_capacity(items.size_hint().0);
        for item in items {
            values.push(Self::from_reply(element(item)?)?);
        }
        Ok(values)
    }
}

/// Describes the received value, in the words of an error message.
pub(super) fn described(frame: &Frame<'_>) -> String {
    let shown = |bytes: &[u8]| {
        let cut = bytes.get(..40).unwrap_or(bytes);
        format!("\"{}\"{}", cut.escape_ascii(), if cut.len() < bytes.len() { "..." } else { "" })
    };
    match frame {
        Frame::Null => "nil".to_owned(),
        Frame::Simple(text) => format!("the status {}", shown(text)),
        Frame::Error(text) => format!("the error {}", shown(text)),
        Frame::Integer(value) => format!("the integer {value}"),
        Frame::Bulk(text) => format!("the string {}", shown(text)),
        Frame::Boolean(value) => format!("the boolean {value}"),
        Frame::Double(text) => format!("the double {}", shown(text)),
        Frame::BigNumber(text) => format!("the big number {}", shown(text)),
        Frame::Verbatim { text, .. } => format!("the text {}", shown(text)),
        Frame::Array(items) => format!("an array of {}", items.len()),
        Frame::Set(items) => format!("a set of {}", items.len()),
        Frame::Map(items) => format!("a map of {}", items.len() / 2),
        Frame::Push(_) => "a push message".to_owned(),
        _ => "a reply of an unknown type".to_owned(),
    }
}

#[cold]
pub(super) fn mismatch(wanted: &str, frame: &Frame<'_>) -> Error {
    match frame {
        Frame::Error(text) => Error::server(text),
        Frame::Null => Error::conversion(format!("expected {wanted}, got nil (ask for an Option to allow it)")),
        other => Error::conversion(format!("expected {wanted}, got {}", described(other))),
    }
}

pub(super) fn element<'a>(item: Result<Frame<'a>, FrameError>) -> Result<Frame<'a>, Error> {
    item.map_err(Error::protocol)
}

pub(super) fn elements<'a>(frame: Frame<'a>, wanted: &str) -> Result<Items<'a>, Error> {
    match frame {
        Frame::Array(items) | Frame::Set(items) | Frame::Map(items) | Frame::Push(items) => Ok(items),
        other => Err(mismatch(wanted, &other)),
    }
}

/// Returns the bytes of a text of any kind.
pub(super) fn text<'a>(frame: Frame<'a>, wanted: &str) -> Result<&'a [u8], Error> {
    match frame {
        Frame::Bulk(text)
        | Frame::Simple(text)
        | Frame::Verbatim { text, .. }
        | Frame::BigNumber(text)
        | Frame::Double(text) => Ok(text),
        other => Err(mismatch(wanted, &other)),
    }
}

/// Returns the bytes of a string.
#[inline]
fn string(frame: Frame<'_>) -> Result<Vec<u8>, Error> {
    match frame {
        // RESP2 and some commands give numbers where a string is asked for.
        Frame::Integer(value) => Ok(value.to_string().into_bytes()),
        other => text(other, "a string").map(<[u8]>::to_vec),
    }
}

impl FromReply for () {
    /// Accepts any reply that is not an error: only the fact of the answer counts, not its content.
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        match frame {
            Frame::Error(text) => Err(Error::server(text)),
            _ => Ok(()),
        }
    }
}

impl FromReply for Value {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        Value::from_frame(frame)
    }

    fn missing() -> Option<Self> {
        Some(Self::Nil)
    }
}

impl<T: FromReply> FromReply for Option<T> {
    const MAY_SHARE: bool = T::MAY_SHARE;

    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        if T::is_absent(&frame) {
            return Ok(None);
        }
        T::from_reply(frame).map(Some)
    }

    fn from_owned(reply: Box<[u8]>) -> Result<Self, Error> {
        if T::is_absent(&owned::whole(&reply)?) {
            return Ok(None);
        }
        T::from_owned(reply).map(Some)
    }

    fn from_shared(string: &Arc<[u8]>) -> Result<Self, Error> {
        T::from_shared(string).map(Some)
    }

    fn missing() -> Option<Self> {
        Some(None)
    }
}

impl<T: FromReply> FromReply for Result<T, Error> {
    const MAY_SHARE: bool = T::MAY_SHARE;

    /// Reads elements that may be errors, such as those of a transaction's result.
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        match frame {
            Frame::Error(text) => Ok(Err(Error::server(text))),
            other => T::from_reply(other).map(Ok),
        }
    }
}

impl FromReply for bool {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        match frame {
            Frame::Boolean(value) => Ok(value),
            Frame::Integer(1) | Frame::Simple(b"OK") | Frame::Bulk(b"1") => Ok(true),
            Frame::Integer(0) | Frame::Bulk(b"0") => Ok(false),
            // SET with NX or XX answers nil when the condition did not hold.
            Frame::Null => Ok(false),
            // MIGRATE replies so if none of the keys exists.
            Frame::Simple(b"NOKEY") => Ok(false),
            other => Err(mismatch("a boolean", &other)),
        }
    }
}

impl<T: FromReply> FromReply for Vec<T> {
    const MAY_SHARE: bool = T::MAY_SHARE;

    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        T::several_from_reply(frame)
    }

    fn from_owned(reply: Box<[u8]>) -> Result<Self, Error> {
        T::several_from_owned(reply)
    }
}

impl<T: FromReply> FromReply for Box<[T]> {
    const MAY_SHARE: bool = T::MAY_SHARE;

    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        T::several_from_reply(frame).map(Vec::into_boxed_slice)
    }
}

impl<T: FromReply> FromReply for VecDeque<T> {
    const MAY_SHARE: bool = T::MAY_SHARE;

    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        T::several_from_reply(frame).map(Into::into)
    }
}

impl<T: FromReply, const N: usize> FromReply for [T; N] {
    const MAY_SHARE: bool = T::MAY_SHARE;

    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        let values = T::several_from_reply(frame)?;
        let length = values.len();
        values.try_into().map_err(|_| Error::conversion(format!("expected {N} values, got {length}")))
    }
}

impl<T: FromReply + Ord> FromReply for BTreeSet<T> {
    const MAY_SHARE: bool = T::MAY_SHARE;

    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        T::several_from_reply(frame).map(|values| values.into_iter().collect())
    }
}

impl<T: FromReply + Eq + Hash, S: BuildHasher + Default> FromReply for HashSet<T, S> {
    const MAY_SHARE: bool = T::MAY_SHARE;

    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        T::several_from_reply(frame).map(|values| values.into_iter().collect())
    }
}

impl<K: FromReply + Ord, V: FromReply> FromReply for BTreeMap<K, V> {
    const MAY_SHARE: bool = <(K, V)>::MAY_SHARE;

    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        <(K, V)>::several_from_reply(frame).map(|pairs| pairs.into_iter().collect())
    }
}

impl<K: FromReply + Eq + Hash, V: FromReply, S: BuildHasher + Default> FromReply for HashMap<K, V, S> {
    const MAY_SHARE: bool = <(K, V)>::MAY_SHARE;

    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        <(K, V)>::several_from_reply(frame).map(|pairs| pairs.into_iter().collect())
    }
}

/// Returns the next element of an aggregate that must have one.
fn next<T: FromReply>(items: &mut Items<'_>, wanted: usize) -> Result<T, Error> {
    match items.next() {
        Some(item) => T::from_reply(element(item)?),
        None => Err(Error::conversion(format!("expected {wanted} values, got fewer"))),
    }
}

fn exhausted(items: &Items<'_>, wanted: usize) -> Result<(), Error> {
    if items.is_empty() {
        return Ok(());
    }
    Err(Error::conversion(format!("expected {wanted} values, got {} more", items.len())))
}

impl<A: FromReply, B: FromReply> FromReply for (A, B) {
    const MAY_SHARE: bool = A::MAY_SHARE || B::MAY_SHARE;

    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        let mut items = elements(frame, "an array of 2")?;
        let pair = (next(&mut items, 2)?, next(&mut items, 2)?);
        exhausted(&items, 2).map(|()| pair)
    }

    /// Pairs come as a map, as an array of arrays, or flat: keys and values in turn.
    fn several_from_reply(frame: Frame<'_>) -> Result<Vec<Self>, Error> {
        let mut items = elements(frame, "a map or an array of pairs")?;
        let flat = matches!(frame, Frame::Map(_))
            || !matches!(items.clone().next(), Some(Ok(Frame::Array(first))) if first.len() == 2);
        let mut pairs = Vec::with_capacity(items.size_hint().0);
        while !items.is_empty() {
            pairs.push(if flat { (next(&mut items, 2)?, next(&mut items, 2)?) } else { next(&mut items, 2)? });
        }
        Ok(pairs)
    }
}

macro_rules! tuples_from_reply {
    ($($count:literal ($($name:ident),*))*) => { $(
        impl<$($name: FromReply),*> FromReply for ($($name,)*) {
            const MAY_SHARE: bool = $($name::MAY_SHARE)||*;

            fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
                let mut items = elements(frame, concat!("an array of ", $count))?;
                let values = ($(next::<$name>(&mut items, $count)?,)*);
                exhausted(&items, $count).map(|()| values)
            }
        }
    )* };
}

tuples_from_reply! {
    1 (A) 3 (A, B, C) 4 (A, B, C, D) 5 (A, B, C, D, E) 6 (A, B, C, D, E, F) 7 (A, B, C, D, E, F, G)
    8 (A, B, C, D, E, F, G, H) 9 (A, B, C, D, E, F, G, H, I) 10 (A, B, C, D, E, F, G, H, I, J)
    11 (A, B, C, D, E, F, G, H, I, J, K) 12 (A, B, C, D, E, F, G, H, I, J, K, L)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn read<T: FromReply>(bytes: &[u8]) -> Result<T, Error> {
        T::from_reply(sleeve_wire::frame::decode(bytes).unwrap().0)
    }

    #[test]
    fn both_protocols_give_the_same_values() {
        assert_eq!(read::<i64>(b":7\r\n"), Ok(7));
        assert_eq!(read::<i64>(b"$1\r\n7\r\n"), Ok(7));
        assert_eq!(read::<f64>(b",1.5\r\n"), Ok(1.5));
        assert_eq!(read::<f64>(b"$3\r\n1.5\r\n"), Ok(1.5));
        assert_eq!(read::<bool>(b"#t\r\n"), Ok(true));
        assert_eq!(read::<bool>(b":0\r\n"), Ok(false));
        assert_eq!(read::<bool>(b"$-1\r\n"), Ok(false));
        assert_eq!(read::<Option<String>>(b"_\r\n"), Ok(None));
        assert_eq!(read::<Option<String>>(b"$1\r\na\r\n"), Ok(Some("a".to_owned())));
        assert_eq!(read::<Vec<u8>>(b"$2\r\n\xff\x00\r\n"), Ok(vec![255, 0]));
        let pairs = vec![("a".to_owned(), 1), ("b".to_owned(), 2)];
        assert_eq!(read::<Vec<(String, i64)>>(b"%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n"), Ok(pairs.clone()));
        assert_eq!(
            read::<Vec<(String, i64)>>(b"*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n"),
            Ok(pairs.clone())
        );
        assert_eq!(read::<Vec<(String, i64)>>(b"*2\r\n*2\r\n+a\r\n:1\r\n*2\r\n+b\r\n:2\r\n"), Ok(pairs));
        assert_eq!(read::<(String, i64, bool)>(b"*3\r\n+a\r\n:1\r\n:1\r\n"), Ok(("a".to_owned(), 1, true)));
        assert_eq!(read::<[i64; 2]>(b"*2\r\n:1\r\n:2\r\n"), Ok([1, 2]));
        assert_eq!(read::<VecDeque<i64>>(b"*2\r\n:1\r\n:2\r\n"), Ok([1, 2].into()));
        assert_eq!(read::<Box<[i64]>>(b"~1\r\n:1\r\n"), Ok([1].into()));
        assert_eq!(read::<Box<[u8]>>(b"$1\r\na\r\n"), Ok((*b"a").into()));
        type Seven = (i64, i64, i64, i64, i64, i64, Option<String>);
        assert_eq!(read::<Seven>(b"*7\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n_\r\n"), Ok((1, 2, 3, 4, 5, 6, None)));
    }

    #[test]
    fn what_does_not_fit_says_so() {
        let message = |error: Error| error.message().to_owned();
        let wrong = read::<i64>(b"$3\r\nabc\r\n").map_err(message);
        assert_eq!(wrong, Err("expected an integer, got the string \"abc\"".to_owned()));
        let wrong = read::<String>(b"_\r\n").map_err(message);
        assert_eq!(wrong, Err("expected a string, got nil (ask for an Option to allow it)".to_owned()));
        let wrong = read::<u16>(b":70000\r\n").map_err(message);
        assert_eq!(wrong, Err("expected u16, an integer from 0 to 65535, got 70000".to_owned()));
        let wrong = read::<(i64, i64)>(b"*3\r\n:1\r\n:2\r\n:3\r\n").map_err(message);
        assert_eq!(wrong, Err("expected 2 values, got 1 more".to_owned()));
        assert_eq!(read::<Vec<i64>>(b"*2\r\n:1\r\n-ERR no\r\n").unwrap_err().code(), Some("ERR"));
    }

    #[test]
    fn errors_inside_can_be_asked_for() {
        let values = read::<Vec<Result<i64, Error>>>(b"*2\r\n:1\r\n-ERR no\r\n").unwrap();
        assert_eq!(values[0], Ok(1));
        assert_eq!(values[1].as_ref().unwrap_err().message(), "ERR no");
    }
}
