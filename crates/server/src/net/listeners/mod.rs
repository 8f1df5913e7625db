//! The sockets at which an engine is served: opened as the options say, changed while it runs.
//!
//! A server process opens its listeners once, at the start; CONFIG SET `port` and `bind` open others and close the unwanted
//! ones. A listener for an address that stays is not touched, so no client that is connecting to it notices. Workers hold the
//! listening sockets themselves: after a change each gets a letter and takes the new ones from here.
//!
//! An embedded engine has no listeners here: the program that owns it may open its own. Any thread, one change at a time.

pub mod acceptor;
pub mod listener;

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::config::{Config, Opt};
use crate::host::log;
use crate::messaging::mail::{Letter, Mailbox};
use listener::{Listener, bind_tcp, bind_unix};

/// A socket that cannot be opened, with the system's error; its text is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub struct ListenError {
    what: String,
    error: io::Error,
}

/// The sockets at which the engine listens.
#[derive(Debug, Default)]
pub struct Listeners {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    tcp: Vec<Arc<Listener>>,
    unix: Option<Arc<Listener>>,
    /// The mailboxes of the workers that are notified of a change; empty before the workers have started.
    mailboxes: Vec<Arc<Mailbox>>,
}

/// An address on which the server has to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListenAddress {
    address: SocketAddr,
    /// The address may be missing on this machine.
    is_optional: bool,
    /// Connections to the address speak TLS.
    is_tls: bool,
}

impl Listeners {
    /// Opens all listeners that the options name.
    ///
    /// # Errors
    /// The first address or path that cannot be opened.
    pub fn open(&self, config: &Config) -> Result<(), ListenError> {
        let mut open = self.open.lock();
        open.tcp = open_all(config, &wanted(config)?)?;
        let path = config.text(Opt::UnixSocket);
        if !path.is_empty() {
            let path = config.resolve(&path);
            let (backlog, mode) = (config.number(Opt::TcpBacklog) as i32, config.number(Opt::UnixSocketPerm) as u32);
            let listener = bind_unix(&path, backlog, mode).map_err(|error| unix_refusal(&path, error))?;
            open.unix = Some(Arc::new(listener));
        }
        Ok(())
    }

    /// Sets the workers that watch these listeners from now on.
    pub fn attach(&self, mailboxes: &[Arc<Mailbox>]) {
        self.open.lock().mailboxes = mailboxes.to_vec();
    }

    /// Returns all listening sockets.
    pub fn all(&self) -> Vec<Arc<Listener>> {
        let open = self.open.lock();
        open.tcp.iter().chain(&open.unix).cloned().collect()
    }

    /// Returns the absolute path of the Unix socket, if there is one.
    pub fn unix_path(&self) -> Option<PathBuf> {
        std::path::absolute(self.open.lock().unix.as_ref()?.path()?).ok()
    }

    /// Closes all listeners at once.
    pub fn shut(&self) {
        self.all().iter().for_each(|listener| listener.close());
    }

    /// Opens and closes TCP listeners so that they match the present options. A failure leaves the listeners as they were.
    ///
    /// # Errors
    /// That there are no such listeners, or `refusal` if one cannot be opened; the server log has the details.
    pub fn reopen(&self, config: &Config, refusal: &str) -> Result<(), String> {
        let mut open = self.open.lock();
        if open.mailboxes.is_empty() {
            return Err("this engine is not served at the addresses that its options name".into());
        }
        let changed = replace(config, &mut open.tcp);
        open.mailboxes.iter().for_each(|mailbox| mailbox.post(Letter::Listen));
        changed.map_err(|error| {
            log::warning(&error.to_string());
            refusal.to_owned()
        })
    }

    /// Sets TCP keepalive for connections that are accepted from now on: seconds of idleness before a probe; 0 for none.
    pub fn set_keepalive(&self, seconds: u64) {
        self.all().iter().for_each(|listener| listener.set_keepalive(seconds));
    }
}

/// Makes `tcp` match the options. The unwanted listeners are closed first, because a wildcard address and a single address of
/// the machine exclude each other. If the new ones cannot be opened, the old ones are opened again.
fn replace(config: &Config, tcp: &mut Vec<Arc<Listener>>) -> Result<(), ListenError> {
    let wanted = wanted(config)?;
    let is_same = |wanted: &ListenAddress, listener: &Listener| {
        Some(wanted.address) == listener.address() && wanted.is_tls == listener.is_tls()
    };
    let is_wanted = |listener: &Listener| wanted.iter().any(|wanted| is_same(wanted, listener));
    let (mut kept, gone): (Vec<_>, Vec<_>) = tcp.drain(..).partition(|listener| is_wanted(listener));
    gone.iter().for_each(|listener| listener.close());
    let is_new = |wanted: &&ListenAddress| !kept.iter().any(|listener| is_same(wanted, listener));
    let new: Vec<ListenAddress> = wanted.iter().filter(is_new).copied().collect();
    let opened = open_all(config, &new).inspect_err(|_| {
        let old = gone.iter().filter_map(|listener| Some((listener.address()?, listener.is_tls())));
        let old: Vec<_> = old.map(|(address, is_tls)| ListenAddress { address, is_optional: true, is_tls }).collect();
        // These addresses were open a moment ago. If one of them cannot be opened again, that is logged and the others go on.
        for wanted in &old {
            match open_all(config, std::slice::from_ref(wanted)) {
                Ok(again) => kept.extend(again),
                Err(lost) => log::warning(&lost.to_string()),
            }
        }
    });
    *tcp = kept;
    tcp.extend(opened?);
    Ok(())
}

/// A socket that a server would open.
#[derive(Debug)]
pub struct Prospect {
    /// The address or the path, for people.
    pub name: String,
    /// Connections to it speak TLS.
    pub is_tls: bool,
    /// The reason why it could not be opened now.
    pub obstacle: Option<ListenError>,
}

impl Prospect {
    /// Returns whether another server listens there: the socket could be opened once that server has ended.
    pub fn is_taken(&self) -> bool {
        self.obstacle.as_ref().is_some_and(|obstacle| obstacle.error.kind() == io::ErrorKind::AddrInUse)
    }
}

/// Returns the sockets that the options name, and tries each without opening it. A TCP address that this machine lacks is left
/// out if the options allow that.
///
/// # Errors
/// The first name that is no address.
pub fn prospects(config: &Config) -> Result<Vec<Prospect>, ListenError> {
    let tcp = wanted(config)?.into_iter().filter_map(|ListenAddress { address, is_optional, is_tls }| {
        let tried = listener::try_tcp(address);
        match &tried {
            Err(error) if is_optional && is_absent(error) => None,
            _ => Some(Prospect {
                name: address.to_string(),
                is_tls,
                obstacle: tried.err().map(|error| tcp_refusal(address, error)),
            }),
        }
    });
    let path = Some(config.text(Opt::UnixSocket)).filter(|path| !path.is_empty()).map(|path| config.resolve(&path));
    let unix = path.map(|path| Prospect {
        name: path.display().to_string(),
        is_tls: false,
        obstacle: listener::try_unix(&path).err().map(|error| unix_refusal(&path, error)),
    });
    Ok(tcp.chain(unix).collect())
}

fn unix_refusal(path: &Path, error: io::Error) -> ListenError {
    ListenError { what: format!("Failed opening Unix socket '{}'", path.display()), error }
}

fn tcp_refusal(address: SocketAddr, error: io::Error) -> ListenError {
    // Test harnesses that find the first words in the log start the server again at another port.
    let port = address.port();
    ListenError { what: format!("Failed listening on port {port}: could not create the TCP socket {address}"), error }
}

/// Opens the sockets at which other nodes of a cluster are accepted: at the addresses of `bind`, on this port.
///
/// # Errors
/// The first address that cannot be opened.
pub fn open_bus(config: &Config, port: u16, is_tls: bool) -> Result<Vec<Arc<Listener>>, ListenError> {
    open_all(config, &wanted_at(config, port, is_tls)?)
}

/// Returns the TCP addresses that the options name.
fn wanted(config: &Config) -> Result<Vec<ListenAddress>, ListenError> {
    let mut all = wanted_at(config, config.number(Opt::Port) as u16, false)?;
    all.extend(wanted_at(config, config.number(Opt::TlsPort) as u16, true)?);
    Ok(all)
}

fn wanted_at(config: &Config, port: u16, is_tls: bool) -> Result<Vec<ListenAddress>, ListenError> {
    let text = config.text(Opt::Bind);
    let text = String::from_utf8_lossy(&text);
    let words = text.split_whitespace().filter(|_| port != 0);
    let one = |word: &str| {
        let (is_optional, name) = word.strip_prefix('-').map_or((false, word), |name| (true, name));
        match address_of(name) {
            Ok(ip) => Some(Ok(ListenAddress { address: SocketAddr::new(ip, port), is_optional, is_tls })),
            Err(error) if is_optional && is_absent(&error) => None,
            Err(error) => Some(Err(ListenError { what: format!("Could not understand the address '{name}'"), error })),
        }
    };
    words.filter_map(one).collect()
}

fn open_all(config: &Config, wanted: &[ListenAddress]) -> Result<Vec<Arc<Listener>>, ListenError> {
    let (backlog, keepalive_s) = (config.number(Opt::TcpBacklog) as i32, config.number(Opt::TcpKeepalive) as u64);
    let mut opened = Vec::new();
    for &ListenAddress { address, is_optional, is_tls } in wanted {
        match bind_tcp(address, backlog, keepalive_s) {
            Ok(listener) => opened.push(Arc::new(listener.with_tls(is_tls))),
            Err(error) if is_optional && is_absent(&error) => {}
            Err(error) => return Err(tcp_refusal(address, error)),
        }
    }
    Ok(opened)
}

/// Returns an address: `*` and `::*` are all addresses of one family; any other text is an address or a name.
fn address_of(name: &str) -> io::Result<IpAddr> {
    match name {
        "*" => Ok(IpAddr::from([0_u8; 4])),
        "::*" => Ok(IpAddr::from([0_u16; 8])),
        name => match name.parse() {
            Ok(ip) => Ok(ip),
            Err(_) => {
                let first = (name, 0).to_socket_addrs()?.next();
                first.map(|address| address.ip()).ok_or_else(|| io::Error::other("the name has no address"))
            }
        },
    }
}

/// Returns whether the error says that this machine does not have the address.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, NotFound, Unsupported};
    let no_family = rustix::io::Errno::AFNOSUPPORT.raw_os_error();
    matches!(error.kind(), AddrNotAvailable | NotFound | Unsupported) || error.raw_os_error() == Some(no_family)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free_port() -> u16 {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        socket.local_addr().expect("bound").port()
    }

    fn config(port: u16, bind: &[&[u8]]) -> Config {
        let config = Config::default();
        config.assign(Opt::Port, &[port.to_string().as_bytes()]).expect("a port");
        config.assign(Opt::Bind, bind).expect("addresses");
        config
    }

    fn addresses(listeners: &Listeners) -> Vec<String> {
        listeners.all().iter().filter_map(|listener| listener.address()).map(|address| address.to_string()).collect()
    }

    #[test]
    fn a_port_in_use_is_named_in_the_words_that_harnesses_look_for() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port that is taken");
        let port = taken.local_addr().expect("bound").port();
        let error = Listeners::default().open(&config(port, &[b"127.0.0.1"])).expect_err("the port is taken");
        assert!(error.to_string().starts_with(&format!("Failed listening on port {port}: ")), "{error}");
    }

    #[test]
    fn doors_follow_the_options_and_come_back_when_they_cannot() {
        let port = free_port();
        let listeners = Listeners::default();
        listeners.open(&config(port, &[b"*"])).expect("opened");
        assert!(listeners.reopen(&config(port, &[b"127.0.0.1"]), "refused").is_err(), "no workers yet");
        listeners.attach(&[Arc::new(Mailbox::new(|| ()))]);
        listeners.reopen(&config(port, &[b"127.0.0.1"]), "refused").expect("narrowed");
        assert_eq!(addresses(&listeners), [format!("127.0.0.1:{port}")]);
        std::net::TcpStream::connect(("127.0.0.1", port)).expect("open");
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port that is taken");
        let taken_port = taken.local_addr().expect("bound").port();
        let refused = listeners.reopen(&config(taken_port, &[b"127.0.0.1"]), "refused");
        assert_eq!(refused, Err("refused".to_owned()));
        std::net::TcpStream::connect(("127.0.0.1", port)).expect("still open");
        listeners.reopen(&config(0, &[b"127.0.0.1"]), "refused").expect("closed");
        assert_eq!(addresses(&listeners), [""; 0]);
        std::net::TcpStream::connect(("127.0.0.1", port)).expect_err("closed");
    }

    #[test]
    fn an_optional_address_may_be_missing() {
        let listeners = Listeners::default();
        let port = free_port();
        listeners.open(&config(port, &[b"127.0.0.1", b"-192.0.2.1"])).expect("one of two");
        assert_eq!(addresses(&listeners), [format!("127.0.0.1:{port}")]);
        assert!(Listeners::default().open(&config(port, &[b"192.0.2.1"])).is_err());
    }
}
