//! The engines of this process: their creation, and those that have names.
//!
//! An engine takes the options of a server's configuration, except those of a process and its sockets: options without an
//! effect are refused. Any thread.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use sleeve_server::boot::{self, Server};
use sleeve_server::config::table::find;
use sleeve_server::engine::origin::Origin;
use sleeve_server::host::clock::Instant;
use sleeve_server::peers::follower;
use sleeve_server::{Engine, Opt};

use super::clock::EngineClock;
use crate::config::url::named;
use crate::error::{Error, ErrorKind};
use crate::sys::lock::Mutex;

/// An engine, and the listeners in front of it.
pub(crate) struct EngineInstance {
    pub(crate) engine: Arc<Engine>,
    pub(crate) servers: Mutex<Vec<Server>>,
    /// The clock that the engine uses.
    pub(crate) clock: EngineClock,
}

/// The engines that have names.
static NAMED_ENGINES: LazyLock<Mutex<HashMap<String, Weak<EngineInstance>>>> = LazyLock::new(Mutex::default);

impl EngineInstance {
    fn of(engine: Arc<Engine>) -> Arc<Self> {
        Arc::new(Self { engine, servers: Mutex::default(), clock: EngineClock::default() })
    }

    /// Returns a new engine with these settings, a seed, and a clock that stands at this time.
    pub(crate) fn at_manual_clock(settings: &[(String, String)], seed: u64, now: Instant) -> Result<Arc<Self>, Error> {
        let engine = Engine::begin(configured(settings, None)?, Origin::of_seed(seed, now));
        Ok(Arc::new(Self { engine, servers: Mutex::default(), clock: EngineClock::manual(now) }))
    }

    /// Opens an engine with this configuration, and loads the data of its AOF, if it has one.
    fn open(config: sleeve_server::Config) -> Result<Arc<Self>, Error> {
        let engine = Engine::new(config);
        if engine.config.flag(Opt::Appendonly) {
            load(&engine)?;
        }
        Ok(Self::of(engine))
    }

    /// Creates a new engine with the default configuration.
    pub(crate) fn plain() -> Arc<Self> {
        Self::of(Engine::new(sleeve_server::Config::default()))
    }

    /// Creates a new engine with these settings.
    pub(crate) fn of_its_own(settings: &[(String, String)]) -> Result<Arc<Self>, Error> {
        configured(settings, None).and_then(Self::open)
    }

    /// Returns the engine of this name; it is created, with these settings, if there is none. An existing engine must have
    /// these settings.
    pub(crate) fn named(name: &str, settings: &[(String, String)]) -> Result<Arc<Self>, Error> {
        let mut engines = NAMED_ENGINES.lock();
        engines.retain(|_, instance| instance.strong_count() > 0);
        let wanted = configured(settings, name.starts_with('/').then_some(name))?;
        if let Some(instance) = engines.get(name).and_then(Weak::upgrade) {
            for (row, _) in settings.iter().filter_map(|(option, _)| find(option.as_bytes())) {
                if instance.engine.config.value(row.option) != wanted.value(row.option) {
                    let why = format!("the engine \"{name}\" runs already with another \"{}\"", row.name);
                    return Err(bad(format!("{why}: leave it out, or use CONFIG SET")));
                }
            }
            return Ok(instance);
        }
        let instance = Self::open(wanted)?;
        engines.insert(name.to_owned(), Arc::downgrade(&instance));
        Ok(instance)
    }
}

impl Drop for EngineInstance {
    /// Syncs the writes that are not synced yet, and frees the folder for another engine.
    fn drop(&mut self) {
        // A client that is served from here on would get replies to writes that no AOF has.
        self.servers.get_mut().clear();
        // The follower's thread would keep the engine alive, and apply writes that no AOF has any more.
        follower::end(&self.engine);
        // An AOF that has just been switched on is useless without its first base.
        self.engine.persistence.aof.wait_for_first_base(&self.engine);
        // The next owner of the folder must not find a thread in it that still writes.
        self.engine.persistence.snapshots.close();
        self.engine.persistence.aof.finish(&self.engine);
    }
}

/// The longest wait for another engine of this process that had the folder and is still closing.
const CLOSING_MAX: Duration = Duration::from_secs(30);

/// Loads the data of an engine, and continues its AOF.
fn load(engine: &Arc<Engine>) -> Result<(), Error> {
    let own = format!("held by process {},", std::process::id());
    let deadline = std::time::Instant::now() + CLOSING_MAX;
    loop {
        match boot::load(engine) {
            Ok(()) => return Ok(()),
            // An engine may still be syncing just after its last client was dropped.
            Err(why) if why.contains(&own) && std::time::Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(why) => return Err(bad(why)),
        }
    }
}

/// The options of a server's process and of its sockets, which an engine in this process does not have. Options that begin
/// with `tls-` count as such, too.
const OF_A_SERVER: [&[u8]; 18] = [
    b"save",
    b"stop-writes-on-bgsave-error",
    b"bind",
    b"port",
    b"unixsocket",
    b"unixsocketperm",
    b"aclfile",
    b"requirepass",
    b"logfile",
    b"pidfile",
    b"daemonize",
    b"supervised",
    b"set-proc-title",
    b"proc-title-template",
    b"oom-score-adj",
    b"oom-score-adj-values",
    b"shutdown-on-sigint",
    b"shutdown-on-sigterm",
];

fn bad(message: String) -> Error {
    Error::unsent(ErrorKind::Configuration, message)
}

/// Returns the engine's configuration with these settings; with a folder, the engine keeps its data there.
fn configured(settings: &[(String, String)], folder: Option<&str>) -> Result<sleeve_server::Config, Error> {
    let config = sleeve_server::Config::default();
    if let Some(folder) = folder {
        let set = |option, value: &str| config.assign(option, &[value.as_bytes()]);
        let made = std::fs::create_dir_all(folder).map_err(|error| error.to_string());
        let set = made.and_then(|()| set(Opt::Dir, folder)).and_then(|()| set(Opt::Appendonly, "yes"));
        set.map_err(|reason| bad(format!("the folder {folder} cannot be used: {reason}")))?;
    }
    for (option, value) in settings {
        let Some((row, name)) = find(option.as_bytes()) else {
            return Err(bad(format!("{} is unknown, to the client as to the engine", named(option))));
        };
        if OF_A_SERVER.contains(&row.name.as_bytes()) || row.name.starts_with("tls-") {
            return Err(bad(format!("the option \"{name}\" is one of servers: an embedded engine has no use for it")));
        }
        if row.option == Opt::Appendonly && folder.is_none() {
            let advice = "an engine whose data is kept has a URL with its folder, such as embedded:///var/lib/app";
            return Err(bad(format!("the engine's option \"{name}\" cannot be had: {advice}")));
        }
        let assigned = config.assign(row.option, &[value.as_bytes()]);
        assigned.map_err(|reason| bad(format!("the engine's option \"{name}\" cannot be had: {reason}")))?;
    }
    Ok(config)
}
