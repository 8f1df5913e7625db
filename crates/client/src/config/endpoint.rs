//! The place of a server, as a URL or the application names it. Pure data.

use std::fmt;
use std::path::PathBuf;

/// The place of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// `redis://host:port` and `valkey://host:port`, or `rediss://` and `valkeys://` with TLS
    Tcp {
        /// A name or an address.
        host: String,
        /// The port; 6379 if the URL names none.
        port: u16,
    },
    /// `redis+cluster://host:port,host:port` and `valkey+cluster://...`, or `rediss+cluster://` and `valkeys+cluster://` with
    /// TLS: some of the nodes of a cluster, as hosts and ports. These nodes name the others.
    Cluster(Vec<(String, u16)>),
    /// `unix:///path`
    Unix(PathBuf),
    /// `embedded://`: an engine in this process. Clients that give the same name share one engine; without a name each has
    /// its own. A name that begins with `/` is a folder in which the engine keeps its data.
    Embedded(Option<String>),
    /// `redis+sentinel://host:port,host:port/service`: the primary of a service, at the address that its Sentinels report.
    /// Each connection asks them before it is made, and moves when they report another primary.
    Sentinel {
        /// The name or address and the port of each Sentinel that is asked first; 26379 where the URL names no port. The
        /// others are learned from them.
        sentinels: Vec<(String, u16)>,
        /// The Sentinels' name of the service.
        service: String,
    },
}

impl Endpoint {
    /// Returns whether a node or a Sentinel at this endpoint reports the replicas.
    pub(crate) fn has_replicas(&self) -> bool {
        matches!(self, Self::Cluster(_) | Self::Sentinel { .. })
    }
}

impl fmt::Display for Endpoint {
    /// Writes its name in errors: `host:port`, `the cluster of host:port,host:port`, the socket's path, `embedded://name`, or
    /// the service's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write_place(f, host, *port),
            Self::Cluster(seeds) => {
                f.write_str("the cluster of ")?;
                seeds.iter().enumerate().try_for_each(|(number, (host, port))| {
                    f.write_str(if number > 0 { "," } else { "" })?;
                    write_place(f, host, *port)
                })
            }
            Self::Sentinel { service, .. } => write!(f, "the service {service}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Embedded(name) => write!(f, "embedded://{}", name.as_deref().unwrap_or_default()),
        }
    }
}

pub(crate) fn write_place(f: &mut fmt::Formatter<'_>, host: &str, port: u16) -> fmt::Result {
    if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
}
