//! Values as JSON.
//!
//! Serde decides how a type is written; this file only carries that text as an argument or a reply. Any thread.

use std::any::type_name;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sleeve_wire::frame::Frame;

use super::decode::{FromReply, text};
use crate::error::Error;
use crate::resp::request::{Request, ToArg, ToArgs};

/// A value that travels as JSON, by serde: an argument, a reply, a message's payload, a field of a hash or of a stream's entry.
/// With feature `serde`.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use serde::{Deserialize, Serialize};
/// use sleeve::{Client, Json, prelude::*};
///
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct Order {
///     item: String,
///     pieces: u32,
/// }
///
/// let client = Client::embedded();
/// let order = Order { item: "lamp".into(), pieces: 2 };
/// client.set("order:7", Json(&order)).wait()?;
/// let Json(read) = client.get::<Json<Order>>("order:7").wait()?;
/// assert_eq!(read, order);
///
/// let orders = client.subscribe("orders")?;
/// client.publish("orders", Json(&order)).wait()?;
/// let message = orders.recv().wait()?.into_message().expect("nothing was lost");
/// assert_eq!(message.payload_as::<Json<Order>>()?, Json(order));
///
/// client.set("order:7", r#"{"item":"lamp"}"#).wait()?;
/// let error = client.get::<Json<Order>>("order:7").wait().unwrap_err();
/// assert!(error.message().contains("missing field `pieces`"), "{error}");
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json<T>(pub T);

impl<T: Serialize> ToArgs for Json<T> {
    fn write_to(&self, request: &mut Request) {
        match serde_json::to_vec(&self.0) {
            Ok(json) => _ = request.bytes(&json),
            Err(error) => {
                let name = type_name::<T>();
                request.refuse(Error::usage(format!("{name} cannot be written as JSON: {error}")));
            }
        }
    }
}
impl<T: Serialize> ToArg for Json<T> {}

impl<T: DeserializeOwned> FromReply for Json<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        match frame {
            // A counter is JSON too.
            Frame::Integer(value) => read(value.to_string().as_bytes()),
            other => read(text(other, "JSON")?),
        }
    }

    fn from_shared(string: &Arc<[u8]>) -> Result<Self, Error> {
        read(string)
    }
}

fn read<T: DeserializeOwned>(json: &[u8]) -> Result<Json<T>, Error> {
    serde_json::from_slice(json)
        .map(Json)
        .map_err(|error| Error::conversion(format!("expected the JSON of {}: {error}", type_name::<T>())))
}
