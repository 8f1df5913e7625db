//! What all handles of one client share: the way to its server, and connections kept for leases.
//!
//! When the last handle is dropped, what was sent is still answered, and then the connections are closed. Any thread.

use parking_lot::Mutex;

use crate::config::ErrorHook;
use crate::decode::FromReply;
use crate::reply::Reply;
use crate::request::Request;
use crate::route::Route;
use crate::slot::Sent;

/// What the handles of one client share.
pub(crate) struct Origin {
    pub(crate) route: Route,
    /// Connections for the next leases.
    pub(crate) leases: Mutex<Vec<Route>>,
}

impl Drop for Origin {
    fn drop(&mut self) {
        // Without a wait these cannot fail.
        let _ = self.route.close(None);
        for route in self.leases.get_mut().drain(..) {
            let _ = route.close(None);
        }
    }
}

impl Origin {
    pub(crate) fn error_hook(&self) -> Option<&ErrorHook> {
        self.route.config().error_hook.as_ref()
    }

    #[inline]
    pub(crate) fn ask<T: FromReply>(&self, database: u32, write: impl FnOnce(&mut Request)) -> Reply<T> {
        match Request::with(write, |bytes| self.route.send(database, bytes)) {
            Ok(Ok(Sent::Slot(handle))) => Reply::of(handle),
            Ok(Ok(Sent::Ready(payload))) => Reply::ready(payload, self.error_hook()),
            Ok(Err(error)) | Err(error) => Reply::failed(error, self.error_hook()),
        }
    }
}
