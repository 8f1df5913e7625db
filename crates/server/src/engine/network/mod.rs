//! The network of one engine: the sockets that the options name, TLS, the workers that serve them, and connections to other
//! servers. An embedded engine uses none of them.

pub(crate) mod crews;
pub(crate) mod migrate_target;

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::net::DriverKind;
use crate::net::listeners::Listeners;
use crate::net::tls::Tls;
use crews::Crews;
use migrate_target::Targets;

/// The sockets of one engine.
pub struct Network {
    /// The sockets that the options name.
    pub listeners: Listeners,
    /// The TLS configuration of new connections.
    pub tls: Tls,
    /// The port on which the engine is served; 0 if there is none.
    pub(crate) port: AtomicU32,
    /// The kind of the workers' drivers.
    pub(crate) io: Mutex<DriverKind>,
    /// The crews of workers.
    pub(crate) crews: Crews,
    /// Connections to other servers that are kept for the next MIGRATE.
    pub(crate) targets: Targets,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            listeners: Listeners::default(),
            tls: Tls::default(),
            port: AtomicU32::new(0),
            io: Mutex::new(DriverKind::Epoll),
            crews: Crews::default(),
            targets: Targets::default(),
        }
    }
}

impl Network {
    /// Returns the port on which the engine is served; 0 if there is none.
    pub fn port(&self) -> u32 {
        self.port.load(Ordering::Relaxed)
    }
}
