//! The twins of `tls` and `tls_session` in a build without the feature `tls`: there are none, and a URL that asks for one
//! gets an error with the reason.
//!
//! Types without values, so that code that holds one of them need not know which build this is. Any thread.

use std::convert::Infallible;
use std::io;
use std::os::fd::AsFd;

use rustix::event::PollFlags;

use crate::error::{Error, ErrorKind};

/// The TLS settings of this build: none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tls {}

impl Tls {
    /// Returns the error for `rediss://`: this build has no TLS.
    pub(crate) fn for_url() -> Result<Self, Error> {
        let line = concat!("sleeve = { version = \"", env!("CARGO_PKG_VERSION"), "\", features = [\"tls\"] }");
        let message = format!("this build speaks no TLS, because its feature \"tls\" is off; in Cargo.toml: {line}");
        Err(Error::unsent(ErrorKind::Configuration, message))
    }

    /// Takes an option of a URL about TLS. Returns whether the option is about it.
    pub(crate) fn take_option(&mut self, _name: &str, _value: &str) -> Result<bool, Error> {
        match *self {}
    }
}

/// An agreement on keys: none.
pub(crate) struct Handshake(Infallible);

impl Handshake {
    /// Returns no handshake, because there are no keys to agree on: it cannot be called.
    pub(crate) fn new(tls: &Tls, _files: Infallible, _host: &str) -> io::Result<Self> {
        match *tls {}
    }

    /// Proceeds with no handshake: it cannot be called.
    pub(crate) fn proceed(&mut self, _stream: impl AsFd) -> io::Result<Option<PollFlags>> {
        match self.0 {}
    }

    /// Returns no session, because there are no keys to encrypt with: it cannot be called.
    pub(crate) fn finish(self, _stream: impl AsFd) -> io::Result<TlsSession> {
        match self.0 {}
    }
}

/// A stream's encryption: none.
#[derive(Debug)]
pub(crate) struct TlsSession(Infallible);

impl TlsSession {
    /// Sends bytes: it cannot be called.
    pub(crate) fn send(&self, _stream: impl AsFd, _bytes: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }

    /// Sends the bytes that wait for room: it cannot be called.
    pub(crate) fn flush(&self, _stream: impl AsFd) -> io::Result<()> {
        match self.0 {}
    }

    /// Receives bytes: it cannot be called.
    pub(crate) fn receive(&self, _stream: impl AsFd, _room: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }

    /// Returns whether bytes wait for room: it cannot be called.
    pub(crate) fn has_residue(&self) -> bool {
        match self.0 {}
    }

    /// Returns whether bytes were decrypted and not yet received: it cannot be called.
    pub(crate) fn has_plain(&self) -> bool {
        match self.0 {}
    }
}
