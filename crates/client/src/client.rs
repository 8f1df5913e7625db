//! Handles where calls begin: a client, and one of its databases.
//!
//! Both are a counted pointer and a number, so they are cheap to clone and meant to be cloned; both may be used from any
//! thread and in any async runtime at the same time. Everything that is sent through clones of one client travels on one
//! connection, in each caller's order. When the last handle is dropped, what was sent is still answered, and then the
//! connection is closed.

use std::sync::Arc;
use std::time::Duration;

use crate::ask::Ask;
use crate::cmd::Cmd;
use crate::config::{Config, ErrorHook};
use crate::decode::FromReply;
use crate::error::{Error, ErrorKind};
use crate::io;
use crate::link::Link;
use crate::reply::Reply;
use crate::request::Request;

/// What the handles of one client share.
pub(crate) struct Shared {
    pub(crate) link: Arc<Link>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Without a wait it cannot fail.
        let _ = self.link.close(None);
    }
}

impl Shared {
    pub(crate) fn config(&self) -> &Config {
        &self.link.config
    }

    pub(crate) fn error_hook(&self) -> Option<&ErrorHook> {
        self.config().error_hook.as_ref()
    }

    #[inline]
    fn ask<T: FromReply>(&self, database: u32, write: impl FnOnce(&mut Request)) -> Reply<T> {
        match Request::with(write, |bytes| self.link.send(database, bytes)) {
            Ok(Ok(handle)) => Reply::of(handle),
            Ok(Err(error)) | Err(error) => Reply::failed(error, self.error_hook()),
        }
    }
}

/// A server, or an engine in this process, as something to send commands to.
///
/// ```no_run
/// use sleeve::{Client, prelude::*};
///
/// let client = Client::connect("redis://localhost")?;
/// client.set("greeting", "hello").forget();
/// let greeting: String = client.get("greeting").wait()?;
/// assert_eq!(greeting, "hello");
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    pub(crate) database: u32,
}

impl Client {
    /// Connects to the server that the URL names, and waits until that is done; see [`Config::from_url`] for URLs.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] for a bad URL, [`ErrorKind::Connect`] when the server cannot be reached or refuses.
    pub fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(Config::from_url(url)?)
    }

    /// Connects as configured, and waits until that is done.
    ///
    /// # Errors
    /// [`ErrorKind::Connect`] when the server cannot be reached or refuses.
    pub fn connect_with(config: Config) -> Result<Self, Error> {
        let client = Self::open_with(config)?;
        client.shared.link.wait_first()?;
        Ok(client)
    }

    /// A client whose connection is being made: it returns at once, and what is sent meanwhile goes out when it is there.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] for a bad URL, [`ErrorKind::Connect`] when the system gives no thread.
    pub fn open(url: &str) -> Result<Self, Error> {
        Self::open_with(Config::from_url(url)?)
    }

    /// As [`open`](Client::open), with a configuration.
    ///
    /// # Errors
    /// [`ErrorKind::Connect`] when the system gives no thread.
    pub fn open_with(config: Config) -> Result<Self, Error> {
        let failed = |error| Error::unsent(ErrorKind::Connect, format!("cannot start a connection: {error}"));
        let database = config.database;
        let link = Link::new(config).map_err(failed)?;
        io::start(link.clone()).map_err(failed)?;
        Ok(Self { shared: Arc::new(Shared { link }), database })
    }

    /// Another database of the same server, on the same connection.
    ///
    /// ```no_run
    /// # use sleeve::{Client, prelude::*};
    /// # let client = Client::connect("redis://localhost")?;
    /// let sessions = client.db(1);
    /// sessions.incr("count").forget(); // SELECT goes ahead of it only if the connection is elsewhere
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    pub fn db(&self, database: u32) -> Db {
        Db { shared: self.shared.clone(), database }
    }

    /// A command by its name, for those that have no method of their own; see [`Cmd`].
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        Cmd::new(self, name)
    }

    /// How it was configured.
    pub fn config(&self) -> &Config {
        self.shared.config()
    }

    /// Refuses further commands, waits until those that were sent are answered, and closes the connection.
    ///
    /// Dropping the last handle does the same without the wait.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] when some are not answered in time; they may be answered still.
    pub fn close(&self, timeout: Duration) -> Result<(), Error> {
        self.shared.link.close(Some(timeout))
    }
}

impl Ask for Client {
    #[inline]
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.shared.ask(self.database, write)
    }
}

/// One database of a [`Client`], as something to send commands to.
#[derive(Clone)]
pub struct Db {
    pub(crate) shared: Arc<Shared>,
    pub(crate) database: u32,
}

impl Db {
    /// Its number.
    pub fn number(&self) -> u32 {
        self.database
    }

    /// A command by its name, for those that have no method of their own; see [`Cmd`].
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        Cmd::new(self, name)
    }
}

impl Ask for Db {
    #[inline]
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.shared.ask(self.database, write)
    }
}
