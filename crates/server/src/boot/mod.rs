//! Starting and stopping: listeners, workers, signals.
//!
//! `listen` opens sockets for an engine that may also be embedded; [`serve`] is the whole life of a server process. Both
//! start the same kind of workers.

pub mod check;
mod crew;
mod daemon;
mod pid_file;
pub(crate) mod signals;
pub(crate) mod systemd;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use sleeve_disk::own::Claim;

use crate::config::load::LoadError;
use crate::config::{Config, Opt, arguments, load};
use crate::engine::Engine;
use crate::engine::readiness::Hindrance;
use crate::engine::replication::role_change;
use crate::engine::watchdog::thread as watchdog_thread;
use crate::host::crash;
use crate::host::facts;
use crate::host::log;
use crate::host::oom_score;
use crate::host::panics;
use crate::host::process_title;
use crate::loading;
use crate::net::listeners::ListenError;
use crate::net::tls;
use crate::net::{Listener, bind_tcp};
use crate::peers::cluster_bus::{self, BusThread, NewNode};
use crate::peers::follower;
use crate::worker::Doors;
use crew::Crew;
use daemon::KeptInput;

/// Workers that serve an engine; dropping it, or [`Server::stop`], closes their connections and listeners.
#[derive(Debug)]
pub struct Server {
    engine: Arc<Engine>,
    crew: Arc<Crew>,
    addresses: Vec<SocketAddr>,
}

/// Loads the data that the options name, and lets the engine follow a primary if they name one. The caller makes sure that no
/// client is served data until it returns.
///
/// # Errors
/// The fault, its file, and the possible remedies.
pub fn load(engine: &Arc<Engine>) -> Result<(), String> {
    follower::offer(engine);
    loading::load(engine)
}

/// Also serves this engine at `address`, with as many workers as the option `workers` says; port 0 takes a free port.
///
/// # Errors
/// The errors of the kernel for the address.
pub fn listen(engine: &Arc<Engine>, address: SocketAddr) -> io::Result<Server> {
    let backlog = engine.config.number(Opt::TcpBacklog) as i32;
    let listener = bind_tcp(address, backlog, engine.config.number(Opt::TcpKeepalive) as u64)?;
    let listeners = vec![Arc::new(listener)];
    start(engine, &listeners, Doors::Own(listeners.clone()))
}

impl Server {
    /// Returns the TCP addresses of its listeners.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops the workers and waits for them.
    pub fn stop(mut self) {
        self.end();
    }

    /// Waits until the workers have ended for another reason, such as SHUTDOWN.
    fn wait(self) {
        self.crew.pool.wait();
    }

    fn end(&mut self) {
        let mailboxes = self.crew.stop();
        self.crew.pool.wait();
        mailboxes.iter().for_each(|mailbox| self.engine.clients.leave_mailbox(mailbox));
        self.engine.network.port.store(0, Ordering::Relaxed);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts as many workers as the option says; each accepts from all listeners.
fn start(engine: &Arc<Engine>, listeners: &[Arc<Listener>], doors: Doors) -> io::Result<Server> {
    let addresses: Vec<_> = listeners.iter().filter_map(|listener| listener.address()).collect();
    engine.network.port.store(addresses.first().map_or(0, |address| u32::from(address.port())), Ordering::Relaxed);
    // From here on, a failure drops the server, which stops the workers that run already.
    let server = Server { engine: Arc::clone(engine), crew: Arc::new(Crew::new(engine, doors)), addresses };
    let wanted = || engine.config.number(Opt::Workers).max(1) as usize;
    server.crew.staff(wanted())?;
    let crew: Weak<Crew> = Arc::downgrade(&server.crew);
    engine.network.crews.enter(crew);
    // A session in this process may have set another number in the meantime.
    if server.crew.pool.wanted() != wanted() {
        server.crew.staff(wanted())?;
    }
    watchdog_thread::apply_period(engine).map_err(io::Error::other)?;
    Ok(server)
}

/// Opens the listeners that the configuration names, of which there has to be at least one.
fn open_listeners(engine: &Engine) -> Result<(), StartError> {
    let opened = engine.network.listeners.open(&engine.config).map_err(StartError::from);
    let opened =
        opened.and_then(|()| if engine.network.listeners.all().is_empty() { Err(StartError::Nowhere) } else { Ok(()) });
    opened.inspect_err(|error| log::warning(&error.to_string()))
}

/// Reads the certificate and the key for TLS, if TLS is served.
fn load_certificate(engine: &Engine) -> Result<(), StartError> {
    if engine.config.number(Opt::TlsPort) != 0 {
        let made = tls::load(&engine.config).inspect_err(|reason| log::warning(reason));
        engine
            .network
            .tls
            .set(made.map_err(|_| StartError::Tls).inspect_err(|error| log::warning(&error.to_string()))?);
    }
    Ok(())
}

/// Makes this server a node of a cluster, if the options say so.
fn join_cluster(engine: &Engine) -> Result<Option<NewNode>, StartError> {
    let joined = cluster_bus::join(engine).map_err(StartError::Cluster);
    joined.inspect_err(|error| log::warning(&error.to_string()))
}

/// Starts the thread of the bus, if this server is a node of a cluster.
fn start_bus(engine: &Arc<Engine>, node: Option<NewNode>) -> Result<Option<BusThread>, StartError> {
    let started = node.map(|node| cluster_bus::start(engine, node)).transpose().map_err(StartError::Cluster);
    started.inspect_err(|error| log::warning(&error.to_string()))
}

/// Makes the users that the configuration or its file of users describes.
pub(crate) fn load_users(engine: &Engine) -> Result<(), StartError> {
    let (config, lines) = (&engine.config, engine.config.users());
    let (file, defaults) = (config.text(Opt::Aclfile), config.acl_defaults());
    let loaded = if file.is_empty() {
        engine.acl.add_configured(&lines, defaults)
    } else if lines.is_empty() {
        let loaded = engine.acl.load(&config.resolve(&file), &String::from_utf8_lossy(&file), defaults);
        loaded.map(|_| ()).map_err(|error| format!("Aborting startup because of ACL errors: {error}"))
    } else {
        Err("Configuring users in the configuration file and at the same time setting an ACL file path is invalid. This \
             setup is very likely to lead to configuration errors and security holes, please define either an ACL file \
             or declare users directly in the configuration file, but not both."
            .to_owned())
    };
    for user in engine.acl.all().iter().filter(|user| !user.enabled) {
        let name = String::from_utf8_lossy(&user.name);
        log::notice(&format!(
            "The user '{name}' is disabled (there is no 'on' modifier in the user description). Make sure this is not a \
             configuration error."
        ));
    }
    loaded.map_err(StartError::Users).inspect_err(|error| log::warning(&error.to_string()))
}

/// Raises the limit of descriptors so that there can be `maxclients` clients; if that is not possible, lowers `maxclients`.
fn raise_descriptor_limit(config: &Config) {
    let wanted = config.number(Opt::Maxclients) as u64;
    let possible = facts::clients_possible(wanted);
    if possible < wanted && config.assign(Opt::Maxclients, &[possible.max(1).to_string().as_bytes()]).is_ok() {
        log::warning(&format!(
            "The system's limit of open files allows {possible} clients; maxclients has been reduced from {wanted} to \
             that. If you need more, raise 'ulimit -n'."
        ));
    }
}

/// The reason why a server could not start; its text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Configuration(#[from] LoadError),
    /// A socket that the configuration names cannot be opened.
    #[error("{0}")]
    Door(#[from] ListenError),
    /// The users that the configuration names cannot be used.
    #[error("{0}")]
    Users(String),
    /// This server cannot be a node of its cluster.
    #[error("{0}")]
    Cluster(String),
    /// The data cannot be loaded.
    #[error("{0}")]
    Data(String),
    /// The process in the background has not come up.
    #[error("{0}")]
    Background(String),
    /// A listener that the caller of [`serve`] adds cannot be opened.
    #[error("{0}")]
    Attendant(String),
    /// The certificate or the key for TLS cannot be used; the server log has the reason.
    #[error("Failed to configure TLS. Check logs for more info.")]
    Tls,
    /// The server had started, and then ended because of an internal fault.
    #[error("The server has failed: {0}")]
    Failed(String),
    /// The configuration names no socket at all.
    #[error("Configured to not listen anywhere, exiting.")]
    Nowhere,
    /// A file that the configuration names cannot be opened, or a thread not started.
    #[error("{what}: {error}")]
    System {
        /// The action that failed.
        what: String,
        /// The system's error.
        error: io::Error,
    },
}

/// Reads the configuration, with the warnings about it. Returns `None` if the server runs in the background from now on, in
/// another process.
fn configure(words: &[Vec<u8>]) -> Result<Option<(Config, Vec<String>)>, StartError> {
    let config = Config::default();
    let mut input = KeptInput::new(io::stdin());
    let warnings = load::load(&config, &arguments::of_process(words), &mut input)?;
    let has_gone = daemon::detach(&config, &input.kept).map_err(StartError::Background)?;
    Ok((!has_gone).then_some((config, warnings)))
}

/// Runs a server until SHUTDOWN, SIGTERM or SIGINT ends it. `words` is the command line after the program's name: `[FILE]
/// [--option value ...] [-]`. `attend` is called once its sockets are open, before the data is loaded: it may add other
/// listeners, and returns the lines for the server log about them.
///
/// # Errors
/// [`StartError`] if it could not start, or ended by an internal fault other than a panic; a panic ends the process.
pub fn serve(
    words: &[Vec<u8>],
    attend: impl FnOnce(&Arc<Engine>) -> Result<Option<String>, String>,
) -> Result<(), StartError> {
    let Some((config, warnings)) = configure(words)? else { return Ok(()) };
    open_log(&config)?;
    log::hide_user_data(config.flag(Opt::HideUserDataFromLog));
    panics::exit_on_panic(config.flag(Opt::UseExitOnPanic));
    let process = std::process::id();
    log::warning(&format!("Sleeve is starting, version {}, pid={process}", env!("CARGO_PKG_VERSION")));
    signals::ignore_hangups();
    crash::set_wanted(config.flag(Opt::CrashLogEnabled));
    warnings.iter().for_each(|warning| log::warning(warning));
    raise_descriptor_limit(&config);
    if config.flag(Opt::SetProcTitle) {
        process_title::claim();
    }
    let engine = Engine::new(config);
    panics::end_process_on_panic();
    load_users(&engine)?;
    load_certificate(&engine)?;
    open_listeners(&engine)?;
    let node = join_cluster(&engine)?;
    role_change::follow_configured(&engine);
    // Clients that connect before the data is loaded get the error LOADING, and probes the answer not ready.
    engine.lifecycle.readiness.set(Hindrance::Loading, true);
    let attendant = attend(&engine).map_err(StartError::Attendant);
    attendant.inspect_err(|error| log::warning(&error.to_string()))?.iter().for_each(|line| log::notice(line));
    process_title::show(&engine.config);
    // If the score cannot be set, the server log has the reason, and the server goes on.
    _ = oom_score::apply(&engine.config);
    let pid_file = pid_file::write(&engine.config);
    pid_file.iter().cloned().for_each(panics::take_along);
    let server = start_threads(&engine).inspect_err(|error| {
        log::warning(&error.to_string());
        pid_file.iter().for_each(Claim::release);
    })?;
    engine.keyspace.estimate.note_startup(facts::resident().1);
    let processors = engine.config.number(Opt::Workers);
    let port = engine.network.port();
    // Test harnesses that start servers read the number after `PID:`, and connect then: the sockets are open, as in Redis.
    log::notice(&format!("Running mode={}, port={port}, workers={processors}, PID: {process}", engine.mode()));
    log::warning("Server initialized");
    daemon::report_up(&engine.config).map_err(|error| system("cannot leave standard output", error))?;
    let loaded = load(&engine);
    if engine.persistence.loading.is_given_up() {
        server.wait();
        pid_file.iter().for_each(Claim::release);
        return Ok(());
    }
    if let Err(why) = loaded {
        log::warning(&why);
        pid_file.iter().for_each(Claim::release);
        return Err(StartError::Data(why));
    }
    let is_local = server.addresses().is_empty();
    begin_service(&engine, if is_local { READY_BY_PATH } else { READY });
    let bus = start_bus(&engine, node).inspect_err(|_| pid_file.iter().for_each(Claim::release))?;
    systemd::tell(&engine.config, systemd::READY);
    server.wait();
    drop(bus);
    systemd::tell(&engine.config, systemd::STOPPING);
    end_rest(&engine);
    pid_file.iter().for_each(Claim::release);
    if let Some(reason) = engine.failure() {
        return Err(StartError::Failed(reason.to_owned()));
    }
    log::warning("Sleeve is now ready to exit, bye bye...");
    Ok(())
}

/// The line in the server log when clients are served.
const READY: &str = "Ready to accept connections";
const READY_BY_PATH: &str = "The server is now ready to accept connections on the unix socket";

/// Begins to serve clients that need the data, after it was loaded: writes this line into the server log, and follows the
/// primary.
pub(crate) fn begin_service(engine: &Arc<Engine>, line: &str) {
    engine.persistence.snapshots.follow_rules();
    log::notice(line);
    loading::end(engine);
    if let Err(why) = engine.replication.role.start() {
        log::warning(&format!("The thread that follows the primary cannot start: {why}. REPLICAOF tries it again"));
    }
}

/// Ends the activities that run without workers.
pub(crate) fn end_rest(engine: &Engine) {
    engine.persistence.snapshots.close();
    // Bytes of the primary that arrive after this would be in no AOF.
    follower::end(engine);
    engine.persistence.aof.finish(engine);
}

/// Starts the threads that a server process needs: the thread for signals, and the workers.
fn start_threads(engine: &Arc<Engine>) -> Result<Server, StartError> {
    signals::catch(engine).map_err(|error| system("cannot catch signals", error))?;
    start(engine, &engine.network.listeners.all(), Doors::OfEngine)
        .map_err(|error| system("cannot start the workers", error))
}

fn system(what: impl Into<String>, error: io::Error) -> StartError {
    StartError::System { what: what.into(), error }
}

fn open_log(config: &Config) -> Result<(), StartError> {
    let name = config.text(Opt::Logfile);
    let path = if name.is_empty() { Path::new("").to_owned() } else { config.resolve(&name) };
    log::open(&path, config.log_level())
        .map_err(|error| system(format!("Can't open the log file '{}'", path.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::threads::refusal;
    use crate::messaging::mail::Mailbox;
    use crate::net::{Driver, DriverKind};
    use crate::session::local::Local;
    use crate::worker::{Worker, WorkerPool};

    fn engine_with_workers(count: &str) -> Arc<Engine> {
        let config = Config::default();
        config.assign(Opt::Workers, &[count.as_bytes()]).expect("a number of workers");
        Engine::new(config)
    }

    #[test]
    fn where_not_all_workers_can_start_none_is_left_and_the_engine_serves_on() {
        let engine = engine_with_workers("3");
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let error = refusal::after(2, || listen(&engine, address)).expect_err("the third is refused");
        assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
        assert_eq!((engine.network.port(), engine.clients.mailbox_count(), engine.failure()), (0, 0, None));
        let mut replies = Vec::new();
        Local::open(&engine, || ()).exchange(b"PING\r\n", &mut replies).expect("the engine is as it was");
        assert_eq!(replies, b"+PONG\r\n");
        let server = listen(&engine, address).expect("there are threads again");
        assert_eq!(engine.clients.mailbox_count(), 3);
        server.stop();
        assert_eq!(engine.clients.mailbox_count(), 0);
    }

    #[test]
    fn a_server_that_gets_no_thread_fails_to_start_and_names_the_thread() {
        let engine = engine_with_workers("1");
        let reason = |allowed| refusal::after(allowed, || start_threads(&engine)).expect_err("refused").to_string();
        assert!(reason(0).starts_with("cannot catch signals: "));
        assert!(reason(1).starts_with("cannot start the workers: "));
    }

    #[test]
    fn a_worker_whose_wait_fails_ends_the_engine_with_the_reason() {
        let engine = engine_with_workers("1");
        let mut local = Local::open(&engine, || ());
        let mut driver = Driver::new(DriverKind::Epoll).expect("a driver");
        let waker = driver.waker();
        let mailbox = Arc::new(Mailbox::new(move || waker.wake()));
        driver.break_wait();
        let pool = WorkerPool::of(vec![mailbox]);
        Worker::new(&engine, Arc::clone(&pool), 0, driver).spawn().expect("a thread");
        pool.wait();
        let reason = engine.failure().expect("the engine is over");
        assert!(reason.starts_with("worker-0 cannot wait for its clients: "), "{reason}");
        assert!(local.exchange(b"PING\r\n", &mut Vec::new()).is_err(), "nobody is served by half an engine");
    }
}
