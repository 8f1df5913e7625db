//! What all handles of one client share: the way to its server, and connections for those who need one for themselves.
//!
//! When the last handle is dropped, what was sent is still answered, and then the connections are closed. Any thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Route;
use super::pool::{Pool, Turn};
use crate::error::Error;
use crate::pipe::queued::Sent;
use crate::reply::Reply;
use crate::request::blocking_commands;
use crate::request::blocking_commands::Patience;
use crate::request::{Request, Written};
use crate::values::decode::FromReply;

/// What the handles of one client share.
pub(crate) struct Origin {
    pub(crate) route: Route,
    /// Connections for the next leases and commands that wait.
    pub(crate) pool: Arc<Pool>,
}

impl Drop for Origin {
    fn drop(&mut self) {
        // Without a wait it cannot fail.
        let _ = self.route.close(None);
    }
}

impl Origin {
    pub(crate) fn new(route: Route) -> Arc<Self> {
        Arc::new(Self { route, pool: Arc::default() })
    }

    /// Refuses further commands, and waits for the answers to those that were sent: on the shared connection, and on those
    /// that commands which wait have for themselves.
    pub(crate) fn close(&self, timeout: Duration) -> Result<(), Error> {
        let deadline = Instant::now().checked_add(timeout);
        self.route.close(Some(timeout))?;
        self.pool.close(deadline)
    }

    /// As `close`, in async code.
    pub(crate) async fn close_async(&self, timeout: Duration) -> Result<(), Error> {
        // A time beyond what the machine can count is never over.
        let deadline = Instant::now().checked_add(timeout);
        self.route.clone().close_async(deadline).await?;
        for route in self.pool.waiting() {
            route.close_async(deadline).await?;
        }
        Ok(())
    }

    /// Sends a command that may wait on the server. Its time may be up at a deadline.
    pub(crate) fn ask_waiting<T: FromReply>(
        &self,
        database: u32,
        deadline: Option<Instant>,
        write: impl FnOnce(&mut Request),
    ) -> Reply<T> {
        let mut request = Request::empty();
        write(&mut request);
        let Some(patience) = blocking_commands::of(&request) else {
            let write = |out: &mut Request| *out = request;
            return match deadline {
                None => self.route.ask(database, write),
                Some(deadline) => self.route.ask_until(database, deadline, write),
            };
        };
        self.ask_apart(database, patience, deadline, request)
            .unwrap_or_else(|error| Reply::failed(error, self.route.error_hook()))
    }

    /// Sends a command on a connection that it has for itself until it is answered.
    fn ask_apart<T: FromReply>(
        &self,
        database: u32,
        patience: Patience,
        deadline: Option<Instant>,
        request: Request,
    ) -> Result<Reply<T>, Error> {
        self.route.check_process()?;
        if !self.route.is_open() {
            return Err(Error::closed("the client was closed"));
        }
        let turn = Turn::take(&self.pool, &self.route)?;
        turn.route.be_patient(patience);
        let send = |request: Written<'_>| match deadline {
            None => turn.route.send(database, request),
            Some(deadline) => turn.route.send_until(database, request, deadline),
        };
        match Request::with(|out| *out = request, send)?? {
            Sent::Slot(handle) => Ok(Reply::apart(handle, Box::new(turn))),
            sent => Ok(Reply::sent(sent, self.route.error_hook())),
        }
    }
}
