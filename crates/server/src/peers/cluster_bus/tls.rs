//! The TLS configurations of links (`tls-cluster`).

use std::sync::Arc;

use rustls::{ClientConfig, ServerConfig};

use crate::config::Config;
use crate::net::tls::{self, Channel};

/// The time after which the files are read again for new links, in milliseconds, so that a renewed certificate is used.
const RELOAD_MS: u64 = 10_000;

/// The configurations of new links.
#[derive(Debug)]
pub(super) struct LinkTls {
    accepted: Arc<ServerConfig>,
    opened: Arc<ClientConfig>,
    loaded_ms: u64,
}

impl LinkTls {
    /// Reads the files that the options name.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn load(config: &Config, now_ms: u64) -> Result<Self, String> {
        Ok(Self { accepted: tls::load_for_nodes(config)?, opened: tls::load_for_primaries(config)?, loaded_ms: now_ms })
    }

    /// Reads the files again if that is due. If they cannot be used, the present configurations stay.
    pub fn renew(&mut self, config: &Config, now_ms: u64) {
        if now_ms.saturating_sub(self.loaded_ms) < RELOAD_MS {
            return;
        }
        self.loaded_ms = now_ms;
        if let Ok(loaded) = Self::load(config, now_ms) {
            *self = loaded;
        }
    }

    /// Makes the channel of a link that another node has opened.
    pub fn accept(&self) -> Option<Box<Channel>> {
        Channel::accept(Arc::clone(&self.accepted))
    }

    /// Makes the channel of a link that this node opens.
    pub fn connect(&self, ip: &str) -> Option<Box<Channel>> {
        Channel::connect(Arc::clone(&self.opened), ip)
    }
}
