//! Strings and bytes from replies, and values that are written as a text: a letter, an address.
//!
//! A string of the near cache may be shared with its other owners, and a string that is a whole reply may take over its
//! memory. All other strings are copied once, into the requested type. Pure functions; any thread.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::Arc;

use bytes::Bytes;
use sleeve_wire::frame::Frame;

use super::{FromReply, mismatch, owned, string, text};
use crate::error::Error;

/// Returns the text of a string, which must be UTF-8.
pub(crate) fn utf8<'a>(frame: Frame<'a>, wanted: &str) -> Result<&'a str, Error> {
    let bytes = text(frame, wanted)?;
    std::str::from_utf8(bytes).map_err(|_| no_utf8(&frame))
}

#[cold]
fn no_utf8(frame: &Frame<'_>) -> Error {
    mismatch("a string of UTF-8 (ask for a Vec<u8> to allow any bytes)", frame)
}

impl FromReply for String {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        match frame {
            Frame::Integer(value) => Ok(value.to_string()),
            other => utf8(other, "a string").map(str::to_owned),
        }
    }

    fn from_owned(reply: Box<[u8]>) -> Result<Self, Error> {
        match owned::text(reply) {
            Ok(text) => String::from_utf8(text).map_err(|error| no_utf8(&Frame::Bulk(error.as_bytes()))),
            Err(reply) => Self::from_reply(owned::whole(&reply)?),
        }
    }
}

/// Implements decoding for the types that hold a string.
macro_rules! strings {
    ($($type:ty),*) => { $(
        impl FromReply for $type {
            fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
                match frame {
                    Frame::Integer(value) => Ok(value.to_string().into()),
                    other => utf8(other, "a string").map(|text| text.to_owned().into()),
                }
            }
        }
    )* };
}

strings!(Box<str>, Cow<'static, str>);

impl FromReply for Arc<str> {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        match frame {
            Frame::Integer(value) => Ok(value.to_string().into()),
            other => utf8(other, "a string").map(Into::into),
        }
    }
}

impl FromReply for Cow<'static, [u8]> {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        u8::several_from_reply(frame).map(Cow::Owned)
    }
}

impl FromReply for Arc<[u8]> {
    /// Reads a string. A string from the near cache ([`Client::cached`](crate::Client::cached)) is shared with it; any other
    /// is copied.
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        u8::several_from_reply(frame).map(Into::into)
    }

    fn from_shared(string: &Arc<[u8]>) -> Result<Self, Error> {
        Ok(Arc::clone(string))
    }
}

impl FromReply for Bytes {
    const MAY_SHARE: bool = true;

    /// Returns a part of the reply's own memory, if the reply is longer than about 30 bytes; the owner of a short part of a
    /// long reply keeps all of it. A string from the near cache ([`Client::cached`](crate::Client::cached)) is shared with
    /// it.
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        match frame {
            Frame::Integer(_) => string(frame).map(Into::into),
            other => text(other, "a string").map(owned::part),
        }
    }

    fn from_shared(string: &Arc<[u8]>) -> Result<Self, Error> {
        Ok(Bytes::from_owner(Arc::clone(string)))
    }
}

impl FromReply for char {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        let mut letters = match frame {
            Frame::Integer(value @ 0..=9) => return Ok(char::from(b'0' + value as u8)),
            other => utf8(other, "a string of one character")?.chars(),
        };
        match (letters.next(), letters.next()) {
            (Some(letter), None) => Ok(letter),
            _ => Err(mismatch("a string of one character", &frame)),
        }
    }
}

/// Implements decoding for the types that are read from their text, with their names in errors.
macro_rules! written {
    ($($type:ty: $wanted:literal),*) => { $(
        impl FromReply for $type {
            fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
                utf8(frame, $wanted)?.parse().map_err(|_| mismatch($wanted, &frame))
            }
        }
    )* };
}

written! {
    IpAddr: "an IP address",
    Ipv4Addr: "an IPv4 address",
    Ipv6Addr: "an IPv6 address",
    SocketAddr: "an IP address with a port",
    SocketAddrV4: "an IPv4 address with a port",
    SocketAddrV6: "an IPv6 address with a port"
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;

    #[test]
    fn strings_come_in_what_holds_them() {
        assert_eq!(read::<Arc<str>>(b"$2\r\nhi\r\n"), Ok("hi".into()));
        assert_eq!(read::<Box<str>>(b"+OK\r\n"), Ok("OK".into()));
        assert_eq!(read::<Cow<'static, str>>(b":7\r\n"), Ok("7".into()));
        assert_eq!(read::<Cow<'static, [u8]>>(b"$1\r\n\xff\r\n"), Ok(vec![255].into()));
        assert_eq!(read::<char>(b"$2\r\n\xc3\xa9\r\n"), Ok('é'));
        assert_eq!(read::<char>(b":7\r\n"), Ok('7'));
        assert!(read::<Arc<str>>(b"$1\r\n\xff\r\n").unwrap_err().message().starts_with("expected a string of UTF-8"));
        let two = read::<char>(b"$2\r\nab\r\n").unwrap_err();
        assert_eq!(two.message(), "expected a string of one character, got the string \"ab\"");
        assert!(read::<char>(b"$0\r\n\r\n").is_err());
        assert!(read::<char>(b":10\r\n").is_err());
    }

    #[test]
    fn addresses_are_read_from_their_text() {
        assert_eq!(read::<IpAddr>(b"$3\r\n::1\r\n"), Ok(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(read::<SocketAddr>(b"$14\r\n127.0.0.1:6379\r\n"), Ok((Ipv4Addr::LOCALHOST, 6379).into()));
        let name = read::<Ipv4Addr>(b"$9\r\nlocalhost\r\n").unwrap_err();
        assert_eq!(name.message(), "expected an IPv4 address, got the string \"localhost\"");
    }
}
