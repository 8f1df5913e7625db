//! The bus of a cluster: the thread that moves the bytes between this node and the others.
//!
//! The thread owns the sockets. It gives the state machine (`sleeve_cluster`) the time each 100 ms, each whole packet, and the
//! opening and closing of links; and carries out its actions in their order, so a vote leaves only after the nodes.conf that
//! records it is on the disk. It holds the lock of the state only while the state machine works, and no shard at the same
//! time. It never waits for a peer: sockets do not block, connections are begun and reported later, and a slow peer has a
//! bounded queue.
//!
//! # The files, from top to bottom
//!
//! | file | contents |
//! | --- | --- |
//! | `bus` | The sockets and their events. |
//! | `actions` | The actions on this server: role, data, pause, messages. |
//! | `departed_slots` | The removal of keys of slots that other nodes own. |
//! | `new_node` | A node before it speaks with others. |
//! | `nodes_file` | nodes.conf: locked, read and replaced. |
//! | `link` | A socket with the bytes on their way in and out, plain or under TLS. |
//! | `tls`, `dial`, `inbox`, `send_queue`, `poller` | Its parts. |

mod actions;
mod bus;
mod departed_slots;
mod dial;
mod inbox;
mod link;
mod new_node;
mod nodes_file;
mod poller;
mod send_queue;
#[cfg(test)]
mod tests;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::Engine;
use crate::host::waiting::{Ending, Pending};
use bus::Bus;
pub use new_node::{NewNode, join};
use poller::Waker;

/// The running thread of the bus. Dropping it ends the thread, and waits for that.
#[derive(Debug)]
pub struct BusThread {
    is_over: Arc<AtomicBool>,
    waker: Waker,
    ending: Ending,
}

/// Starts the thread, after the data was loaded. When it returns, the role and the slots of this node are those of its
/// nodes.conf.
///
/// # Errors
/// The errors of the kernel, the TLS files that cannot be used, and a nodes.conf that cannot be written.
pub fn start(engine: &Arc<Engine>, node: NewNode) -> Result<BusThread, String> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut bus = Bus::new(engine, node, Arc::clone(&is_over))?;
    let waker = bus.waker();
    let pending = Pending::default();
    let ending = pending.ending();
    bus.begin()?;
    let started = engine.detach_thread("cluster", move |_| {
        let _pending = pending;
        bus.run()
    });
    started.map_err(|error| format!("cannot start the thread of the cluster bus: {error}"))?;
    Ok(BusThread { is_over, waker, ending })
}

impl Drop for BusThread {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.waker.wake();
        self.ending.wait();
    }
}
