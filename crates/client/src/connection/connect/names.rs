//! The look-up of host names, with all sources that the system has for them.
//!
//! The system's look-up blocks, for an unbounded time, so it happens on other threads (`questions`). Any thread may ask.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use super::questions::{Answer, Questions};
use crate::reactor::TaskWaker;
use crate::sys::PerProcess;

/// The largest number of names that are looked up at the same time. A look-up at name servers that do not answer takes half a
/// minute, and is repeated again and again. So this many have to be dead before a name with a working server waits for them.
const THREADS_MAX: usize = 64;

static QUESTIONS: PerProcess<Questions<String, Vec<SocketAddr>>> =
    PerProcess::new(|| Questions::new("sleeve-names", THREADS_MAX, |host| find(host)));

/// Begins to look a name up. The answer is its addresses, without a port.
pub(crate) fn look_up(host: &str, task_waker: TaskWaker) -> io::Result<Answer<Vec<SocketAddr>>> {
    // The look-up has no timeout here, because the system's own ends it.
    QUESTIONS.get().ask(&host.to_owned(), task_waker, Duration::MAX)
}

fn find(host: &str) -> io::Result<Vec<SocketAddr>> {
    let addresses = (host, 0).to_socket_addrs();
    addresses
        .map(Iterator::collect)
        .map_err(|error| io::Error::new(error.kind(), format!("{host} is not found: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "needs the system's names")]
    fn an_invalid_host_name_is_not_found() {
        let error = find("no name").expect_err("it has a space");
        assert!(error.to_string().contains("no name is not found"), "{error}");
    }
}
