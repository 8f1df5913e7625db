//! Sessions of clients that are remembered to shorten the handshake when they reconnect: a limited number, for a limited
//! time.
//!
//! The sessions lie in the cache of the TLS library, which keeps the newest and knows no time. So each is stored with the
//! second until which it is valid before it. Any thread.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

/// TLS sessions that clients may resume.
pub struct Sessions {
    cache: Arc<ServerSessionMemoryCache>,
    /// The seconds for which a session is valid.
    timeout_s: u64,
    since: Instant,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Sessions").field("timeout_s", &self.timeout_s).finish_non_exhaustive()
    }
}

/// The length of the stored second until which a session is valid, in bytes.
const HEAD: usize = size_of::<u64>();

impl Sessions {
    /// Creates room for `size` sessions.
    pub fn new(size: usize, timeout_s: u64) -> Arc<Self> {
        Arc::new(Self { cache: ServerSessionMemoryCache::new(size), timeout_s, since: Instant::now() })
    }

    fn until_s(&self) -> u64 {
        self.since.elapsed().as_secs().saturating_add(self.timeout_s)
    }

    fn if_it_counts(&self, kept: &[u8]) -> Option<Vec<u8>> {
        let (head, session) = kept.split_at_checked(HEAD)?;
        let until_s = u64::from_le_bytes(head.try_into().ok()?);
        (self.since.elapsed().as_secs() < until_s).then(|| session.to_vec())
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.cache.put(key, [self.until_s().to_le_bytes().as_slice(), &value].concat())
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.if_it_counts(&self.cache.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.if_it_counts(&self.cache.take(key)?)
    }

    fn can_cache(&self) -> bool {
        self.timeout_s != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_counts_until_its_time_is_over() {
        let sessions = Sessions::new(10, 100);
        assert!(sessions.put(b"a".to_vec(), b"x".to_vec()) && sessions.can_cache());
        assert_eq!(sessions.get(b"a"), Some(b"x".to_vec()));
        assert_eq!(sessions.take(b"a"), Some(b"x".to_vec()));
        assert_eq!(sessions.get(b"a"), None, "it has been taken");
        let over = Sessions::new(10, 0);
        assert!(over.put(b"a".to_vec(), b"x".to_vec()) && !over.can_cache());
        assert_eq!((over.get(b"a"), over.take(b"a")), (None, None));
    }
}
