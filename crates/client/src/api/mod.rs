//! Handles on which calls begin: clients and databases, handles that gather calls, repeat them or keep them together, and
//! consumers of streams.

pub(crate) mod at;
pub(crate) mod batch;
pub(crate) mod cached;
pub(crate) mod cmd;
pub(crate) mod coalesce;
pub(crate) mod consumer;
pub(crate) mod handles;
pub(crate) mod lanes;
pub(crate) mod lease;
pub(crate) mod origin;
pub(crate) mod scan;
pub(crate) mod script;
#[cfg(feature = "embedded")]
pub(crate) mod testing;
pub(crate) mod timed;
pub(crate) mod transaction;
pub(crate) mod typed_key;
