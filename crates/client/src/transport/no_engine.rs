//! The twin of `embedded` in a build without that feature: there is no engine, and a program that asks for one is told how to
//! get it.
//!
//! A URL is read while the program runs, so `embedded://` fails with an error. `Client::embedded()` returns no error, so a
//! call of it does not compile: its bound holds for no type, and the compiler shows the advice. Any thread.

use std::convert::Infallible;

/// The advice in the error for `embedded://`.
pub(super) const NO_ENGINE: &str = concat!(
    "this build has no engine in it, because its feature \"embedded\" is off; in Cargo.toml: sleeve = { version = \"",
    env!("CARGO_PKG_VERSION"),
    "\", features = [\"embedded\"] }",
);

/// A build that has the engine in it. No type is one, because this build has none.
#[diagnostic::on_unimplemented(
    message = "this build of `sleeve` has no engine in it, because its feature `embedded` is off",
    label = "needs the feature `embedded`",
    note = "in Cargo.toml: sleeve = {{ version = \"…\", features = [\"embedded\"] }}"
)]
pub trait EngineBuild {
    /// Returns the engine: it cannot be called.
    fn engine() -> &'static Infallible;
}
