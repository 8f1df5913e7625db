//! Replication: one data set that a primary changes and that any number of replicas follow.
//!
//! There is one stream. Replicas are sent the journal, byte by byte, and its offset is the replication offset. A replica
//! keeps its primary's bytes at its primary's offsets. So a server that knows the stream's id and its own offset can continue
//! with another server that has the same stream.
//!
//! | file | contents |
//! | --- | --- |
//! | `catching_up` | Waiting until replicas have the complete stream. |
//! | `failover` | Handing the role over to a replica. |
//! | `role_change` | The consequences of becoming a replica, and of becoming a primary. |
//! | `ids` | The stream's id, and its previous id. |
//! | `own_deadlines` | Keys to which clients of a replica have given a deadline. |
//! | `replica` | A replica that this server feeds, and its offset. |
//! | `replicas` | The list of these replicas. |
//! | `resume` | Continuing the stream after a restart, at the position of the loaded data. |
//! | `role` | Whether this server is a primary or a replica, its primary, and the state of its link. |
//! | `spill` | The bytes that a slow replica has still to be sent, in files. |
//! | `sync_rate` | The bandwidth of a full sync. |
//! | `transfer` | A snapshot on its way to replicas. |
//! | `wait` | Clients that wait for replicas. |
//! | `primary` | A server's work for its replicas. |

pub mod catching_up;
pub mod failover;
mod ids;
mod own_deadlines;
pub mod primary;
mod replica;
mod replicas;
pub mod resume;
pub mod role;
pub mod role_change;
mod spill;
mod sync_rate;
mod transfer;
mod wait;

pub use failover::Failover;
pub use ids::{Id, Ids, OFFSET_MAX, Place};
pub use own_deadlines::OwnDeadlines;
pub use primary::Beginning;
pub use replica::{FeedLimits, Next, Replica, ReplicaState, Told};
pub use replicas::{AckedByCount, Replicas};
pub use resume::PlaceRead;
pub use role::Role;
pub use transfer::{RdbFilter, ReplicaForm, Transfer};
pub use wait::WaitCondition;

/// The replication state of one engine. Any thread.
#[derive(Debug)]
pub struct Replication {
    /// The ids of the stream.
    pub ids: Ids,
    /// The replicas that follow this server.
    pub replicas: Replicas,
    /// The role of this server, and the primary that it follows.
    pub role: Role,
    /// The state of a failover, which hands the role over.
    pub failover: Failover,
    /// The keys that its own clients have written while it is a replica, with their deadlines.
    pub own_deadlines: OwnDeadlines,
}

impl Replication {
    /// Returns the state of a primary without replicas, with a stream of this id.
    pub fn new(id: Id) -> Self {
        Self {
            ids: Ids::new(id),
            replicas: Replicas::default(),
            role: Role::default(),
            failover: Failover::default(),
            own_deadlines: OwnDeadlines::default(),
        }
    }
}
