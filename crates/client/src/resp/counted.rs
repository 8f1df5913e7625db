//! Arguments with their number in front, as commands with `numkeys` take them.
//!
//! One value may stand for any number of arguments, so the number is known only after they are written. They are therefore
//! written twice. Pure functions; any thread.

use crate::resp::request::{Request, ToArgs};

/// A value that writes the number of its arguments, and then the arguments.
pub(crate) struct Counted<T>(pub T);

impl<T: ToArgs> ToArgs for Counted<T> {
    fn write_to(&self, request: &mut Request) {
        let mut alone = Request::empty();
        alone.arg(&self.0);
        request.arg(alone.len());
        request.arg(&self.0);
    }
}
