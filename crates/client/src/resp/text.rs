//! Values that have a text of their own, as that text: UUIDs, dates, URLs, decimals.
//!
//! Such types come from crates that this one need not know: the standard library's traits for a text (`Display` to write it,
//! `FromStr` to read it) are enough. Pure functions; any thread.

use std::any::type_name;
use std::fmt::{Display, Write};
use std::str::FromStr;

use sleeve_wire::frame::Frame;

use super::decode::texts::utf8;
use super::decode::{FromReply, described};
use crate::error::Error;
use crate::resp::request::{Request, ToArg, ToArgs};

/// A value that travels as its text: written by `Display`, read by `FromStr`.
///
/// So a UUID, a date, a URL or a decimal of any crate is an argument (a key as well) and a reply.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use std::net::Ipv4Addr; // or uuid::Uuid, url::Url, rust_decimal::Decimal, ...
/// use sleeve::{Client, Text, prelude::*};
///
/// let client = Client::embedded();
/// client.set("home", Text(Ipv4Addr::LOCALHOST)).wait()?;
/// let Text(home) = client.get::<Text<Ipv4Addr>>("home").wait()?;
/// assert_eq!(home, Ipv4Addr::LOCALHOST);
///
/// client.set("home", "not an address").wait()?;
/// let error = client.get::<Text<Ipv4Addr>>("home").wait().unwrap_err();
/// assert!(error.message().ends_with("got the string \"not an address\": invalid IPv4 address syntax"));
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<T>(pub T);

impl<T: Display> ToArgs for Text<T> {
    fn write_to(&self, request: &mut Request) {
        let mut text = String::new();
        match write!(text, "{}", self.0) {
            Ok(()) => _ = request.bytes(text.as_bytes()),
            Err(_) => request.refuse(Error::usage(format!("{} gives no text: its Display fails", type_name::<T>()))),
        }
    }
}
impl<T: Display> ToArg for Text<T> {}

impl<T: FromStr<Err: Display>> FromReply for Text<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        let wanted = format!("the text of {}", type_name::<T>());
        let read = match frame {
            Frame::Integer(value) => value.to_string().parse(),
            other => utf8(other, &wanted)?.parse(),
        };
        read.map(Self)
            .map_err(|error| Error::conversion(format!("expected {wanted}, got {}: {error}", described(&frame))))
    }
}
