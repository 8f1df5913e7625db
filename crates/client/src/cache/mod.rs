//! The near cache: reads that are answered in this process, from replies that the server invalidates.
//!
//! The command table says which replies may be kept (`requests`). A read with a kept reply takes it from here (`shards`,
//! `store`, `sieve`). A read that is in flight for another caller waits for that caller's reply (`flights`). Any other read
//! is sent, with the request that makes the server report changes of its key. `tracking` receives the invalidations and the
//! events of the connection; `listening` is its twin over an engine in this process, and sends the reads as well.
//!
//! The cache serves the commands of callers that ask through it (`Cached`), and watches the writes of all callers on the
//! client's shared connection. Any thread.

mod flights;
#[cfg(feature = "embedded")]
mod listening;
pub(crate) mod options;
mod owners;
mod requests;
mod shards;
mod sieve;
pub(crate) mod stats;
mod store;
mod tracking;

use std::sync::Arc;

use sleeve_wire::number::push_i64;
use sleeve_wire::slot;

use crate::cache::options::CacheOptions;
use crate::config::Protocol;
use crate::connection::Link;
use crate::error::Error;
use crate::pipe::cached_read::{Cache, Read, ReadId};
use crate::pipe::driver_number::DriverNumber;
use crate::pipe::queued::Sent;
use crate::pipe::slot::{Completions, Target};
use crate::resp::request::EncodedRequest;
use crate::sys::{Process, inherited};
use crate::sys::{chance, uptime_ms};
use crate::transport::Transport;
use crate::transport::cluster::Cluster;
use crate::transport::cluster::cached::{attach_cache, send_read};
use crate::transport::slot_cache::SlotCache;
#[cfg(feature = "embedded")]
use listening::Listening;
use owners::Owners;
use requests::deciding_key;
use shards::{CacheRead, Look, Shards};
use stats::CacheStats;
use tracking::{CACHING, Connection, Tracking};

/// The divisor of the command timeout that limits the age of a read that other callers join. A caller that joins waits longer
/// by at most that age, which is less than the inaccuracy of the clock of timeouts.
const SHARED_PART: u32 = 16;

/// A client's near cache.
pub(crate) struct Near {
    tracking: Arc<Tracking>,
    way: Way,
    /// The process in which the cache was made; a forked child receives no invalidations.
    process: Process,
}

/// The way in which missing keys are read.
enum Way {
    Remote(Arc<Link>, Arc<Connection>),
    /// Over a cluster; the connection is for replies that no connection invalidates.
    Cluster(Arc<Cluster>, Arc<Connection>),
    #[cfg(feature = "embedded")]
    Local(Box<Listening>),
}

impl Near {
    /// Opens the cache of a client that sends over this transport.
    pub(crate) fn open(transport: &Transport, options: CacheOptions) -> Result<Self, Error> {
        options.check()?;
        transport.check_process()?;
        let is_remote = matches!(transport, Transport::Remote(_) | Transport::Replicated(..) | Transport::Cluster(_));
        if is_remote && transport.config().protocol == Protocol::Resp2 {
            return Err(Error::usage(
                "the near cache needs RESP3, by which a server says what changes, and this client is configured for RESP2",
            ));
        }
        let limit = transport.config().command_timeout.map_or(u128::MAX, |timeout| (timeout / SHARED_PART).as_millis());
        let secret = chance();
        let shared_ms_max = u64::try_from(limit).unwrap_or(u64::MAX);
        let owners = matches!(transport, Transport::Cluster(_)).then(Owners::default);
        let shards = Shards::new(&options, &transport.driver(), (secret, shared_ms_max), owners);
        let tracking = Tracking::new(shards, options)?;
        let way = match transport {
            Transport::Remote(link) | Transport::Replicated(link, _) => {
                let connection = Arc::new(tracking.connect());
                link.attach(Arc::clone(&connection) as Arc<dyn Cache>);
                Way::Remote(Arc::clone(link), connection)
            }
            Transport::Cluster(cluster) => {
                attach_cache(cluster, Arc::clone(&tracking) as Arc<dyn SlotCache>);
                Way::Cluster(Arc::clone(cluster), Arc::new(tracking.nobody()))
            }
            #[cfg(feature = "embedded")]
            Transport::Local(embedded) => Way::Local(Box::new(Listening::new(embedded.engine(), tracking.connect()))),
        };
        Ok(Self { tracking, way, process: Process::this() })
    }

    /// Returns the options with which the cache was opened.
    pub(crate) fn options(&self) -> &CacheOptions {
        &self.tracking.options
    }

    /// Returns the counts and the size of the cache.
    pub(crate) fn stats(&self) -> CacheStats {
        self.tracking.shards.stats()
    }

    /// Forgets all replies.
    pub(crate) fn clear(&self) {
        self.tracking.shards.forget_all();
    }

    /// Answers a request from the cache, or sends it.
    #[inline]
    pub(crate) fn send(
        &self,
        transport: &Transport,
        database: u32,
        request: EncodedRequest<'_>,
    ) -> Result<Sent, Error> {
        let Some(key) = deciding_key(request) else { return transport.send(database, request) };
        if !self.process.is_this() {
            return Err(inherited());
        }
        let wanted = CacheRead { database, request, key, now_ms: uptime_ms() };
        if !self.tracking.options.covers(wanted.key()) {
            return transport.send(database, request);
        }
        match &self.way {
            #[cfg(feature = "embedded")]
            Way::Local(listening) => {
                listening.hear();
                if let Some(payload) = self.tracking.shards.find(wanted) {
                    return Ok(Sent::Ready(payload, DriverNumber::NONE));
                }
                self.read_here(listening, transport, wanted)
            }
            _ => match self.tracking.shards.look(wanted) {
                Look::Hit(payload) => Ok(Sent::Ready(payload, DriverNumber::NONE)),
                Look::Shared(handle) => Ok(Sent::Slot(handle)),
                Look::Missing(place, target, handle) => {
                    self.fly(transport, wanted, (place, target));
                    Ok(Sent::Slot(handle))
                }
            },
        }
    }

    /// Sends a read over a connection.
    #[cold]
    fn fly(&self, transport: &Transport, wanted: CacheRead<'_>, (place, target): (ReadId, Target)) {
        let opts_in = self.tracking.opts_in();
        let (database, request) = (wanted.database, wanted.request);
        let read =
            |cache: &Arc<Connection>| Box::new(Read::new(Arc::clone(cache) as Arc<dyn Cache>, place, target, opts_in));
        let requests = requests_of(wanted, opts_in);
        let sent = match &self.way {
            Way::Remote(link, connection) => match connection.refusal() {
                Some(refusal) => Err((refusal, read(connection))),
                None => link.send_read(database, request.name, &requests, read(connection)),
            },
            Way::Cluster(cluster, nobody) => {
                send_read(cluster, slot::of_key(wanted.key()), (database, request), requests, read(nobody))
            }
            // An engine in this process shares no reads: a read that is not answered at once is sent as any other command.
            #[cfg(feature = "embedded")]
            Way::Local(_) => return,
        };
        // Other callers may have joined this read already; completing it tells them the error.
        if let Err((error, mut read)) = sent {
            let mut done = Completions::default();
            read.fail(&error, &mut done);
            drop(read);
            transport.finish(&mut done);
        }
    }

    /// Reads in an engine in this process.
    #[cfg(feature = "embedded")]
    #[cold]
    fn read_here(&self, listening: &Listening, transport: &Transport, wanted: CacheRead<'_>) -> Result<Sent, Error> {
        if transport.is_open()
            && let Some(payload) = listening.read(wanted, &requests_of(wanted, self.tracking.opts_in()))
        {
            return Ok(Sent::Ready(payload, DriverNumber::NONE));
        }
        // A command that the engine holds up waits as it would without the cache.
        transport.send(wanted.database, wanted.request)
    }
}

/// Returns all requests of a read for the cache: CLIENT CACHING YES, if it is needed, the read, and PTTL of the key.
fn requests_of(wanted: CacheRead<'_>, opts_in: bool) -> Vec<u8> {
    let (request, key) = (wanted.request.bytes, wanted.key());
    let mut requests = Vec::with_capacity(CACHING.len() + request.len() + key.len() + 48);
    if opts_in {
        requests.extend_from_slice(CACHING);
    }
    requests.extend_from_slice(request);
    requests.extend_from_slice(b"*2\r\n$4\r\nPTTL\r\n$");
    push_i64(&mut requests, key.len() as i64);
    requests.extend_from_slice(b"\r\n");
    requests.extend_from_slice(key);
    requests.extend_from_slice(b"\r\n");
    requests
}
