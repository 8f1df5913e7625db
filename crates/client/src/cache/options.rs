//! Options of the near cache: its bounds in bytes and time, and the key prefixes for which the server reports changes.
//!
//! Pure data; any thread.

use std::time::Duration;

use crate::error::Error;

/// Options of a client's near cache: see [`Client::cached_with`](crate::Client::cached_with).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    pub(crate) bytes_max: usize,
    pub(crate) ttl_max: Duration,
    /// The prefixes of the broadcast mode; none if the server remembers the keys that were read.
    pub(crate) prefixes: Option<Vec<Vec<u8>>>,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { bytes_max: 64 << 20, ttl_max: Duration::from_secs(3600), prefixes: None }
    }
}

impl CacheOptions {
    /// Returns the defaults: 64 MiB, an hour, and a server that remembers the keys that were read.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the largest size of the cache in bytes; 64 MiB without this. The cache's own memory for each key counts, too. A
    /// reply that would take more than an eighth of the size is not kept.
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Sets the longest time for which a reply is kept, however seldom its key changes; an hour without this. A reply for a
    /// key with a time to live is never kept for longer than that.
    pub fn ttl_max(mut self, time: Duration) -> Self {
        self.ttl_max = time;
        self
    }

    /// Selects the broadcast mode (BCAST). The server remembers no keys, and reports each change to a key that begins with
    /// one of these prefixes; without a prefix, each change to any key. Only keys with such a prefix are cached.
    ///
    /// This mode costs the server no memory, and the client a message for each change, even if it has not read the key: for
    /// few changes to keys that many clients read. No prefix may begin with another.
    pub fn broadcast<P: Into<Vec<u8>>>(mut self, prefixes: impl IntoIterator<Item = P>) -> Self {
        self.prefixes = Some(prefixes.into_iter().map(Into::into).collect());
        self
    }

    /// Returns an error if one of the prefixes begins with another.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let prefixes = self.prefixes.iter().flatten().enumerate();
        for (index, prefix) in prefixes {
            let others = self.prefixes.iter().flatten().skip(index + 1);
            if let Some(other) = others.into_iter().find(|other| other.starts_with(prefix) || prefix.starts_with(other))
            {
                let (one, other) = (prefix.escape_ascii(), other.escape_ascii());
                return Err(Error::usage(format!(
                    "the prefixes \"{one}\" and \"{other}\" of the near cache overlap: leave out the longer one"
                )));
            }
        }
        Ok(())
    }

    /// Returns whether keys like this are cached.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        match &self.prefixes {
            Some(prefixes) => prefixes.is_empty() || prefixes.iter().any(|prefix| key.starts_with(prefix)),
            None => true,
        }
    }
}
