//! The workers that serve some listeners: as many as the option says, at the start and whenever the option is changed.
//!
//! Each worker has a driver of the same kind, a mailbox and a thread. If the kernel refuses a part of a new worker, the
//! present workers stay as they were. Surplus workers end by themselves (`worker/pool`).

use std::io;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::network::crews;
use crate::host::log;
use crate::messaging::mail::{Letter, Mailbox};
use crate::net::{Driver, DriverKind};
use crate::worker::{Doors, Worker, WorkerPool};

/// A pool of workers that grows and shrinks.
#[derive(Debug)]
pub struct Crew {
    engine: Arc<Engine>,
    /// The pool of its workers.
    pub pool: Arc<WorkerPool>,
    /// The kind of its workers' drivers, once there are workers. Locked while their number changes.
    kind: Mutex<Option<DriverKind>>,
}

impl Crew {
    /// Makes a crew without workers, for these listeners.
    pub fn new(engine: &Arc<Engine>, doors: Doors) -> Self {
        Self { engine: Arc::clone(engine), pool: WorkerPool::new(doors), kind: Mutex::default() }
    }

    /// Sets the number of workers; does nothing if the pool has ended or is about to. Other callers that change the number
    /// wait.
    ///
    /// # Errors
    /// The errors of the kernel: for a driver, for its watching of a listener, or for a thread.
    pub fn staff(&self, count: usize) -> io::Result<()> {
        let mut kind = self.kind.lock();
        let Some(missing) = self.pool.begin_resizing(count) else { return Ok(()) };
        let (old, is_first) = (self.pool.wanted(), kind.is_none());
        let mut waiting = missing.clone();
        let staffed = self.hire(&missing, &mut kind).and_then(|workers| {
            for worker in workers {
                worker.spawn()?;
                waiting.remove(0);
            }
            Ok(())
        });
        if staffed.is_err() {
            let are_all_gone = waiting.iter().any(|&number| self.pool.dismiss(number));
            if are_all_gone && !is_first {
                self.engine.outlive_workers();
            }
        }
        self.pool.end_resizing(if staffed.is_ok() { count } else { old });
        if staffed.is_ok() && self.pool.is_at_engines_doors() {
            let mailboxes = self.pool.mailboxes();
            self.engine.network.listeners.attach(&mailboxes);
            // A caller that changed the listeners before this has not notified the new workers.
            mailboxes.iter().for_each(|mailbox| mailbox.post(Letter::Listen));
        }
        staffed
    }

    /// Makes workers with these numbers, which accept at all listeners but have no threads yet. Their places in the pool are
    /// taken, even if not all of them can be made.
    fn hire(&self, numbers: &[usize], kind: &mut Option<DriverKind>) -> io::Result<Vec<Worker>> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let engine = &self.engine;
        let wanted = kind.unwrap_or_else(|| DriverKind::ALL[engine.config.number(Opt::Io) as usize]);
        let (drivers, refusal) = Driver::create(wanted, numbers.len())?;
        if let Some(why) = refusal {
            if kind.is_some() {
                return Err(why);
            }
            log::warning(&format!("io uring is not to be had ({why}), so io epoll is used."));
        }
        if let Some(driver) = drivers.first() {
            *kind = Some(driver.kind());
            *engine.network.io.lock() = driver.kind();
        }
        let mut workers = Vec::with_capacity(numbers.len());
        for (&number, driver) in numbers.iter().zip(drivers) {
            let waker = driver.waker();
            self.pool.admit(number, Arc::new(Mailbox::of_worker(number, move || waker.wake())));
            let mut worker = Worker::new(engine, Arc::clone(&self.pool), number, driver);
            for listener in self.pool.doors(engine) {
                worker.listen(listener)?;
            }
            workers.push(worker);
        }
        Ok(workers)
    }

    /// Tells all workers to stop, and lets none be added; returns their mailboxes.
    pub fn stop(&self) -> Vec<Arc<Mailbox>> {
        let _unchanging: MutexGuard<'_, _> = self.kind.lock();
        self.pool.stop()
    }
}

impl crews::Crew for Crew {
    fn size(&self) -> usize {
        self.pool.wanted()
    }

    fn resize(&self, count: usize) -> Result<(), String> {
        let old = self.pool.wanted();
        self.staff(count).map_err(|error| {
            let why = format!("Unable to start more workers, of which there are {old}: {error}");
            log::warning(&why);
            why
        })?;
        log::notice(&format!("There are {count} workers now, where there were {old}."));
        Ok(())
    }

    fn retiring(&self) -> usize {
        self.pool.retiring()
    }
}

#[cfg(test)]
mod tests {
    use crate::boot;
    use crate::session::local::Local;
    use std::net::SocketAddr;

    use super::*;
    use crate::config::Config;
    use crate::host::threads::refusal;

    #[test]
    fn config_set_reports_a_refused_thread_and_the_old_workers_go_on() {
        let config = Config::default();
        config.assign(Opt::Workers, &[b"1"]).expect("a number of workers");
        let engine = Engine::new(config);
        let server = boot::listen(&engine, SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let mut local = Local::open(&engine, || ());
        let mut ask = |request: &[u8]| {
            let mut replies = Vec::new();
            local.exchange(request, &mut replies).expect("the engine is there");
            String::from_utf8_lossy(&replies).into_owned()
        };
        let refused = refusal::after(2, || ask(b"CONFIG SET maxmemory-samples 7 workers 4\r\n"));
        assert!(
            refused.contains("argument 'workers') - Unable to start more workers, of which there are 1: "),
            "{refused}"
        );
        assert_eq!(ask(b"CONFIG GET workers\r\n"), "*2\r\n$7\r\nworkers\r\n$1\r\n1\r\n");
        assert!(ask(b"CONFIG GET maxmemory-samples\r\n").contains("\r\n5\r\n"));
        // The workers that had started have no clients to serve.
        while engine.clients.mailbox_count() > 2 {
            std::thread::yield_now();
        }
        assert_eq!((engine.network.crews.retiring(), engine.failure()), (0, None));
        assert_eq!(ask(b"CONFIG SET workers 4\r\n"), "+OK\r\n");
        assert_eq!(engine.clients.mailbox_count(), 5);
        server.stop();
        assert_eq!((engine.clients.mailbox_count(), engine.failure()), (1, None));
    }
}
