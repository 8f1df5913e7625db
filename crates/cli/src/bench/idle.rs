//! `sleeve bench -I`: connections that are opened and stay idle, to see the cost of idle clients to a server.
//!
//! It reports when the server closes some, and ends with Ctrl-C or with the last of them.

use std::io::{self, Read};

use rustix::event::{PollFd, PollFlags, poll};

use crate::endpoint::{Endpoint, Login, Stream, cannot_connect};
use crate::interrupt::Interrupt;
use crate::output;

/// Opens the connections and keeps them until Ctrl-C; fails when the server has closed the last of them.
pub fn run(endpoint: &Endpoint, login: &Login, clients: u32) -> Result<(), String> {
    output::line(format_args!("Creating {clients} idle connections and waiting for Ctrl-C"));
    output::flush();
    let streams: io::Result<Vec<Stream>> = (0..clients).map(|_| login.connect(endpoint)).collect();
    let mut streams = streams.map_err(|error| cannot_connect(endpoint, &error))?;
    let interrupt = Interrupt::watch().map_err(|error| error.to_string())?;
    output::line(format_args!("clients: {}", streams.len()));
    output::flush();
    while wait(&streams, &interrupt).map_err(|error| error.to_string())? {
        let before = streams.len();
        streams.retain(is_open);
        if streams.len() < before {
            output::line(format_args!("clients: {} (the server has closed {})", streams.len(), before - streams.len()));
            output::flush();
        }
        if streams.is_empty() {
            return Err("The server has closed all connections".to_owned());
        }
    }
    output::line(format_args!("clients: {} at the end", streams.len()));
    Ok(())
}

/// Waits for an event on any connection; returns false if Ctrl-C came first.
fn wait(streams: &[Stream], interrupt: &Interrupt) -> io::Result<bool> {
    let mut descriptors: Vec<PollFd> = streams.iter().map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
    descriptors.push(PollFd::new(interrupt, PollFlags::IN));
    match poll(&mut descriptors, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!interrupt.is_heard()),
        Err(error) => Err(error.into()),
    }
}

/// Discards the bytes that the server pushes; returns false if it has closed the connection.
fn is_open(stream: &Stream) -> bool {
    let mut buffer = [0; 4096];
    loop {
        let read = stream.set_nonblocking(true).and_then(|()| (&mut &*stream).read(&mut buffer));
        match read {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}
