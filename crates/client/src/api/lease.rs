//! A connection of one's own for a while, for what cannot be shared: WATCH in a program's own hands, and WAIT.
//!
//! Leases come from the small pool that each client keeps (`route/pool`); a lease that is dropped goes back to it,
//! clean, or is closed if something is still on its way. Its connection is never made again behind the caller's back:
//! what was watched would be forgotten. A lease may be used from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sleeve_wire::commands::Row;

use super::cmd::Cmd;
use super::transaction::Transaction;
use crate::commands::ask::Ask;
use crate::error::{Error, ErrorKind};
use crate::reply::Reply;
use crate::request::refusal;
use crate::request::{Request, ToArgs};
use crate::route::Route;
use crate::route::origin::Origin;
use crate::values::decode::FromReply;

/// A connection that nobody else uses until it is dropped.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, prelude::*};
///
/// let client = Client::embedded();
/// client.set("stock", 3).wait()?;
/// let lease = client.lease()?;
/// lease.watch("stock").wait()?;
/// let stock: i64 = lease.get("stock").wait()?;
/// let transaction = lease.transaction();
/// transaction.set("stock", stock - 1).forget();
/// assert!(transaction.exec().wait()?); // false, had somebody changed it meanwhile
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
///
/// Commands that wait on the server need none: elsewhere they get a connection of their own by themselves. Here they hold up
/// the lease's next commands, and the client's command timeout bounds them too.
pub struct Lease {
    origin: Arc<Origin>,
    route: Route,
    database: u32,
    watched: AtomicBool,
    /// Whether it was used for a command that waits.
    waited: AtomicBool,
}

impl Lease {
    pub(crate) fn new(origin: Arc<Origin>, database: u32) -> Result<Self, Error> {
        origin.route.check_process()?;
        let route = origin.pool.take(&origin.route, false)?;
        Ok(Self { origin, route, database, watched: AtomicBool::new(false), waited: AtomicBool::new(false) })
    }

    /// Watches keys: a transaction on this lease is then executed only if none of them has changed.
    pub fn watch(&self, keys: impl ToArgs) -> Reply<()> {
        self.watched.store(true, Ordering::Relaxed);
        self.ask(move |request| crate::commands::write!(request, "WATCH", keys))
    }

    /// Watches nothing any more.
    pub fn unwatch(&self) -> Reply<()> {
        self.ask(|request| crate::commands::write!(request, "UNWATCH"))
    }

    /// A transaction on this connection.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self.route.clone(), self.database)
    }

    /// A command by its name, for those that have no method of their own.
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        self.watched.store(true, Ordering::Relaxed);
        Cmd::new(self, name)
    }
}

impl Ask for Lease {
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.route.ask(self.database, write)
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
        if self.route.is_idle() {
            if self.watched.load(Ordering::Relaxed) {
                self.unwatch().forget();
            }
            return self.origin.pool.give_back(self.route.clone());
        }
        if self.waited.load(Ordering::Relaxed) {
            // It may wait for ever, and would take what nobody hears of.
            return self.route.abort();
        }
        // Without a wait it cannot fail.
        let _ = self.route.close(None);
    }
}

/// How often a watched transaction is tried before its caller is told that others are always faster.
const ATTEMPTS_MAX: u32 = 1000;

/// Tries `attempt` until its transaction is executed with nothing that it watched having changed.
pub(crate) fn watch<R>(
    lease: &Lease,
    keys: impl ToArgs,
    mut attempt: impl FnMut(&Lease, &Transaction) -> Result<R, Error>,
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

/// As [`watch`], for async code.
pub(crate) async fn watch_async<R>(
    lease: &Lease,
    keys: impl ToArgs,
    mut attempt: impl AsyncFnMut(&Lease, &Transaction) -> Result<R, Error>,
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
