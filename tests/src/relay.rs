//! A way to a server on which a test decides how what the server says comes through.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Listens, and connects whoever comes to a server.
///
/// What clients say passes as it is. What the server says is passed on by the function that the relay was started with: for each
/// connection in turn it gets the server's end and the client's, and both are closed behind it. The relay ends with the server.
#[derive(Debug)]
pub struct Relay {
    port: u16,
}

impl Relay {
    /// A way to the server with this address.
    ///
    /// # Panics
    /// When there is no port for it.
    pub fn start(server: SocketAddr, pass: impl FnMut(&TcpStream, &TcpStream) + Send + 'static) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        thread::spawn(move || _ = run(&listener, server, pass));
        Relay { port }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// An error: the server is gone.
fn run(listener: &TcpListener, server: SocketAddr, mut pass: impl FnMut(&TcpStream, &TcpStream)) -> io::Result<()> {
    loop {
        let (client, _) = listener.accept()?;
        let server = TcpStream::connect(server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        // Either side may go whenever it likes.
        thread::spawn(move || {
            _ = io::copy(&mut from, &mut to);
            _ = to.shutdown(Shutdown::Both);
        });
        pass(&server, &client);
        _ = (server.shutdown(Shutdown::Both), client.shutdown(Shutdown::Both));
    }
}
