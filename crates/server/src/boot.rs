//! Starting and stopping: listeners, workers, signals.
//!
//! [`Engine::listen`] puts sockets in front of an engine that may be embedded as well; [`serve`] is the whole life of a
//! server process. Both start the same workers.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use crate::config::load::LoadError;
use crate::config::{Config, Opt, arguments, load};
use crate::driver::{Driver, Listener, bind_tcp, bind_unix};
use crate::engine::Engine;
use crate::log;
use crate::mail::Mailbox;
use crate::worker::{Team, Worker};

/// Workers that serve an engine; dropping it, or [`Server::stop`], closes their connections and listeners.
#[derive(Debug)]
pub struct Server {
    engine: Arc<Engine>,
    mailboxes: Vec<Arc<Mailbox>>,
    threads: Vec<JoinHandle<()>>,
    addresses: Vec<SocketAddr>,
}

impl Engine {
    /// Serves this engine at `address` too, with as many workers as the option `workers` says; port 0 takes a free one.
    ///
    /// # Errors
    /// What the kernel says of the address.
    pub fn listen(self: &Arc<Self>, address: SocketAddr) -> io::Result<Server> {
        let backlog = self.config.number(Opt::TcpBacklog) as i32;
        let listener = bind_tcp(address, backlog, self.config.number(Opt::TcpKeepalive) as u64)?;
        start(self, vec![Arc::new(listener)])
    }
}

impl Server {
    /// The TCP addresses that are listened on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops the workers and waits for them.
    pub fn stop(mut self) {
        self.end();
    }

    /// Waits until the workers have ended for another reason, such as SHUTDOWN.
    fn wait(mut self) {
        for thread in self.threads.drain(..) {
            _ = thread.join();
        }
    }

    fn end(&mut self) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.post(crate::mail::Letter::Stop));
        for thread in self.threads.drain(..) {
            _ = thread.join();
        }
        self.engine.port.store(0, Ordering::Relaxed);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts one thread for each worker, all of them accepting from all listeners.
fn start(engine: &Arc<Engine>, listeners: Vec<Arc<Listener>>) -> io::Result<Server> {
    let count = engine.config.number(Opt::Workers).max(1) as usize;
    let drivers = (0..count).map(|_| Driver::new()).collect::<io::Result<Vec<_>>>()?;
    let mailboxes: Vec<_> = drivers
        .iter()
        .map(|driver| {
            let waker = driver.waker();
            Arc::new(Mailbox::new(move || waker.wake()))
        })
        .collect();
    let addresses: Vec<_> = listeners.iter().filter_map(|listener| listener.address()).collect();
    engine.port.store(addresses.first().map_or(0, |address| u32::from(address.port())), Ordering::Relaxed);
    let team = Team::new(mailboxes.clone());
    let mut threads = Vec::with_capacity(count);
    for (number, driver) in drivers.into_iter().enumerate() {
        let mut worker = Worker::new(engine, Arc::clone(&team), number, driver);
        for listener in &listeners {
            worker.listen(Arc::clone(listener))?;
        }
        threads.push(thread::Builder::new().name(format!("worker-{number}")).spawn(move || worker.run())?);
    }
    Ok(Server { engine: Arc::clone(engine), mailboxes, threads, addresses })
}

/// Why a server could not start; its text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Configuration(#[from] LoadError),
    /// A socket or a file that the configuration names cannot be opened.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        error: io::Error,
    },
}

/// Runs a server until SHUTDOWN, SIGTERM or SIGINT ends it. `words` is the command line after the program's name:
/// `[FILE] [--option value ...] [-]`.
///
/// # Errors
/// [`StartError`] when it could not start.
pub fn serve(words: &[Vec<u8>]) -> Result<(), StartError> {
    let config = Config::default();
    load::load(&config, &arguments::parse(words), io::stdin())?;
    open_log(&config)?;
    log::warning(&format!("Sleeve is starting, version {}", env!("CARGO_PKG_VERSION")));
    let engine = Engine::new(config);
    let listeners = bind(&engine.config)?;
    let pid_file = write_pid_file(&engine.config)?;
    let engine_of_signals = Arc::clone(&engine);
    catch_signals(engine_of_signals).map_err(|error| system("cannot catch signals", error))?;
    let server = start(&engine, listeners).map_err(|error| system("cannot start the workers", error))?;
    let processors = engine.config.number(Opt::Workers);
    log::notice(&format!("Running mode=standalone, port={}, workers={processors}.", engine.port()));
    log::warning("Server initialized");
    if server.addresses().is_empty() {
        log::notice("The server is now ready to accept connections on the unix socket");
    } else {
        log::notice("Ready to accept connections");
    }
    server.wait();
    if let Some(path) = pid_file {
        _ = std::fs::remove_file(path);
    }
    log::warning("Sleeve is now ready to exit, bye bye...");
    Ok(())
}

fn system(what: impl Into<String>, error: io::Error) -> StartError {
    StartError::System { what: what.into(), error }
}

fn open_log(config: &Config) -> Result<(), StartError> {
    let name = config.text(Opt::Logfile);
    let path = if name.is_empty() { Path::new("").to_owned() } else { config.resolve(&name) };
    log::open(&path, config.log_level()).map_err(|error| system(format!("Can't open the log file '{}'", path.display()), error))
}

fn write_pid_file(config: &Config) -> Result<Option<std::path::PathBuf>, StartError> {
    let name = config.text(Opt::Pidfile);
    if name.is_empty() {
        return Ok(None);
    }
    let path = config.resolve(&name);
    std::fs::write(&path, format!("{}\n", std::process::id()))
        .map_err(|error| system(format!("Can't write the pid file '{}'", path.display()), error))?;
    Ok(Some(path))
}

/// Binds everything that the configuration names.
fn bind(config: &Config) -> Result<Vec<Arc<Listener>>, StartError> {
    let mut listeners = Vec::new();
    let port = config.number(Opt::Port) as u16;
    let backlog = config.number(Opt::TcpBacklog) as i32;
    let text = config.text(Opt::Bind);
    for word in String::from_utf8_lossy(&text).split_whitespace() {
        if port == 0 {
            break;
        }
        let (is_optional, name) = word.strip_prefix('-').map_or((false, word), |name| (true, name));
        let address = address_of(name).map_err(|error| system(format!("Could not understand the address '{name}'"), error));
        let keepalive_s = config.number(Opt::TcpKeepalive) as u64;
        let bound = address.and_then(|ip| {
            bind_tcp(SocketAddr::new(ip, port), backlog, keepalive_s)
                .map_err(|error| system(format!("Could not create server TCP listening socket {name}:{port}: bind"), error))
        });
        match bound {
            Ok(listener) => listeners.push(Arc::new(listener)),
            Err(StartError::System { error, .. }) if is_optional && is_absent(&error) => {}
            Err(error) => {
                log::warning(&error.to_string());
                return Err(error);
            }
        }
    }
    let path = config.text(Opt::UnixSocket);
    if !path.is_empty() {
        let path = config.resolve(&path);
        let mode = config.number(Opt::UnixSocketPerm) as u32;
        let listener = bind_unix(&path, backlog, mode)
            .map_err(|error| system(format!("Failed opening Unix socket '{}': bind", path.display()), error))?;
        listeners.push(Arc::new(listener));
    }
    Ok(listeners)
}

fn address_of(name: &str) -> io::Result<IpAddr> {
    match name {
        "*" => Ok(IpAddr::from([0, 0, 0, 0])),
        "::*" => Ok(IpAddr::from([0_u16; 8])),
        name => match name.parse() {
            Ok(ip) => Ok(ip),
            Err(_) => std::net::ToSocketAddrs::to_socket_addrs(&(name, 0))?
                .next()
                .map(|address| address.ip())
                .ok_or_else(|| io::Error::other("the name has no address")),
        },
    }
}

/// Whether an address is simply not there on this machine.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, NotFound, Unsupported};
    let no_family = rustix::io::Errno::AFNOSUPPORT.raw_os_error();
    matches!(error.kind(), AddrNotAvailable | NotFound | Unsupported) || error.raw_os_error() == Some(no_family)
}

/// SIGTERM and SIGINT stop all workers; a second one ends the process at once.
fn catch_signals(engine: Arc<Engine>) -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                std::process::exit(1);
            }
            let name = if signal == signal_hook::consts::SIGTERM { "SIGTERM" } else { "SIGINT" };
            log::warning(&format!("Received {name} scheduling shutdown..."));
            log::warning("User requested shutdown...");
            engine.post_stop();
        }
    })?;
    Ok(())
}
