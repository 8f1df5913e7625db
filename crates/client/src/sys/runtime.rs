//! The async runtime that runs the calling task, as a source of events: it reports that a socket has bytes to read.
//!
//! With the feature `tokio` that is tokio, if I/O is enabled in the runtime. In the tests a simulation may be on, which has
//! runtimes of its own. Any other runtime is unknown here, and reads nothing.

#[cfg(all(test, target_os = "linux", not(sleeve_portable)))]
pub(crate) mod simulated;

#[cfg(feature = "tokio")]
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
#[cfg(feature = "tokio")]
use std::pin::pin;
use std::task::{Context, Poll};

/// A runtime, as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuntimeId {
    #[cfg(feature = "tokio")]
    Tokio(tokio::runtime::Id),
    #[cfg(test)]
    Simulated(u64),
}

/// Returns the runtime that runs the calling task, if it can report the events of a socket.
#[inline]
pub(crate) fn current() -> Option<RuntimeId> {
    #[cfg(all(test, target_os = "linux", not(sleeve_portable)))]
    if let Some(number) = simulated::current() {
        return Some(RuntimeId::Simulated(number));
    }
    #[cfg(feature = "tokio")]
    return tokio::runtime::Handle::try_current().ok().map(|runtime| RuntimeId::Tokio(runtime.id()));
    #[cfg(not(feature = "tokio"))]
    None
}

/// A socket that a runtime watches, until this value is dropped.
pub(crate) enum Watched {
    /// A second descriptor of the socket. Tokio has no other type that watches a descriptor without `unsafe`; the socket
    /// may as well be a Unix one, because this value is never read or written itself.
    #[cfg(feature = "tokio")]
    Tokio(tokio::net::TcpStream),
    #[cfg(all(test, target_os = "linux", not(sleeve_portable)))]
    Simulated(simulated::Watched),
}

impl Watched {
    /// Lets the runtime of the calling task watch a socket. Bytes that are there already are reported too.
    ///
    /// # Errors
    /// When the process has no descriptor left, or no runtime runs the caller.
    pub(crate) fn new(socket: &impl AsFd) -> io::Result<Self> {
        #[cfg(all(test, target_os = "linux", not(sleeve_portable)))]
        if simulated::current().is_some() {
            return simulated::Watched::new(socket).map(Self::Simulated);
        }
        #[cfg(feature = "tokio")]
        return in_tokio::watch(socket.as_fd().try_clone_to_owned()?).map(Self::Tokio);
        #[cfg(not(feature = "tokio"))]
        {
            let _ = socket;
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Returns whether bytes were reported that were not read since then. If not, the waker is woken by the next report. An
    /// error means that the runtime has ended.
    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            #[cfg(feature = "tokio")]
            Self::Tokio(stream) => {
                // Without this a task that has used up its share of the runtime would get no report of these bytes.
                let readable = tokio::task::unconstrained(poll_fn(|context| stream.poll_read_ready(context)));
                pin!(readable).poll(context)
            }
            #[cfg(all(test, target_os = "linux", not(sleeve_portable)))]
            Self::Simulated(watched) => watched.poll_readable(context),
            #[cfg(not(feature = "tokio"))]
            #[allow(unreachable_patterns, reason = "without a runtime there is no value")]
            _ => {
                let _ = context;
                Poll::Pending
            }
        }
    }

    /// Reads. If `read` returns true, it has read all bytes that were there, so that only later ones are reported again.
    pub(crate) fn read(&self, read: impl FnOnce() -> bool) {
        match self {
            #[cfg(feature = "tokio")]
            Self::Tokio(stream) => {
                let blocks_now = || if read() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) };
                // The result only tells tokio whether bytes are left.
                let _: io::Result<()> = stream.try_io(tokio::io::Interest::READABLE, blocks_now);
            }
            #[cfg(all(test, target_os = "linux", not(sleeve_portable)))]
            Self::Simulated(watched) => watched.read(read),
            #[cfg(not(feature = "tokio"))]
            #[allow(unreachable_patterns, reason = "without a runtime there is no value")]
            _ => _ = read,
        }
    }
}

#[cfg(feature = "tokio")]
mod in_tokio {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use tokio::net::TcpStream;
    use tokio::runtime::{Handle, Id};

    use crate::sys::lock::Mutex;

    /// The runtimes in which I/O is not enabled.
    static WITHOUT_IO: Mutex<Vec<Id>> = Mutex::new(Vec::new());

    /// Watches a socket. Tokio panics if I/O is not enabled in the runtime, and offers no other way to find that out: so the
    /// panic is caught, once for each runtime.
    pub(super) fn watch(second: OwnedFd) -> io::Result<TcpStream> {
        let runtime = Handle::try_current().map_err(io::Error::other)?.id();
        let refused = || io::Error::other("I/O is not enabled in the runtime of the task");
        if WITHOUT_IO.lock().contains(&runtime) {
            return Err(refused());
        }
        catch_unwind(AssertUnwindSafe(|| TcpStream::from_std(second.into()))).unwrap_or_else(|panic| {
            // The payload may panic again when it is dropped.
            std::mem::forget(panic);
            WITHOUT_IO.lock().push(runtime);
            Err(refused())
        })
    }
}
