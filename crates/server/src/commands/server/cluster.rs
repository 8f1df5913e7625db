//! CLUSTER, and what clients of a cluster say about their connection. There is no cluster, and every answer is that of a
//! server of Redis on which it is switched off.

use crate::request::error::{Error, Outcome};

/// All subcommands of CLUSTER, HELP among them; ASKING, READONLY and READWRITE
pub fn disabled() -> Outcome {
    Err(Error::fixed("ERR This instance has cluster support disabled"))
}
