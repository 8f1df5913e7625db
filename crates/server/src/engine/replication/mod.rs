//! More than one machine: one data set that a primary changes and any number of replicas follow.
//!
//! There is one stream. What replicas are sent is the journal, byte by byte, and its offset is the replication offset. A replica
//! keeps its primary's bytes at its primary's offsets, so that whoever knows the stream's id and how far it has come can go on
//! with another server that has the same.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `catching_up` | Waiting until replicas have everything. |
//! | `failover` | Handing the role over to a replica. |
//! | `following` | What follows from being a replica, and from becoming a primary. |
//! | `ids` | What the stream is called, and what it was called before. |
//! | `link` | A replica's end of the wire, up to where the stream begins: bytes in, bytes out. |
//! | `own_deadlines` | Keys to which clients of a replica have given a deadline. |
//! | `replica` | One replica that this server feeds, and how far it has come. |
//! | `replicas` | All of them. |
//! | `resuming` | Going on after a restart where the data that was loaded stands. |
//! | `role` | Whether this server is a primary or a replica, of whom, and how its link is. |
//! | `spill` | What a slow replica has still to be sent, in files. |
//! | `transfer` | A snapshot on its way to them. |
//! | `waiting` | Clients that wait for them. |
//! | `primary` | What a server does for its replicas. |

pub mod catching_up;
pub mod failover;
mod following;
mod ids;
pub mod link;
mod own_deadlines;
mod primary;
mod replica;
mod replicas;
mod resuming;
pub mod role;
mod spill;
mod transfer;
mod waiting;

pub use failover::Failover;
pub use ids::{Id, Ids, Place};
pub use own_deadlines::OwnDeadlines;
pub use primary::Beginning;
pub use replica::{Next, Replica, ReplicaState, Told};
pub use replicas::{AckedByCount, Replicas};
pub use resuming::PlaceRead;
pub use role::Role;
pub use transfer::{Filter, ReplicaForm, Transfer};
pub use waiting::Wanted;

/// What one engine knows of replication. Any thread.
#[derive(Debug)]
pub struct Replication {
    /// What its stream is called.
    pub ids: Ids,
    /// Who follows it.
    pub replicas: Replicas,
    /// Whom it follows.
    pub role: Role,
    /// Handing that over.
    pub failover: Failover,
    /// What its own clients have written meanwhile, and for how long.
    pub own_deadlines: OwnDeadlines,
}

impl Replication {
    /// A primary without replicas, whose stream has this id.
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
