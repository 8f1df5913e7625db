//! Credentials that are not known when a client is made: a provider is asked at each greeting.
//!
//! Its answer may change from one time to the next: a secret that is rotated, a token that lasts for an hour. The provider is
//! the application's code, and may block: it runs on a thread of its own (`connect/login`). Plain data; any thread.

use std::error::Error;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::sys::callback::Foreign;

/// The user and password to log in with, as a provider returns them; see [`Config::credentials`](crate::Config::credentials).
///
/// ```
/// use std::time::Duration;
/// use sleeve::Credentials;
///
/// let token = Credentials::new("a token that lasts for an hour").user("shop").refresh_after(Duration::from_secs(50 * 60));
/// assert!(!format!("{token:?}").contains("hour"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
    pub(crate) refresh_after: Option<Duration>,
}

impl Credentials {
    /// Creates credentials of the server's default user, with this password.
    pub fn new(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into(), refresh_after: None }
    }

    /// Sets the user, in place of the default one.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the time after which the provider is asked again. The new credentials are sent to the server on the same
    /// connection, which stays in use during that. Without this a connection logs in once.
    pub fn refresh_after(mut self, time: Duration) -> Self {
        self.refresh_after = Some(time);
        self
    }

    /// Returns the words of AUTH.
    pub(crate) fn auth(&self) -> Vec<&str> {
        ["AUTH"].into_iter().chain(self.user.as_deref()).chain([self.password.as_str()]).collect()
    }
}

impl fmt::Debug for Credentials {
    /// Writes everything but the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Credentials");
        shown.field("user", &self.user).field("refresh_after", &self.refresh_after).finish_non_exhaustive()
    }
}

/// The function of a provider.
type Provide = dyn Fn() -> Result<Credentials, Box<dyn Error + Send + Sync>> + Send + Sync;

/// The provider that is asked for credentials. Two providers are equal only if they are the same one.
#[derive(Clone)]
pub(crate) struct Provider(Arc<Foreign<Box<Provide>>>);

impl Provider {
    pub(crate) fn new<E: Into<Box<dyn Error + Send + Sync>>>(
        provide: impl Fn() -> Result<Credentials, E> + Send + Sync + 'static,
    ) -> Self {
        // The values that it has captured are the application's code as well, and a connection's task may be the last to have
        // it.
        Self(Arc::new(Foreign::new(Box::new(move || provide().map_err(Into::into)))))
    }

    /// Asks the provider, which may block.
    pub(crate) fn ask(&self) -> Result<Credentials, String> {
        let Some(provide) = self.0.get() else { return Err("the provider is gone".to_owned()) };
        provide().map_err(|error| error.to_string())
    }
}

impl PartialEq for Provider {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Provider {}

impl Hash for Provider {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}
