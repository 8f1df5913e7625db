//! Arguments with their number in front, as commands with `numkeys` take them.
//!
//! How many there are is known when they are written, because one value may stand for any number of arguments: so they are
//! written twice. Pure functions; any thread.

use crate::request::{Request, ToArgs};

/// Writes how many arguments there are, and then the arguments.
pub(crate) struct Counted<T>(pub T);

impl<T: ToArgs> ToArgs for Counted<T> {
    fn write_to(&self, request: &mut Request) {
        let mut alone = Request::empty();
        alone.arg(&self.0);
        request.arg(alone.len());
        request.arg(&self.0);
    }
}
