//! The driver for a caller that waits for an answer of the cluster when the answer belongs to no single connection: all
//! connections are written to, and arrived bytes on any of them are read.

use std::time::Instant;

use super::Cluster;
use crate::config::ErrorHook;
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::slot::{Driver, Flush, Handle};
use crate::request::name::Name;
use crate::sys::fork::inherited;

impl Driver for Cluster {
    fn flush(&self, may_yield: bool) -> Flush {
        if !self.process.is_this() {
            return Flush::Lost;
        }
        let flushed: Vec<Flush> = self.links().iter().map(|link| link.flush(may_yield)).collect();
        if flushed.contains(&Flush::Yield) { Flush::Yield } else { Flush::Done }
    }

    fn read(&self) {
        self.links().iter().for_each(|link| link.read());
    }

    fn attend(&self, _: &Handle, _: Option<Instant>) {
        self.read();
        _ = self.flush(false);
    }

    fn wait_for_room(&self, deadline: Option<Instant>, is_task: bool) {
        if self.process.is_this() {
            self.await_room(deadline, is_task);
        }
    }

    fn lost(&self) -> Option<Error> {
        (!self.process.is_this()).then(inherited)
    }

    fn given_up(&self, name: Name) -> Error {
        let message = format!("{name} was not answered by {} in time; its effect is unknown", self.config.endpoint);
        Error::new(ErrorKind::Timeout, Effect::Unknown, message)
    }

    fn error_hook(&self) -> Option<ErrorHook> {
        self.config.hooks.error.clone()
    }
}
