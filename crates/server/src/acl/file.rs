//! Users as a text: the ACL file, with a line for each user, as `user name rule rule ...`.
//!
//! A file is applied as a whole or not at all: all of its faults are gathered first and reported at once, in Redis's words. A
//! new file is written beside the old one, fsynced and renamed over it, so that a crash leaves the old file or the new one.
//! The text is untrusted: nothing in it can cause a panic. Any thread.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use sleeve_disk::own;

use super::rule::{Defaults, RuleError, merge_selectors};
use super::selector::has_space;
use super::user::User;

/// The reason why a file of users cannot be used; shown as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError(String);

impl std::error::Error for FileError {}

impl fmt::Display for FileError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Reads the text of a file, which is called `shown` in messages about it.
pub(super) fn read(path: &Path, shown: &str) -> Result<Vec<u8>, FileError> {
    own::read(path).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.split(" (os error").next().unwrap_or_default();
        FileError(format!("Error loading ACLs, opening file '{shown}': {reason}"))
    })
}

/// Reads the users of a text; they are numbered from `first_id` on.
pub(super) fn parse(text: &[u8], shown: &str, first_id: u64, defaults: Defaults) -> Result<Vec<User>, FileError> {
    let (mut users, mut errors, mut names) = (Vec::new(), String::new(), HashSet::new());
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let place = format!("{shown}:{}", index + 1);
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let [b"user", name, words @ ..] = words.as_slice() else {
            errors += &format!("{place} should start with user keyword followed by the username. ");
            continue;
        };
        let shown_name = String::from_utf8_lossy(name);
        if has_space(name) {
            errors += &format!("'{place}: username '{shown_name}' contains invalid characters. ");
            continue;
        }
        if !names.insert(name.to_vec()) {
            errors += &format!("WARNING: Duplicate user '{shown_name}' found on line {}. ", index + 1);
            continue;
        }
        let mut user = User::new(first_id + users.len() as u64, name, defaults);
        apply(&mut user, words, &place, defaults, &mut errors);
        users.push(user);
    }
    if errors.is_empty() {
        return Ok(users);
    }
    errors += "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
    Err(FileError(errors))
}

fn apply(user: &mut User, words: &[&[u8]], place: &str, defaults: Defaults, errors: &mut String) {
    let Ok(rules) = merge_selectors(words) else {
        *errors += &format!("{place}: Unmatched parenthesis in selector definition.");
        return;
    };
    let mut is_broken = false;
    for rule in &rules {
        match user.apply(rule.trim_ascii(), defaults) {
            Ok(()) => {}
            Err(error @ RuleError::Unknown) => {
                let rule = String::from_utf8_lossy(rule);
                *errors += &format!("{place}: Error in applying operation '{rule}': {error}. ");
            }
            // After an invalid rule it is not known how to read the next ones; and one of them may be a password, which must
            // not be reported.
            Err(error) if !is_broken => {
                is_broken = true;
                *errors += &format!("{place}: {error}. ");
            }
            Err(_) => {}
        }
    }
}

/// Returns users as the lines of a file.
pub fn text_of(users: &[Arc<User>]) -> Vec<u8> {
    users.iter().flat_map(|user| [user.describe().as_slice(), b"\n"].concat()).collect()
}

/// Writes users into a file that replaces the old one at once and has its permissions.
///
/// # Errors
/// The errors of the disk; the old file is untouched.
pub fn save(users: &[Arc<User>], path: &Path) -> io::Result<()> {
    own::replace(path, &text_of(users), 0o644)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let users = parse(text.as_bytes(), "users.acl", 7, Defaults::default()).map_err(|error| error.to_string())?;
        Ok(users.iter().map(|user| String::from_utf8_lossy(&user.describe()).into_owned()).collect())
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = "user alice on nopass sanitize-payload ~* resetchannels -@all +get (~x &* -@all +set)\nuser bob off sanitize-payload resetchannels -@all\n";
        let users = parse(text.as_bytes(), "users.acl", 7, Defaults::default()).expect("users");
        let users: Vec<_> = users.into_iter().map(Arc::new).collect();
        assert_eq!(String::from_utf8_lossy(&text_of(&users)), text);
        assert_eq!(users[1].id, 8);
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let text = "\r\nuser a +foo +bar ~x\nuser a on\nsomeone b\nuser c &x\tz <x #1\nuser d (+get";
        let errors = read(text).expect_err("errors");
        let expected = [
            "users.acl:2: Error in applying operation '+foo': Unknown command or category name in ACL. ",
            "users.acl:2: Error in applying operation '+bar': Unknown command or category name in ACL. ",
            "WARNING: Duplicate user 'a' found on line 3. ",
            "users.acl:4 should start with user keyword followed by the username. ",
            "users.acl:5: Syntax error. ",
            "users.acl:6: Unmatched parenthesis in selector definition.",
            "WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
        ];
        assert_eq!(errors, expected.concat());
    }
}
