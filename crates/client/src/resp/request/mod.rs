//! A request: a command's words and arguments as the bytes on the wire.
//!
//! A request is written once, in its final form, into a buffer of the calling thread; the pipe then copies it under its lock
//! (a long one is copied before), so that no foreign code (an argument's [`ToArgs`]) ever runs under a lock. The number of
//! arguments stands in front of them and is only known at the end; room for it is left at the start and it is written
//! right-aligned.
//!
//! A request knows no commands: it has the caller's words. Any thread; the buffer is the thread's own, and an argument that
//! itself sends a command while it is being written simply gets another.

pub(crate) mod blocking_commands;
pub(crate) mod level;
pub(crate) mod name;
pub(crate) mod refusal;
pub(crate) mod words;

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use sleeve_wire::frame::{Frame, decode};
use sleeve_wire::number::push_i64;

use crate::error::Error;
use name::Name;

/// Room for `*`, a count of up to ten digits, and `\r\n`.
const HEADER_ROOM: usize = 14;

/// The longest argument that is sent, in bytes: Redis's own limit, beyond which it would close the connection on everyone.
pub(crate) const ARGUMENT_LENGTH_MAX: usize = 512 * 1024 * 1024;

/// The most arguments that are sent, the command's name included: Redis's own limit.
pub(crate) const ARGUMENTS_MAX: usize = 1024 * 1024;

/// A buffer that grew beyond this is not kept for the next request.
const KEPT_CAPACITY_MAX: usize = 64 * 1024;

/// A value that becomes any number of arguments.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, Request, ToArgs, prelude::*};
///
/// let client = Client::embedded();
/// struct Point {
///     x: f64,
///     y: f64,
/// }
///
/// impl ToArgs for Point {
///     fn write_to(&self, request: &mut Request) {
///         request.arg(("x", self.x, "y", self.y));
///     }
/// }
///
/// assert_eq!(client.hset("point", Point { x: 1.5, y: 2.0 }).wait()?, 2);
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` cannot be sent as arguments of a command")]
pub trait ToArgs {
    /// Adds the arguments to the request.
    fn write_to(&self, request: &mut Request);

    /// Adds the arguments of several values in turn. A byte is the exception: several of them are one argument.
    #[doc(hidden)]
    fn write_slice(values: &[Self], request: &mut Request)
    where
        Self: Sized,
    {
        for value in values {
            value.write_to(request);
        }
    }
}

/// A value that becomes exactly one argument: a key, a member, a value.
#[diagnostic::on_unimplemented(message = "`{Self}` cannot be sent as one argument of a command")]
pub trait ToArg: ToArgs {}

// Texts and bytes are sent as they are; `values::argument` converts other types.
macro_rules! text_arguments {
    ($($inner:ty: $type:ty),*) => { $(
        impl ToArgs for $type {
            #[inline]
            fn write_to(&self, request: &mut Request) {
                request.bytes(AsRef::<$inner>::as_ref(self).as_ref());
            }
        }
        impl ToArg for $type {}
    )* };
}

text_arguments!(str: str, str: String, str: Box<str>, str: Rc<str>, str: Arc<str>, str: Cow<'_, str>);
text_arguments!([u8]: Cow<'_, [u8]>, [u8]: Arc<[u8]>, [u8]: Rc<[u8]>, [u8]: Bytes);

impl<T: ToArgs + ?Sized> ToArgs for &T {
    #[inline]
    fn write_to(&self, request: &mut Request) {
        (**self).write_to(request);
    }
}
impl<T: ToArg + ?Sized> ToArg for &T {}

/// A command's words and arguments, in the order in which they are sent.
pub struct Request {
    buffer: Vec<u8>,
    count: usize,
    name: Name,
    refused: Option<Error>,
}

/// A request in the form that travels, with the command's name.
#[derive(Clone, Copy)]
pub(crate) struct EncodedRequest<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) name: Name,
}

/// The name of a command with its subcommand, in the form that travels, made by the compiler.
pub(crate) struct Head<const LENGTH: usize> {
    bytes: [u8; LENGTH],
    words: usize,
    name: Name,
}

/// Returns the number of bytes that these words take on the wire; no word is longer than 99 bytes.
pub(crate) const fn head_length(words: &[&str]) -> usize {
    let (mut length, mut word) = (0, 0);
    while word < words.len() {
        let digits = if words[word].len() < 10 { 1 } else { 2 };
        length += digits + words[word].len() + 5;
        word += 1;
    }
    length
}

impl<const LENGTH: usize> Head<LENGTH> {
    /// Encodes these words, of which the last may be an option instead of a subcommand.
    pub(crate) const fn new(words: &[&str]) -> Self {
        let name = Name::of(words);
        assert!(name.is_known(), "the command is not in the table");
        let mut head = Self { bytes: [0; LENGTH], words: words.len(), name };
        let (mut at, mut word) = (0, 0);
        while word < words.len() {
            let text = words[word].as_bytes();
            at = head.put(at, b"$");
            if text.len() >= 10 {
                at = head.put(at, &[b'0' + (text.len() / 10) as u8]);
            }
            at = head.put(at, &[b'0' + (text.len() % 10) as u8]);
            at = head.put(at, b"\r\n");
            at = head.put(at, text);
            at = head.put(at, b"\r\n");
            word += 1;
        }
        head
    }

    const fn put(&mut self, at: usize, bytes: &[u8]) -> usize {
        let mut index = 0;
        while index < bytes.len() {
            self.bytes[at + index] = bytes[index];
            index += 1;
        }
        at + bytes.len()
    }
}

impl std::fmt::Debug for Request {
    /// Prints its size only; its contents may be a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("words", &self.count).finish_non_exhaustive()
    }
}

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Request {
    /// Lets `write` write a request and hands its bytes to `send`, or returns the error if it cannot be sent.
    #[inline]
    pub(crate) fn with<R>(
        write: impl FnOnce(&mut Request),
        send: impl FnOnce(EncodedRequest<'_>) -> R,
    ) -> Result<R, Error> {
        let mut request = Request { buffer: BUFFER.take(), count: 0, name: Name::UNKNOWN, refused: None };
        request.buffer.clear();
        request.buffer.extend_from_slice(&[b'0'; HEADER_ROOM]);
        write(&mut request);
        let result = request.finish().map(|start| {
            let bytes = request.buffer.get(start..).unwrap_or_default();
            send(EncodedRequest { bytes, name: request.name })
        });
        if request.buffer.capacity() <= KEPT_CAPACITY_MAX {
            BUFFER.set(request.buffer);
        }
        result
    }

    /// Returns the bytes of the request that `write` writes, for a caller that keeps them, or the error if it cannot be sent.
    pub(crate) fn bytes_of(write: impl FnOnce(&mut Request)) -> Result<Vec<u8>, Error> {
        Self::with(write, |request| request.bytes.to_vec())
    }

    /// Returns the words that `value` stands for, or the error if they cannot be sent.
    pub(crate) fn words_of(value: impl ToArgs) -> Result<Vec<Vec<u8>>, Error> {
        let mut request = Self::empty();
        request.arg(value);
        request.refusal().map_or_else(|| Ok(request.words().into_iter().map(<[u8]>::to_vec).collect()), Err)
    }

    /// Creates a request with a buffer of its own.
    pub(crate) fn empty() -> Self {
        Self { buffer: vec![b'0'; HEADER_ROOM], count: 0, name: Name::UNKNOWN, refused: None }
    }

    /// Writes the command's name.
    #[inline]
    pub(crate) fn begin<const LENGTH: usize>(&mut self, head: &Head<LENGTH>) -> &mut Self {
        self.name = head.name;
        self.count += head.words;
        self.buffer.extend_from_slice(&head.bytes);
        self
    }

    /// Writes the name of a command that the compiler does not know.
    pub(crate) fn begin_with(&mut self, name: &str) -> &mut Self {
        self.call(Name::of(&[name])).word(name)
    }

    /// Sets the command's name, for errors.
    pub(crate) fn call(&mut self, name: Name) -> &mut Self {
        self.name = name;
        self
    }

    /// Returns the command's name, if it was set.
    pub(crate) fn name(&self) -> Name {
        self.name
    }

    /// Returns the words so far, the command's name first.
    pub(crate) fn words(&self) -> Vec<&[u8]> {
        let mut words = Vec::with_capacity(self.count);
        let mut rest = self.buffer.get(HEADER_ROOM..).unwrap_or_default();
        while let Ok((Frame::Bulk(word), length)) = decode(rest) {
            words.push(word);
            rest = rest.get(length..).unwrap_or_default();
        }
        words
    }

    /// Writes the count in front of the arguments and returns the offset at which the request starts.
    fn finish(&mut self) -> Result<usize, Error> {
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        if self.count == 0 || self.count > ARGUMENTS_MAX {
            return Err(Error::usage(format!("a request of {} arguments cannot be sent", self.count)));
        }
        let Some(header) = self.buffer.first_chunk_mut::<HEADER_ROOM>() else {
            return Err(Error::usage("a request without room for its header cannot be sent"));
        };
        let mut start = HEADER_ROOM - 2;
        let mut count = self.count;
        [header[start], header[start + 1]] = *b"\r\n";
        if count < 10 {
            [header[start - 2], header[start - 1]] = [b'*', b'0' + count as u8];
            return Ok(start - 2);
        }
        while count > 0 {
            start -= 1;
            header[start] = b'0' + (count % 10) as u8;
            count /= 10;
        }
        start -= 1;
        header[start] = b'*';
        Ok(start)
    }

    /// Adds one argument: any bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.count += 1;
        self.buffer.reserve(bytes.len() + 32);
        match bytes.len() {
            length @ 0..10 => self.buffer.extend_from_slice(&[b'$', b'0' + length as u8, b'\r', b'\n']),
            length @ 10..100 => {
                let (tens, ones) = (b'0' + (length / 10) as u8, b'0' + (length % 10) as u8);
                self.buffer.extend_from_slice(&[b'$', tens, ones, b'\r', b'\n']);
            }
            length => {
                if length > ARGUMENT_LENGTH_MAX {
                    self.refuse(Error::usage(format!("an argument of {length} bytes is too long to be sent")));
                    return self;
                }
                self.buffer.push(b'$');
                push_i64(&mut self.buffer, length as i64);
                self.buffer.extend_from_slice(b"\r\n");
            }
        }
        self.buffer.extend_from_slice(bytes);
        self.buffer.extend_from_slice(b"\r\n");
        self
    }

    /// Adds words that are written in the program: a command's name, a subcommand, an option.
    #[inline]
    pub fn word(&mut self, word: &str) -> &mut Self {
        self.bytes(word.as_bytes())
    }

    /// Adds the arguments that `value` stands for: one, several or none.
    #[inline]
    pub fn arg(&mut self, value: impl ToArgs) -> &mut Self {
        value.write_to(self);
        self
    }

    /// Adds a name and the arguments that `value` stands for, and returns the number of these arguments. If there are none,
    /// it adds nothing.
    pub(crate) fn named(&mut self, name: &str, value: impl ToArgs) -> usize {
        let (length, count) = (self.buffer.len(), self.count);
        self.word(name).arg(value);
        let values = self.count - count - 1;
        if values == 0 {
            self.buffer.truncate(length);
            self.count = count;
        }
        values
    }

    /// Returns the error if the request cannot be sent.
    pub(crate) fn refusal(&self) -> Option<Error> {
        self.refused.clone()
    }

    /// Makes the request unsendable; the caller gets the first reason.
    pub fn refuse(&mut self, reason: Error) {
        self.refused.get_or_insert(reason);
    }

    /// Returns the number of arguments so far, the command's name included.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether the request has no argument yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Request)) -> Result<String, Error> {
        Request::with(write, |request| String::from_utf8_lossy(request.bytes).into_owned())
    }

    #[test]
    fn a_request_is_an_array_of_strings() {
        assert_eq!(written(|r| _ = r.word("GET").arg("k")).unwrap(), "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        let long = "x".repeat(123);
        let text = written(|r| _ = r.word("ECHO").arg(&long)).unwrap();
        assert_eq!(text, format!("*2\r\n$4\r\nECHO\r\n$123\r\n{long}\r\n"));
        let text = written(|r| _ = r.word("DEL").arg((0..12).collect::<Vec<i64>>())).unwrap();
        assert!(text.starts_with("*13\r\n$3\r\nDEL\r\n$1\r\n0\r\n"), "{text}");
    }

    #[test]
    fn a_request_that_cannot_be_sent_is_refused() {
        assert!(written(|_| ()).is_err());
        let error = written(|r| r.word("GET").refuse(Error::usage("no"))).unwrap_err();
        assert_eq!(error.message(), "no");
    }

    #[test]
    fn requests_nest() {
        let text = written(|r| {
            r.word("ECHO");
            let inner = written(|r| _ = r.word("PING")).unwrap();
            r.arg(inner);
        });
        assert_eq!(text.unwrap(), "*2\r\n$4\r\nECHO\r\n$14\r\n*1\r\n$4\r\nPING\r\n\r\n");
    }
}
