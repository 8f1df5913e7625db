//! The engines of this process: how they are made, and which of them have names.
//!
//! An engine takes the options of a server's configuration, but for those of a process and its sockets: what would have no
//! effect is refused. Any thread.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use sleeve_server::Engine;
use sleeve_server::boot::Server;
use sleeve_server::config::table::find;

use crate::config::url::named;
use crate::error::{Error, ErrorKind};

/// An engine, and what listens in front of it.
pub(crate) struct House {
    pub(crate) engine: Arc<Engine>,
    pub(crate) servers: Mutex<Vec<Server>>,
}

/// The engines that have names.
static HOUSES: LazyLock<Mutex<HashMap<String, Weak<House>>>> = LazyLock::new(Mutex::default);

impl House {
    fn new(config: sleeve_server::Config) -> Arc<Self> {
        Arc::new(Self { engine: Engine::new(config), servers: Mutex::default() })
    }

    /// A new engine that is as engines are.
    pub(crate) fn plain() -> Arc<Self> {
        Self::new(sleeve_server::Config::default())
    }

    /// A new engine with these settings.
    pub(crate) fn of_its_own(settings: &[(String, String)]) -> Result<Arc<Self>, Error> {
        configured(settings).map(Self::new)
    }

    /// The engine of this name; made, with these settings, where there is none. One that is there must have them already.
    pub(crate) fn named(name: &str, settings: &[(String, String)]) -> Result<Arc<Self>, Error> {
        let mut houses = HOUSES.lock();
        houses.retain(|_, house| house.strong_count() > 0);
        let wanted = configured(settings)?;
        if let Some(house) = houses.get(name).and_then(Weak::upgrade) {
            for (row, _) in settings.iter().filter_map(|(option, _)| find(option.as_bytes())) {
                if house.engine.config.value(row.option) != wanted.value(row.option) {
                    let why = format!("the engine \"{name}\" runs already with another \"{}\"", row.name);
                    return Err(bad(format!("{why}: leave it out, or use CONFIG SET")));
                }
            }
            return Ok(house);
        }
        let house = Self::new(wanted);
        houses.insert(name.to_owned(), Arc::downgrade(&house));
        Ok(house)
    }
}

/// Options of a server's process and of its sockets, which an engine in this process does not have. Those that begin with
/// `tls-` are too.
const OF_A_SERVER: [&[u8]; 16] = [
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

/// The engine's configuration with these settings.
fn configured(settings: &[(String, String)]) -> Result<sleeve_server::Config, Error> {
    let config = sleeve_server::Config::default();
    for (option, value) in settings {
        let Some((row, name)) = find(option.as_bytes()) else {
            return Err(bad(format!("{} is unknown, to the client as to the engine", named(option))));
        };
        if OF_A_SERVER.contains(&row.name.as_bytes()) || row.name.starts_with("tls-") {
            return Err(bad(format!("the option \"{name}\" is one of servers: an embedded engine has no use for it")));
        }
        let assigned = config.assign(row.option, &[value.as_bytes()]);
        assigned.map_err(|reason| bad(format!("the engine's option \"{name}\" cannot be had: {reason}")))?;
    }
    Ok(config)
}
