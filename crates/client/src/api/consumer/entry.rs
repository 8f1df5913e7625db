//! One entry of a stream, as a consumer of a group receives it: its fields, and the way to acknowledge it.
//!
//! While the value exists, its consumer knows that the program works on the entry. Any thread.

use std::sync::Arc;

use sleeve_wire::frame::{Frame, decode};

use super::held::Held;
use crate::commands::stream::StreamCommands;
use crate::error::{Error, ErrorKind};
use crate::reply::Reply;
use crate::reply::mapped::Mapped;
use crate::resp::decode::FromReply;

/// The way in which an entry was delivered to a [`Consumer`](crate::Consumer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Delivery {
    /// The entry was delivered for the first time.
    New,
    /// The entry had been delivered to this consumer before, and the program may have worked on it: before the consumer last
    /// ended, or on a connection that was lost.
    Pending,
    /// The entry was claimed: another consumer had kept it for too long, or this one had dropped it.
    Claimed,
}

/// An entry of a stream that a [`Consumer`](crate::Consumer) received. If it is dropped without [`ack`](Entry::ack) it is
/// delivered again.
pub struct Entry {
    held: Arc<Held>,
    id: Arc<str>,
    /// The fields, encoded as a reply of the server.
    fields: Vec<u8>,
    delivery: Delivery,
}

impl Entry {
    /// Creates an entry; returns none if the program has it already.
    pub(crate) fn new(held: &Arc<Held>, id: String, fields: Vec<u8>, delivery: Delivery) -> Option<Self> {
        let id = id.into();
        held.take(&id).then(|| Self { held: Arc::clone(held), id, fields, delivery })
    }

    /// Returns the entry's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the way in which it was delivered.
    pub fn delivery(&self) -> Delivery {
        self.delivery
    }

    /// Reads its fields, as any type that a hash's fields could be read as: a struct that derives
    /// [`FromReply`](crate::FromReply), a map, pairs.
    ///
    /// # Errors
    /// [`ErrorKind::Conversion`](crate::ErrorKind::Conversion) when they do not fit, with the entry's id.
    pub fn read<T: FromReply>(&self) -> Result<T, Error> {
        let (frame, _) = decode(&self.fields).map_err(Error::protocol)?;
        T::from_reply(frame).map_err(|error| match error.kind() {
            ErrorKind::Conversion => Error::conversion(format!("entry {}: {}", self.id, error.message())),
            _ => error,
        })
    }

    /// Returns one field's value, if it has such a field.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        let Ok((Frame::Array(mut items), _)) = decode(&self.fields) else { return None };
        while let (Some(Ok(Frame::Bulk(field))), Some(Ok(Frame::Bulk(value)))) = (items.next(), items.next()) {
            if field == name.as_bytes() {
                return Some(value);
            }
        }
        None
    }

    /// Acknowledges it: it will not be delivered again. The answer is false if another consumer had claimed and acknowledged
    /// it before.
    pub fn ack(self) -> Mapped<u64, impl FnOnce(u64) -> Result<bool, Error> + Send> {
        // The entry counts as the program's until the server has answered.
        ack(&Arc::clone(&self.held), vec![self]).map(|count| count == 1)
    }
}

/// Acknowledges several entries at once; the answer is the number of those that were still pending.
pub(crate) fn ack(
    held: &Held,
    entries: Vec<Entry>,
) -> Mapped<u64, impl FnOnce(u64) -> Result<u64, Error> + Send + use<>> {
    let ids: Vec<&str> = entries.iter().map(Entry::id).collect();
    let reply = match &held.names {
        Ok([stream, group, _]) if !ids.is_empty() => held.place.xack(stream.as_slice(), group.as_slice(), ids),
        Ok(_) => Reply::ready(crate::pipe::slot::Payload::of(b":0\r\n"), None),
        Err(error) => Reply::failed(error.clone(), None),
    };
    reply.map(move |count| {
        drop(entries);
        count
    })
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.held.give_back(&self.id);
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("id", &self.id).field("delivery", &self.delivery).finish_non_exhaustive()
    }
}
