//! A relay to a server through which a test decides how bytes pass.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A relay that listens, and connects each client to a server.
///
/// The clients' bytes pass as they are. The server's bytes are passed on by the function that the relay was started with: for
/// each connection, on a thread of its own, it gets the server's end and the client's, and both are closed behind it. Once
/// the server is gone the relay ends with the next connection.
#[derive(Debug)]
pub struct Relay {
    port: u16,
}

impl Relay {
    /// Starts a relay to the server with this address.
    ///
    /// # Panics
    /// If there is no port for it.
    pub fn start(server: SocketAddr, pass: impl Fn(&TcpStream, &TcpStream) + Send + Sync + 'static) -> Relay {
        let there = |mut from: &TcpStream, mut to: &TcpStream| _ = io::copy(&mut from, &mut to);
        Relay::start_both(server, there, pass)
    }

    /// Starts a relay in which another function passes on the clients' bytes: it gets the client's end and the server's.
    ///
    /// # Panics
    /// When there is no port for it.
    pub fn start_both(
        server: SocketAddr,
        there: impl Fn(&TcpStream, &TcpStream) + Send + Sync + 'static,
        back: impl Fn(&TcpStream, &TcpStream) + Send + Sync + 'static,
    ) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        thread::spawn(move || _ = run(&listener, server, &Arc::new(there), &Arc::new(back)));
        Relay { port }
    }

    /// Returns the relay's port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// The size of the buffer for bytes of the server that wait in the relay.
const RECEIVE_BUFFER: usize = 256 * 1024;

/// Accepts connections for ever; returns an error only, when the server is gone.
fn run<T, B>(listener: &TcpListener, server: SocketAddr, there: &Arc<T>, back: &Arc<B>) -> io::Result<()>
where
    T: Fn(&TcpStream, &TcpStream) + Send + Sync + 'static,
    B: Fn(&TcpStream, &TcpStream) + Send + Sync + 'static,
{
    loop {
        let (client, _) = listener.accept()?;
        let server = TcpStream::connect(server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        // Bytes that are held back stay with the server: a kernel may otherwise buffer 32 MiB of them.
        rustix::net::sockopt::set_socket_recv_buffer_size(&server, RECEIVE_BUFFER)?;
        let (from, to) = (client.try_clone()?, server.try_clone()?);
        let (there, back) = (Arc::clone(there), Arc::clone(back));
        // Either side may close its connection at any time.
        thread::spawn(move || {
            there(&from, &to);
            _ = to.shutdown(Shutdown::Both);
        });
        thread::spawn(move || {
            back(&server, &client);
            _ = (server.shutdown(Shutdown::Both), client.shutdown(Shutdown::Both));
        });
    }
}
