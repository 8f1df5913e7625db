//! A relay in front of a server that lets through only so many bytes of the server's output.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use sleeve_tests::Relay;

/// The number of bytes that may still pass, and the number that have passed.
#[derive(Default)]
struct Allowance {
    left: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    left: u64,
    passed: u64,
    is_over: bool,
}

impl Allowance {
    /// Takes up to `wanted` bytes, at least one; 0 at the end.
    fn take(&self, wanted: usize) -> usize {
        let counts = self.left.lock().expect("nobody panics with it");
        let mut counts = self.changed.wait_while(counts, |counts| counts.left == 0 && !counts.is_over).expect("so");
        let taken = if counts.is_over { 0 } else { counts.left.min(wanted as u64) };
        counts.left -= taken;
        counts.passed += taken;
        taken as usize
    }

    fn set(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.left.lock().expect("nobody panics with it"));
        self.changed.notify_all();
    }
}

/// A relay that lets through a limited number of the server's bytes.
pub struct Rationed {
    relay: Relay,
    allowance: Arc<Allowance>,
}

impl Rationed {
    /// Starts a relay before the server at this address, which lets so many bytes of the server's output pass.
    pub fn before(server: SocketAddr, bytes: u64) -> Self {
        let allowance = Arc::new(Allowance::default());
        allowance.set(|counts| counts.left = bytes);
        let counts = Arc::clone(&allowance);
        Self { relay: Relay::start(server, move |from, to| pass(from, to, &counts)), allowance }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.relay.port())
    }

    /// Allows so many bytes from now on.
    pub fn allow(&self, bytes: u64) {
        self.allowance.set(|counts| counts.left = bytes);
    }

    /// Returns the number of bytes that have passed.
    pub fn passed(&self) -> u64 {
        self.allowance.left.lock().expect("nobody panics with it").passed
    }
}

impl Drop for Rationed {
    fn drop(&mut self) {
        self.allowance.set(|counts| counts.is_over = true);
    }
}

/// Copies the allowed bytes until either end closes.
fn pass(mut from: &TcpStream, mut to: &TcpStream, allowance: &Allowance) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            let taken = allowance.take(rest.len());
            if taken == 0 || to.write_all(&rest[..taken]).is_err() {
                return;
            }
            rest = &rest[taken..];
        }
    }
}
