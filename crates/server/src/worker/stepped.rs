//! A worker that a simulation steps, in place of a thread that serves it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{BUFFER_LEN, Worker, WorkerPool};
use crate::engine::Engine;
use crate::execute::scratch::Scratch;
use crate::host::clock::Instant;
use crate::messaging::mail::{Accepted, Letter, Mailbox};
use crate::net::{Driver, DriverKind};

/// The worker, until it has ended, and the scratch and buffer of its thread.
pub struct Stepped {
    worker: Option<Box<Worker>>,
    mailbox: Arc<Mailbox>,
    scratch: Scratch,
    buffer: Box<[u8]>,
}

impl Stepped {
    /// Makes the only worker of an engine.
    pub fn new(engine: &Arc<Engine>) -> Self {
        let driver = Driver::new(DriverKind::Epoll).expect("a driver");
        let waker = driver.waker();
        let mailbox = Arc::new(Mailbox::new(move || waker.wake()));
        let pool = WorkerPool::of(vec![Arc::clone(&mailbox)]);
        let worker = Worker::new(engine, pool, 0, driver);
        let scratch = Scratch::new(engine, Instant::now());
        Self { worker: Some(Box::new(worker)), mailbox, scratch, buffer: vec![0; BUFFER_LEN].into_boxed_slice() }
    }

    /// Takes over a connection from this address.
    pub fn accept(&mut self, socket: OwnedFd, address: String) {
        if let Some(worker) = &mut self.worker {
            let accepted = Accepted { socket, address, local_address: String::new(), is_tls: false };
            worker.place(accepted, &self.scratch);
        }
    }

    /// Tells the worker to end with its next step.
    pub fn stop(&self) {
        self.mailbox.post(Letter::Stop);
    }

    /// Serves the available events; returns whether the worker has not ended.
    pub fn step(&mut self) -> bool {
        let Some(mut worker) = self.worker.take() else { return false };
        if worker.stopping {
            worker.end();
            return false;
        }
        self.worker = worker.round_within(0, &mut self.scratch, &mut self.buffer).expect("it can wait");
        self.worker.is_some()
    }
}
