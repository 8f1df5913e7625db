//! MODULE: there are no modules, and none can be loaded.
//!
//! A gate decides which clients may use MODULE LOAD (`enable-module-command`), as in Redis.

use crate::context::Cx;
use crate::request::error::{Error, Outcome};

/// MODULE LIST
pub fn list(cx: &mut Cx<'_>) -> Outcome {
    cx.reply().array(0);
    Ok(())
}

/// MODULE LOAD path \[arg ...\] and MODULE LOADEX path \[CONFIG name value ...\] \[ARGS arg ...\]
pub fn load() -> Outcome {
    Err(Error::fixed("ERR Error loading the extension. Modules are not supported."))
}

/// MODULE UNLOAD name
pub fn unload() -> Outcome {
    Err(Error::fixed("ERR Error unloading module: no such module with that name"))
}
