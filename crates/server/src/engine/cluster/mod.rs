//! This server as a node of a cluster: the state machine of the node, and the facts by which the workers decide.
//!
//! The thread of the bus and the commands of CLUSTER change the state, under its lock, and then show its new view
//! ([`view_change::show`]) with all shards locked. A worker takes no lock for a request. It reads the mark of the slot
//! (`slot_marks`) before it takes the lock of the shard, and once more behind it. Only if the mark does not say that the slot
//! is served here, it looks at the view (`judgement`). Because marks change only while all shards are locked, no slot leaves
//! while a request for it runs.
//!
//! | file | contents |
//! | --- | --- |
//! | `held_replies` | Replies to commands of CLUSTER that wait for the thread of the bus. |
//! | `host` | The facts that the state machine asks the server for. |
//! | `judgement` | Whether this node serves a request. |
//! | `link_gauges` | The queues of the links of the bus. |
//! | `options` | The options of the state machine. |
//! | `outbox` | The messages of clients that other nodes have to be sent. |
//! | `slot_costs` | The time and the bytes of the requests for each slot. |
//! | `slot_marks` | The service of each slot, as a byte. |
//! | `view_change` | A new view is shown, and clients are told of slots that have left. |

pub mod held_replies;
pub mod host;
pub(crate) mod judgement;
pub mod link_gauges;
pub mod options;
pub mod outbox;
pub mod slot_costs;
pub(crate) mod slot_marks;
pub mod view_change;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use sleeve_cluster::packet::Message;
use sleeve_cluster::state::{ClusterState, NOBODY, View};
use sleeve_cluster::{SLOTS, Slot};

use crate::config::{Config, Opt};
use held_replies::HeldReplies;
use judgement::WhenDown;
pub use judgement::{is_of_shard, keeps_channels};
use link_gauges::LinkGauges;
use outbox::Outbox;
use slot_costs::SlotCosts;
use slot_marks::SlotMarks;

/// A function that wakes the thread of the bus.
type Waker = Box<dyn Fn() + Send + Sync>;

/// This server as a node of a cluster.
pub struct Cluster {
    /// The state machine.
    pub state: Mutex<ClusterState>,
    /// The service of each slot.
    pub marks: SlotMarks,
    /// The costs of the requests for each slot.
    pub costs: SlotCosts,
    /// The messages of clients for other nodes.
    pub outbox: Outbox,
    /// The replies that wait for the thread of the bus.
    pub held_replies: HeldReplies,
    /// The queues of the links of the bus.
    pub gauges: LinkGauges,
    view: RwLock<Arc<View>>,
    waker: OnceLock<Waker>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Makes a node of this state. It serves no slot until its view is shown.
    pub fn new(state: ClusterState) -> Self {
        let nothing = View {
            version: 0,
            owners: vec![NOBODY; usize::from(SLOTS)].into(),
            nodes: Vec::new(),
            own_primary: NOBODY,
            is_replica: false,
            is_ok: false,
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
        };
        Self {
            state: Mutex::new(state),
            marks: SlotMarks::default(),
            costs: SlotCosts::default(),
            outbox: Outbox::default(),
            held_replies: HeldReplies::default(),
            gauges: LinkGauges::default(),
            view: RwLock::new(Arc::new(nothing)),
            waker: OnceLock::new(),
        }
    }

    /// Returns the present view.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read())
    }

    /// Returns the number of connections that the bus has: one in each direction for each other node, as Redis counts them.
    pub fn link_count(&self) -> usize {
        2 * self.state.lock().nodes().count().saturating_sub(1)
    }

    /// Replaces the view and the marks. Returns the new view, or None if it is the present one. All shards are locked, or no
    /// client is served yet; [`view_change::show`] also ends what the change ends.
    fn replace_view(&self, view: View) -> Option<Arc<View>> {
        let mut shown = self.view.write();
        // Two threads may show in another order than they looked at the state. Only the view before the first has no nodes.
        if shown.version >= view.version && !shown.nodes.is_empty() {
            return None;
        }
        *shown = Arc::new(view);
        self.marks.follow(&shown);
        self.costs.retain(|slot| is_of_shard(&shown, slot));
        Some(Arc::clone(&shown))
    }

    /// Gives the bus a message of a client for other nodes.
    pub fn send(&self, message: Message) {
        if self.outbox.put(message) {
            self.wake();
        }
    }

    /// Sets the function that wakes the thread of the bus, which must not block. The first one stays.
    pub fn set_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        _ = self.waker.set(Box::new(wake));
    }

    /// Returns whether the thread of the bus carries out the actions of the state.
    pub fn has_bus(&self) -> bool {
        self.waker.get().is_some()
    }

    /// Wakes the thread of the bus: the state has actions for it, or the outbox has messages.
    pub fn wake(&self) {
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }
}

/// Returns the services that the options allow while the cluster is down.
pub fn when_down(config: &Config) -> WhenDown {
    WhenDown {
        reads: config.flag(Opt::ClusterAllowReadsWhenDown),
        messages: config.flag(Opt::ClusterAllowPubsubshardWhenDown),
    }
}

/// Returns the slot of a key.
#[inline]
pub fn slot_of(key: &[u8]) -> Slot {
    sleeve_wire::slot::of_key(key)
}
