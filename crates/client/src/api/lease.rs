//! A connection for one caller for a while, for commands that cannot be shared: a WATCH that a program controls itself, and
//! WAIT.
//!
//! Leases come from the small pool that each client keeps (`transport/pool`). If a lease is dropped, its connection goes back
//! to the pool, clean, or is closed if a request is still in flight. In a cluster the first command's keys decide to which
//! node it connects. Its connection is never made again behind the caller's back: the watched keys would be forgotten. A
//! lease may be used from any thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_wire::commands::Row;

use super::cmd::Cmd;
use super::transaction::Transaction;
use crate::api::origin::Origin;
use crate::commands::ask::Ask;
use crate::error::{Error, ErrorKind};
use crate::reactor::watcher::watch_for;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::refusal;
use crate::resp::request::{EncodedRequest, Request, ToArgs};
use crate::sys::now;
use crate::transport::Transport;

/// A connection that no other caller uses until it is dropped.
///
/// In a cluster the first command decides to which node it is a connection: the owner of its keys, or any node if it has
/// none; and there it stays. [`Client::lease_for`](crate::Client::lease_for) decides it beforehand. A transaction that comes
/// before all commands goes to the node of its own keys, as one of the client does.
///
/// Commands that wait on the server need no lease: on other handles they get a connection of their own. On a lease they hold
/// up its next commands, and the client's command timeout bounds them too.
pub struct Lease {
    origin: Arc<Origin>,
    /// The lease's connection. In a cluster there is none before the first command.
    transport: OnceLock<Transport>,
    database: u32,
    watched: AtomicBool,
    /// True if the lease was used for a command that waits on the server.
    waited: AtomicBool,
}

impl Lease {
    pub(crate) fn new(origin: Arc<Origin>, database: u32) -> Result<Self, Error> {
        origin.check_open()?;
        let transport = match &origin.transport {
            Transport::Cluster(_) => OnceLock::new(),
            transport => OnceLock::from(origin.pool.take(transport, false)?),
        };
        Ok(Self::of(origin, transport, database))
    }

    /// Leases a connection to the node of these keys, which all have the same node.
    pub(crate) fn at(origin: Arc<Origin>, database: u32, keys: impl ToArgs) -> Result<Self, Error> {
        origin.check_open()?;
        let transport = origin.pool.take_at(&origin.transport, keys)?;
        Ok(Self::of(origin, OnceLock::from(transport), database))
    }

    fn of(origin: Arc<Origin>, transport: OnceLock<Transport>, database: u32) -> Self {
        Self { origin, transport, database, watched: AtomicBool::new(false), waited: AtomicBool::new(false) }
    }

    /// Watches keys: a transaction on this lease is then executed only if none of them has changed.
    pub fn watch(&self, keys: impl ToArgs) -> Reply<()> {
        self.watched.store(true, Ordering::Relaxed);
        self.ask(move |request| crate::commands::write!(request, "WATCH", keys))
    }

    /// Releases all watched keys.
    pub fn unwatch(&self) -> Reply<()> {
        self.ask(|request| crate::commands::write!(request, "UNWATCH"))
    }

    /// Begins a transaction on this connection.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self.transport.get().unwrap_or(&self.origin.transport).clone(), self.database)
    }

    /// Begins a command by its name, for commands without a method of their own.
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        self.watched.store(true, Ordering::Relaxed);
        Cmd::new(self, name)
    }
}

/// The lease's first command, which in a cluster decides on the node.
impl Lease {
    #[cold]
    fn ask_first<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        let send = |request: EncodedRequest<'_>| self.connect(request)?.send(self.database, request);
        match Request::with(write, send) {
            Ok(Ok(sent)) => Reply::sent(sent, self.origin.transport.error_hook()),
            Ok(Err(error)) | Err(error) => Reply::failed(error, self.origin.transport.error_hook()),
        }
    }

    /// Returns the connection. If there is none yet, one to the node of the request's keys is leased.
    fn connect(&self, request: EncodedRequest<'_>) -> Result<&Transport, Error> {
        self.origin.check_open()?;
        let mut taken = Some(self.origin.pool.take_for(&self.origin.transport, request)?);
        let transport = self.transport.get_or_init(|| taken.take().unwrap_or_else(|| self.origin.transport.clone()));
        // If another thread has set a connection first, this one is given back.
        taken.into_iter().for_each(|spare| self.origin.pool.give_back(spare));
        Ok(transport)
    }
}

impl Ask for Lease {
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        match self.transport.get() {
            Some(transport) => transport.ask(self.database, write),
            None => self.ask_first(write),
        }
    }

    fn ask_waiting<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.waited.store(true, Ordering::Relaxed);
        self.ask(write)
    }

    fn refusal(&self, row: Option<&'static Row>) -> Option<Error> {
        refusal::leased(row)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(transport) = self.transport.get() else { return };
        if transport.is_idle() {
            if self.watched.load(Ordering::Relaxed) {
                self.unwatch().forget();
            }
            return self.origin.pool.give_back(transport.clone());
        }
        if self.waited.load(Ordering::Relaxed) {
            // The command may wait for ever, and would then take an element that no caller receives.
            return transport.abort();
        }
        // A close without a wait cannot fail.
        let _ = transport.close(None);
    }
}

/// The number of attempts of a watched transaction before its caller gets the error that other clients are always faster.
const ATTEMPTS_MAX: u32 = 1000;

/// The pause between two attempts at a cluster that is changing.
const CHANGING_PAUSE: Duration = Duration::from_millis(20);

/// The time for which such attempts go on if there is no command timeout.
const CHANGING_MAX: Duration = Duration::from_secs(60);

/// The leases for the attempts: each at the node that has the keys, as the cluster changes.
struct Leases<'a> {
    origin: &'a Arc<Origin>,
    until: Instant,
}

impl<'a> Leases<'a> {
    fn new(origin: &'a Arc<Origin>) -> Self {
        let limit = origin.transport.config().command_timeout.unwrap_or(CHANGING_MAX).min(CHANGING_MAX);
        Self { origin, until: now() + limit }
    }

    /// Returns whether an attempt with this error may be tried again in a moment.
    fn may_go_on<R>(&self, result: &Result<R, Error>) -> bool {
        result.as_ref().is_err_and(|error| self.origin.transport.has_changed(error)) && now() < self.until
    }
}

/// Runs `attempt` until its transaction is executed without a change of the keys that it watched.
pub(crate) fn watch<R>(
    origin: &Arc<Origin>,
    database: u32,
    keys: impl ToArgs,
    mut attempt: impl FnMut(&Lease, &Transaction) -> Result<R, Error>,
) -> Result<R, Error> {
    let leases = Leases::new(origin);
    loop {
        let lease = Lease::at(Arc::clone(origin), database, &keys);
        let result = lease.and_then(|lease| watch_with(&lease, &keys, &mut attempt));
        if !leases.may_go_on(&result) {
            return result;
        }
        thread::sleep(CHANGING_PAUSE);
    }
}

fn watch_with<R>(
    lease: &Lease,
    keys: impl ToArgs,
    attempt: &mut impl FnMut(&Lease, &Transaction) -> Result<R, Error>,
) -> Result<R, Error> {
    for _ in 0..ATTEMPTS_MAX {
        lease.watch(&keys).wait()?;
        let transaction = lease.transaction();
        let result = attempt(lease, &transaction)?;
        if transaction.exec().wait()? {
            return Ok(result);
        }
    }
    Err(always_changed())
}

/// Works as [`watch`] does, in async code.
pub(crate) async fn watch_async<R>(
    origin: &Arc<Origin>,
    database: u32,
    keys: impl ToArgs,
    mut attempt: impl AsyncFnMut(&Lease, &Transaction) -> Result<R, Error>,
) -> Result<R, Error> {
    let leases = Leases::new(origin);
    loop {
        let result = match Lease::at(Arc::clone(origin), database, &keys) {
            Ok(lease) => watch_with_async(&lease, &keys, &mut attempt).await,
            Err(error) => Err(error),
        };
        if !leases.may_go_on(&result) {
            return result;
        }
        let until = now() + CHANGING_PAUSE;
        watch_for(Some(until), |_, is_late| is_late.then_some(Ok(()))).await?;
    }
}

async fn watch_with_async<R>(
    lease: &Lease,
    keys: impl ToArgs,
    attempt: &mut impl AsyncFnMut(&Lease, &Transaction) -> Result<R, Error>,
) -> Result<R, Error> {
    for _ in 0..ATTEMPTS_MAX {
        lease.watch(&keys).await?;
        let transaction = lease.transaction();
        let result = attempt(lease, &transaction).await?;
        if transaction.exec().await? {
            return Ok(result);
        }
    }
    Err(always_changed())
}

fn always_changed() -> Error {
    Error::unsent(ErrorKind::Aborted, format!("a watched key was changed by others in each of {ATTEMPTS_MAX} attempts"))
}
