//! The state of a connection's readers besides its own task: threads (`caller`), tasks (`task_waits`), and the runtime of those
//! tasks (`runtime`). The reading itself is in `read`, the choice of the reader in `driver`.

pub(super) mod caller;
pub(super) mod runtime;
pub(super) mod task_waits;
