//! Values as MessagePack: the same data as JSON, in fewer bytes.
//!
//! Structs are written as maps with the names of their fields, so that a field may be added; they are read from arrays as
//! well. Any thread.

use std::any::type_name;
use std::sync::Arc;

use rmp_serde::Deserializer;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sleeve_wire::frame::Frame;

use super::decode::{FromReply, text};
use crate::error::Error;
use crate::resp::request::{Request, ToArg, ToArgs};

/// A value that travels as MessagePack, by serde: an argument, a reply, a message's payload, a field of a hash or of a stream's
/// entry. With feature `serde`.
///
/// Structs travel as maps with the names of their fields; scripts read them with `cmsgpack.unpack`.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use serde::{Deserialize, Serialize};
/// use sleeve::{Client, MsgPack, prelude::*};
///
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct Order {
///     item: String,
///     pieces: u32,
/// }
///
/// let client = Client::embedded();
/// let order = Order { item: "lamp".into(), pieces: 2 };
/// client.set("order:7", MsgPack(&order)).wait()?;
/// let MsgPack(read) = client.get::<MsgPack<Order>>("order:7").wait()?;
/// assert_eq!(read, order);
///
/// let script = "return cmsgpack.unpack(redis.call('GET', KEYS[1])).pieces";
/// assert_eq!(client.eval::<i64>(script, "order:7", ()).wait()?, 2);
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MsgPack<T>(pub T);

impl<T: Serialize> ToArgs for MsgPack<T> {
    fn write_to(&self, request: &mut Request) {
        match rmp_serde::to_vec_named(&self.0) {
            Ok(bytes) => _ = request.bytes(&bytes),
            Err(error) => {
                let name = type_name::<T>();
                request.refuse(Error::usage(format!("{name} cannot be written as MessagePack: {error}")));
            }
        }
    }
}
impl<T: Serialize> ToArg for MsgPack<T> {}

impl<T: DeserializeOwned> FromReply for MsgPack<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        read(text(frame, "MessagePack")?)
    }

    fn from_shared(string: &Arc<[u8]>) -> Result<Self, Error> {
        read(string)
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<MsgPack<T>, Error> {
    let wrong = |why: String| Error::conversion(format!("expected the MessagePack of {}: {why}", type_name::<T>()));
    let mut rest = bytes;
    let value = T::deserialize(&mut Deserializer::new(&mut rest)).map_err(|error| wrong(error.to_string()))?;
    match rest.len() {
        0 => Ok(MsgPack(value)),
        more => Err(wrong(format!("{more} bytes stand behind it"))),
    }
}
