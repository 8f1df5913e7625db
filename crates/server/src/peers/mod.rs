//! The threads that speak with other servers of the same data: with the primary that this server follows, and with the nodes of
//! its cluster. Both stand above `execute`, because they apply requests and remove keys; their state is in `engine`.

pub(crate) mod cluster_bus;
pub mod follower;
