//! The server's answers to a consumer: pages of entries, in the forms of both protocols and of several server versions.
//!
//! Fields are kept encoded as they arrived, and decoded on demand. Pure functions; any thread.

use std::sync::Arc;

use sleeve_wire::frame::{Frame, Items};
use sleeve_wire::reply::{Protocol, Writer};

use crate::error::Error;
use crate::resp::decode::FromReply;

/// The answer of XREADGROUP for one stream.
pub(crate) struct Page {
    pub(crate) records: Vec<Record>,
}

/// The answer of XAUTOCLAIM.
pub(crate) struct Claimed {
    /// The id from which the next XAUTOCLAIM continues.
    pub(crate) next: String,
    pub(crate) records: Vec<Record>,
}

/// The name of a stream, and its entries in the answer.
type Stream = (Arc<[u8]>, Vec<Record>);

/// An entry in the form in which it arrived.
pub(crate) struct Record {
    pub(crate) id: String,
    /// The fields; none if the entry was deleted from the stream.
    pub(crate) fields: Option<Vec<u8>>,
}

impl FromReply for Page {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        let streams = Option::<Vec<Stream>>::from_reply(frame)?;
        Ok(Self { records: streams.unwrap_or_default().into_iter().flat_map(|(_, records)| records).collect() })
    }
}

impl FromReply for Claimed {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        let Frame::Array(mut items) = frame else { return Err(unlike(&frame)) };
        let mut next = || items.next().transpose().map_err(Error::protocol).map(|frame| frame.unwrap_or(Frame::Null));
        // If the server lists deleted entries, they are the third element, and no longer pending; older servers have nil in
        // place of each.
        let (next, records) = (String::from_reply(next()?)?, Vec::<Option<Record>>::from_reply(next()?)?);
        Ok(Self { next, records: records.into_iter().flatten().collect() })
    }
}

impl FromReply for Record {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        let (id, Fields(fields)) = FromReply::from_reply(frame)?;
        Ok(Self { id, fields })
    }
}

/// The encoded fields of an entry; none if it was deleted.
struct Fields(Option<Vec<u8>>);

impl FromReply for Fields {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        match frame {
            Frame::Null => Ok(Self(None)),
            Frame::Array(items) | Frame::Map(items) => copied(items).map(|fields| Self(Some(fields))),
            other => Err(unlike(&other)),
        }
    }
}

/// Returns names and values in turn, encoded as an array of strings.
fn copied(items: Items<'_>) -> Result<Vec<u8>, Error> {
    let mut copy = Vec::new();
    let mut writer = Writer::new(&mut copy, Protocol::Resp2);
    writer.array(items.len());
    for item in items {
        match item.map_err(Error::protocol)? {
            Frame::Bulk(text) | Frame::Simple(text) => writer.bulk(text),
            other => return Err(unlike(&other)),
        }
    }
    Ok(copy)
}

#[cold]
fn unlike(frame: &Frame<'_>) -> Error {
    match frame {
        Frame::Error(text) => Error::server(text),
        _ => Error::conversion("expected entries of a stream, got something else"),
    }
}
