//! A dump that is loaded as it arrives, without a file.
//!
//! The thread of the link writes the received bytes into one end of a pair of sockets, and another thread loads from the
//! other end. Only the system's buffer between them holds bytes. The loaded data counts only after the link has declared the
//! dump complete.

use std::io::{self, ErrorKind, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::connection::{Connection, End, SIGN_OF_LIFE_EVERY};
use crate::engine::Engine;
use crate::engine::replication::Id;
use crate::engine::replication::role::Task;
use crate::host::log;
use crate::host::threads;
use crate::loading::replacing::{self, Arrival};
use crate::peers::follower::link::LinkError;

/// The longest wait for the loading thread before other conditions are checked.
const WAIT: Duration = Duration::from_millis(100);

/// A dump that is being loaded.
pub(super) struct Loader {
    socket: UnixStream,
    is_whole: Arc<AtomicBool>,
    /// The channel that is closed when the loading thread ends.
    is_over: Receiver<()>,
    thread: Option<JoinHandle<Result<u32, String>>>,
}

/// The parameters of a load.
pub(super) struct Order {
    /// The id of the stream.
    pub id: Id,
    /// The offset in the stream up to which the dump contains the changes.
    pub offset: u64,
    /// The bytes of the dump; 0 if that is unknown.
    pub bytes: u64,
    /// The task that loads the dump.
    pub task: Task,
    /// The present data can be read during the load.
    pub is_beside: bool,
}

impl Loader {
    /// Starts the loading thread.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub(super) fn start(engine: &Arc<Engine>, order: Order) -> io::Result<Self> {
        let (socket, source) = UnixStream::pair()?;
        socket.set_write_timeout(Some(WAIT))?;
        let (over, is_over) = channel::<()>();
        let (engine, is_whole) = (Arc::clone(engine), Arc::new(AtomicBool::new(false)));
        let told = Arc::clone(&is_whole);
        let thread = threads::start("load", move || {
            let _over = over;
            let loaded = load(&engine, source, &order, &told);
            loaded.inspect_err(|why| log::warning(&format!("Internal error in RDB of MASTER: {why}")))
        })?;
        Ok(Self { socket, is_whole, is_over, thread: Some(thread) })
    }

    /// Passes a part of the dump to the loading thread. Waits until that thread has room for it.
    ///
    /// # Errors
    /// The dump is not valid, the connection is broken, or the task has been replaced.
    pub(super) fn put(&mut self, part: &[u8], connection: &mut Connection<'_>) -> Result<(), End> {
        let mut rest = part;
        while !rest.is_empty() {
            match self.socket.write(rest) {
                Ok(count) if count != 0 => rest = rest.get(count..).unwrap_or_default(),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
                {
                    connection.stay()?;
                }
                // The loading thread has ended; its result has the reason.
                Ok(_) | Err(_) => {
                    return Err(self.join().err().unwrap_or_else(|| unusable("it goes on behind its end")));
                }
            }
        }
        Ok(())
    }

    /// Declares the dump complete, and waits until it is loaded. Returns the selected database of the stream that follows.
    ///
    /// # Errors
    /// The dump is not valid, or the connection is broken. If the connection is broken, the dump may have been loaded.
    pub(super) fn finish(mut self, connection: &mut Connection<'_>) -> Result<u32, End> {
        self.is_whole.store(true, Ordering::Release);
        self.close();
        let mut sent = Ok(());
        while self.is_over.recv_timeout(SIGN_OF_LIFE_EVERY) == Err(RecvTimeoutError::Timeout) {
            sent = sent.and_then(|()| connection.send_sign_of_life());
        }
        self.join()
    }

    fn join(&mut self) -> Result<u32, End> {
        let Some(thread) = self.thread.take() else { return Err(unusable("it was given up")) };
        thread.join().unwrap_or_else(|panic| resume_unwind(panic)).map_err(|why| unusable(&why))
    }

    /// Closes the sending end: no more bytes follow.
    fn close(&self) {
        // An error means that the other end is already closed, which is not a fault.
        _ = self.socket.shutdown(Shutdown::Write);
    }
}

impl Drop for Loader {
    /// Ends an incomplete dump: the loading thread restores the earlier data.
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported already, and ends the process or the engine.
            _ = thread.join();
        }
    }
}

fn unusable(why: &str) -> End {
    LinkError::foreign(format!("its dump cannot be loaded: {why}")).into()
}

/// Loads a dump from its end of the pair of sockets: the body of the loading thread.
fn load(engine: &Arc<Engine>, source: UnixStream, order: &Order, is_whole: &AtomicBool) -> Result<u32, String> {
    let mut rest = source.try_clone().map_err(|error| error.to_string())?;
    let &Order { id, offset, bytes, ref task, is_beside } = order;
    let arrival = Arrival { id, offset, bytes, task };
    let is_whole = || {
        // Read up to the end of the input: the link's thread sets `is_whole` before it closes its end.
        io::copy(&mut rest, &mut io::sink()).map_err(|error| error.to_string())?;
        if is_whole.load(Ordering::Acquire) { Ok(()) } else { Err("it does not come whole".to_owned()) }
    };
    match is_beside {
        true => replacing::load_beside(engine, source, arrival, is_whole),
        false => replacing::load_from_primary(engine, source, arrival, is_whole),
    }
}
