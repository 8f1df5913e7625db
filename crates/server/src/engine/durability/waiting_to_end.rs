//! A server that waits for its replicas before it ends, and who has told it to. Any thread.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::engine::clients::blocking::Waiter;

/// Whether one waits.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Who has told it to end, while it waits.
    clients: Mutex<Option<Vec<Arc<Waiter>>>>,
    changed: Condvar,
}

impl Waiting {
    /// It waits from now on.
    pub fn begin(&self, client: Option<Arc<Waiter>>) {
        *self.clients.lock() = Some(client.into_iter().collect());
    }

    /// Whoever tells it to end while it waits is told the same as the others; else gives the client back.
    pub fn join(&self, client: Option<Arc<Waiter>>) -> Option<Option<Arc<Waiter>>> {
        match &mut *self.clients.lock() {
            Some(clients) => {
                clients.extend(client);
                None
            }
            None => Some(client),
        }
    }

    /// Waits for so long, or until it is over; whether it is not.
    pub fn wait(&self, time: Duration) -> bool {
        let mut clients = self.clients.lock();
        self.changed.wait_while_for(&mut clients, |clients| clients.is_some(), time);
        clients.is_some()
    }

    /// It waits no longer: who has told it to end, if it did.
    pub fn end(&self) -> Option<Vec<Arc<Waiter>>> {
        let clients = self.clients.lock().take()?;
        self.changed.notify_all();
        Some(clients)
    }
}
