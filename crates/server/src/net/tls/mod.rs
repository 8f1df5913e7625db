//! TLS between a connection and its session: ciphertext in and out on one side, plain bytes on the other. The nodes of a
//! cluster speak with each other through the same channels, which either of them may begin.
//!
//! A [`Channel`] is one connection's state; it touches no socket. The worker passes it the bytes that arrived and gets the
//! client's plain bytes, or passes it replies and gets the bytes to send; during the handshake there are bytes to send
//! without any reply. [`Tls`] keeps the configuration of new connections, which CONFIG SET replaces while the server runs:
//! existing connections keep the one with which they began. A channel belongs to one thread, [`Tls`] to any.

mod ciphers;
mod outgoing;
mod sessions;
mod settings;

use std::io::{self, Read, Write};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

pub use outgoing::load as load_for_primaries;
pub use settings::{load, load_for_nodes};

/// The configuration of new connections, if the options name a certificate.
#[derive(Debug, Default)]
pub struct Tls {
    config: RwLock<Option<Arc<ServerConfig>>>,
}

impl Tls {
    /// Sets the configuration with which new connections begin.
    pub fn set(&self, config: Arc<ServerConfig>) {
        *self.config.write() = Some(config);
    }

    /// Makes the channel of a new connection; returns None if there is no certificate.
    pub fn channel(&self) -> Option<Box<Channel>> {
        let config = self.config.read().clone()?;
        Channel::accept(config)
    }
}

/// The TLS state of one connection.
#[derive(Debug)]
pub struct Channel {
    connection: Connection,
    /// The client's plain bytes of the last call of [`Channel::open`].
    plain: Vec<u8>,
    has_ended: bool,
}

/// The room for plain bytes that is kept while it is empty.
const KEPT_BYTES: usize = 4 * 1024;

impl Channel {
    /// Makes the channel of a connection that was accepted; returns None if the configuration cannot be used.
    pub fn accept(config: Arc<ServerConfig>) -> Option<Box<Self>> {
        ServerConnection::new(config).ok().map(Connection::Server).map(Self::of)
    }

    /// Makes the channel of a connection that was opened to a host; returns None if the host's name cannot be used.
    pub fn connect(config: Arc<ClientConfig>, host: &str) -> Option<Box<Self>> {
        let name = ServerName::try_from(host.to_owned()).ok()?;
        ClientConnection::new(config, name).ok().map(Connection::Client).map(Self::of)
    }

    fn of(mut connection: Connection) -> Box<Self> {
        // Written bytes are taken out at once, and the output of a client has limits of its own.
        connection.set_buffer_limit(None);
        Box::new(Self { connection, plain: Vec::new(), has_ended: false })
    }

    /// Takes the bytes that arrived; returns the client's plain bytes in them.
    ///
    /// # Errors
    /// The client broke the protocol, or presented no trusted certificate. The alert for the client can still be taken with
    /// [`Channel::seal`].
    pub fn open(&mut self, mut arrived: &[u8]) -> io::Result<&[u8]> {
        self.plain.clear();
        self.plain.shrink_to(KEPT_BYTES);
        while !arrived.is_empty() {
            self.connection.read_tls(&mut arrived)?;
            let state = self.connection.process_new_packets().map_err(io::Error::other)?;
            let (start, count) = (self.plain.len(), state.plaintext_bytes_to_read());
            if count != 0 {
                self.plain.resize(start + count, 0);
                self.connection.reader().read_exact(&mut self.plain[start..])?;
            }
            if state.peer_has_closed() {
                self.has_ended = true;
                break;
            }
        }
        Ok(&self.plain)
    }

    /// Takes the plain bytes of the last [`Channel::open`]. When the caller has read them, it returns their room for the next
    /// call with [`Channel::keep`].
    pub fn take_plain(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.plain)
    }

    /// Keeps the room of plain bytes; see [`Channel::take_plain`].
    pub fn keep(&mut self, plain: Vec<u8>) {
        self.plain = plain;
    }

    /// Encrypts replies, and appends the result and the bytes that the channel itself has to send to `sealed`.
    pub fn seal<'a>(&mut self, replies: impl IntoIterator<Item = &'a [u8]>, sealed: &mut Vec<u8>) {
        for piece in replies {
            let written = self.connection.writer().write_all(piece);
            debug_assert!(written.is_ok(), "memory takes what it is given");
        }
        self.take(sealed);
    }

    /// Returns the bytes that announce the end of the connection to the client.
    pub fn farewell(&mut self) -> Vec<u8> {
        let mut sealed = Vec::new();
        self.connection.send_close_notify();
        self.take(&mut sealed);
        sealed
    }

    /// Returns whether the client has closed its side: no more bytes will arrive.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns whether the handshake is not complete yet.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Returns whether the channel itself has bytes to send.
    pub fn has_news(&self) -> bool {
        self.connection.wants_write()
    }

    fn take(&mut self, sealed: &mut Vec<u8>) {
        while self.connection.wants_write() {
            let taken = self.connection.write_tls(sealed);
            debug_assert!(taken.is_ok(), "memory takes what it is given");
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    fn pair() -> (Box<Channel>, ClientConnection) {
        let made = rcgen::generate_simple_self_signed(["sleeve.test".to_owned()]).expect("a certificate");
        let certificate = CertificateDer::from(made.cert.der().to_vec());
        let key = PrivateKeyDer::from_pem_slice(made.key_pair.serialize_pem().as_bytes()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .expect("a pair");
        let tls = Tls::default();
        assert!(tls.channel().is_none(), "nothing is configured");
        tls.set(Arc::new(config));
        let mut roots = RootCertStore::empty();
        roots.add(certificate).expect("a root");
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("sleeve.test").expect("a name");
        let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
        client.set_buffer_limit(None);
        (tls.channel().expect("a certificate"), client)
    }

    fn sent_by(client: &mut ClientConnection) -> Vec<u8> {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).expect("memory");
        }
        bytes
    }

    fn taken_by(client: &mut ClientConnection, mut sealed: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        while !sealed.is_empty() {
            client.read_tls(&mut sealed).expect("memory");
            let state = client.process_new_packets().expect("sound records");
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            client.reader().read_exact(&mut plain[start..]).expect("what is there");
        }
        plain
    }

    #[test]
    fn bytes_arrive_as_they_were_said_however_they_are_cut() {
        for step in [1, 7, 1_000, 100_000] {
            let (mut channel, mut client) = pair();
            let mut heard = Vec::new();
            let said: Vec<u8> = (0..60_000_u32).flat_map(|n| n.to_le_bytes()).collect();
            client.writer().write_all(&said).expect("memory");
            for _ in 0..6 {
                for chunk in sent_by(&mut client).chunks(step) {
                    heard.extend_from_slice(channel.open(chunk).expect("a sound peer"));
                }
                let mut sealed = Vec::new();
                channel.seal([], &mut sealed);
                assert_eq!(taken_by(&mut client, &sealed), b"");
            }
            assert!(heard == said, "at {step}");
            let mut sealed = Vec::new();
            channel.seal([said.as_slice(), b"+OK\r\n"], &mut sealed);
            assert!(taken_by(&mut client, &sealed) == [said.as_slice(), b"+OK\r\n"].concat());
        }
    }

    #[test]
    fn what_is_no_handshake_is_an_error_and_an_alert() {
        let (mut channel, _) = pair();
        channel.open(b"*1\r\n$4\r\nPING\r\n").expect_err("no handshake");
        let mut sealed = Vec::new();
        channel.seal([], &mut sealed);
        assert_eq!(sealed.first(), Some(&21), "an alert record");
    }
}
