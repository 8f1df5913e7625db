//! The users of an engine.
//!
//! The sessions that are logged in as a user share it, and it is never changed in place: a change puts a new user under the
//! name and raises the epoch. For each request a session compares the epoch that it knows by one load, and takes the lock
//! only if the epochs differ. Changes are made one after the other. Any thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

use super::file;
use super::file::FileError;
use super::log::Log;
use super::rule::{Defaults, RuleError, merge_selectors};
use super::user::User;
use crate::request::error::Error;

pub use super::selector::has_space;

/// The users of one engine, and the log of their refusals.
#[derive(Debug)]
pub struct Acl {
    users: RwLock<Users>,
    epoch: AtomicU64,
    /// A new client has to send a password before anything else.
    asks_password: AtomicBool,
    /// The log of refusals.
    pub log: Log,
}

#[derive(Debug)]
struct Users {
    by_name: BTreeMap<Box<[u8]>, Arc<User>>,
    next_id: u64,
}

/// The names of the users that a change affected and as which clients may be logged in.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The removed users.
    pub removed: Vec<Box<[u8]>>,
}

impl Default for Acl {
    fn default() -> Self {
        let everybody = Arc::new(User::everybody(0));
        let by_name = BTreeMap::from([(everybody.name.clone(), everybody)]);
        Self {
            users: RwLock::new(Users { by_name, next_id: 1 }),
            epoch: AtomicU64::new(1),
            asks_password: AtomicBool::new(false),
            log: Log::default(),
        }
    }
}

/// Reading.
impl Acl {
    /// Returns the epoch, which every change raises; never 0.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns whether a new client has to send a password before anything else.
    #[inline]
    pub fn asks_password(&self) -> bool {
        self.asks_password.load(Ordering::Relaxed)
    }

    /// Returns the user of this name.
    pub fn get(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.read().by_name.get(name).cloned()
    }

    /// Returns the user of all clients that have not authenticated.
    pub fn default_user(&self) -> Arc<User> {
        self.get(b"default").unwrap_or_else(|| Arc::new(User::new(0, b"default", Defaults::default())))
    }

    /// Returns the users in the order of their names.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.users.read().by_name.values().cloned().collect()
    }

    /// Returns the user with this name and password, if clients may log in as it.
    pub fn admit(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        self.get(name).filter(|user| user.admits(password))
    }
}

/// Changing.
impl Acl {
    /// Makes a user, or changes it: applies all rules or none.
    ///
    /// # Errors
    /// The wrong rule, and the reason in Redis's words.
    pub fn set_user(&self, name: &[u8], words: &[&[u8]], defaults: Defaults) -> Result<(), Error> {
        let rules = merge_selectors(words).map_err(|at| {
            let word = words.get(at).copied().unwrap_or_default();
            Error::naming("ERR Unmatched parenthesis in acl selector starting at '{}'.", &[word])
        })?;
        let mut users = self.users.write();
        let mut user = match users.by_name.get(name) {
            Some(user) => User::clone(user),
            None => User::new(users.take_id(), name, defaults),
        };
        for rule in &rules {
            user.apply(rule, defaults).map_err(|error| {
                let pattern = "ERR Error in ACL SETUSER modifier '{}': {}";
                Error::naming(pattern, &[rule, error.to_string().as_bytes()])
            })?;
        }
        users.by_name.insert(name.into(), Arc::new(user));
        self.publish(&users);
        Ok(())
    }

    /// Applies `requirepass`: the only password of the default user, or none if it is empty.
    pub fn set_default_password(&self, password: &[u8]) {
        let mut users = self.users.write();
        let mut user = match users.by_name.get(b"default".as_slice()) {
            Some(user) => User::clone(user),
            None => User::everybody(users.take_id()),
        };
        let rules = match password {
            [] => vec![b"nopass".to_vec()],
            _ => vec![b"resetpass".to_vec(), [b">", password].concat()],
        };
        for rule in rules {
            let applied: Result<(), RuleError> = user.apply(&rule, Defaults::default());
            debug_assert!(applied.is_ok(), "a password is never wrong as such");
        }
        users.by_name.insert(user.name.clone(), Arc::new(user));
        self.publish(&users);
    }

    /// Removes users; returns the names of those that existed.
    pub fn remove(&self, names: &[&[u8]]) -> Changed {
        let mut users = self.users.write();
        let removed: Vec<_> = names.iter().filter_map(|&name| users.by_name.remove(name)).collect();
        self.publish(&users);
        Changed { removed: removed.iter().map(|user| user.name.clone()).collect() }
    }

    /// Adds the users of the configuration from checked lines: the words behind `user`. The default user begins anew if it is
    /// named.
    ///
    /// # Errors
    /// The line that is wrong, and the reason.
    pub fn add_configured(&self, lines: &[Vec<Vec<u8>>], defaults: Defaults) -> Result<(), String> {
        for line in lines {
            let words: Vec<&[u8]> = line.iter().map(Vec::as_slice).collect();
            let Some((&name, rules)) = words.split_first() else { continue };
            let rules =
                if name == b"default" { [[b"reset".as_slice()].as_slice(), rules].concat() } else { rules.into() };
            self.set_user(name, &rules, defaults).map_err(|error| {
                let text = String::from_utf8_lossy(error.text());
                text.strip_prefix("ERR ").unwrap_or(&text).to_owned()
            })?;
        }
        Ok(())
    }

    /// Replaces all users by those of a file, or none if the file has faults. Returns all previous users except the default
    /// one as affected: a client that is logged in as one of them has to authenticate again, even if the file has a user of
    /// that name.
    ///
    /// # Errors
    /// All faults of the file, in Redis's words.
    pub fn load(&self, path: &std::path::Path, shown: &str, defaults: Defaults) -> Result<Changed, FileError> {
        let text = file::read(path, shown)?;
        let mut users = self.users.write();
        let mut loaded = file::parse(&text, shown, users.next_id, defaults)?;
        users.next_id += loaded.len() as u64;
        if !loaded.iter().any(|user| &*user.name == b"default") {
            loaded.push(User::everybody(0));
        }
        let mut old = std::mem::take(&mut users.by_name);
        let default = old.remove(b"default".as_slice());
        for mut user in loaded {
            if let Some(default) = default.as_ref().filter(|default| default.name == user.name) {
                user.id = default.id;
            }
            users.by_name.insert(user.name.clone(), Arc::new(user));
        }
        self.publish(&users);
        Ok(Changed { removed: old.into_keys().collect() })
    }

    /// Publishes a change of the users: updates `asks_password`, and raises the epoch, so that all sessions look their users
    /// up again.
    fn publish(&self, users: &Users) {
        let asks = users.by_name.get(b"default".as_slice()).is_none_or(|user| !user.no_password || !user.enabled);
        self.asks_password.store(asks, Ordering::Relaxed);
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

/// Checks that the words behind `user` in a configuration describe a user, and that no earlier line describes the same one.
///
/// # Errors
/// The reason in Redis's words.
pub fn check_line(words: &[Vec<u8>], earlier: &[Vec<Vec<u8>>], defaults: Defaults) -> Result<(), String> {
    let Some((name, rules)) = words.split_first() else { return Ok(()) };
    let wrong = |word: &[u8], reason: &str| {
        Err(format!("Error in user declaration '{}': {reason}", String::from_utf8_lossy(word)))
    };
    if has_space(name) {
        return wrong(name, "Spaces not allowed in ACL usernames");
    }
    if earlier.iter().any(|line| line.first() == Some(name)) {
        return wrong(name, "Duplicate user found. A user can only be defined once in config files");
    }
    let rules: Vec<&[u8]> = rules.iter().map(Vec::as_slice).collect();
    let rules = match merge_selectors(&rules) {
        Ok(rules) => rules,
        Err(at) => return wrong(rules.get(at).copied().unwrap_or_default(), "Unmatched parenthesis"),
    };
    let mut user = User::new(0, name, defaults);
    for rule in &rules {
        if let Err(error) = user.apply(rule, defaults) {
            return wrong(rule, &error.to_string());
        }
    }
    Ok(())
}

impl Users {
    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }
}
