//! The source of the pages: commands to the engine, as the user that the browser names.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sleeve_server::{Engine, Local, Opt};
use sleeve_wire::frame::{Frame, decode};

use crate::endpoint::encode;

/// The reason why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request needs credentials, or other ones.
    Unknown,
    /// The user may not do this; the text is the engine's.
    Forbidden(String),
    /// Requests are not answered at the moment: a script is running, clients are paused, or the server ends.
    Later(String),
}

/// The user of a request without a name.
const DEFAULT_USER: &str = "default";

/// A session with the engine.
#[derive(Debug)]
pub struct Asking {
    local: Local,
    user: String,
}

impl Asking {
    /// Begins a session for a client at this address, with the user of its `Authorization` header, if it sent one (RFC 7617).
    ///
    /// # Errors
    /// For a client that the server itself would not serve.
    pub fn begin(engine: &Arc<Engine>, from: IpAddr, authorization: Option<&[u8]>) -> Result<Self, Refusal> {
        let is_open = engine.acl.default_user().no_password;
        if is_open && !from.is_loopback() && engine.config.flag(Opt::ProtectedMode) {
            let text = "protected mode: without a password only this machine is served; set one with 'requirepass', or say \
                        'protected-mode no'";
            return Err(Refusal::Forbidden(text.to_owned()));
        }
        let mut asking = Self { local: Local::open_unobserved(engine), user: DEFAULT_USER.to_owned() };
        if let Some(authorization) = authorization {
            let (user, password) = credentials(authorization).ok_or(Refusal::Unknown)?;
            let user = if user.is_empty() { DEFAULT_USER.to_owned() } else { user };
            // Without a password every client is the default user, and AUTH would be refused.
            if !(is_open && user == DEFAULT_USER) {
                asking.ask(&["AUTH", &user, &password])?;
                asking.user = user;
            }
        }
        Ok(asking)
    }

    /// Returns the name of the user of this session.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Begins a session of the program itself, which may ask anything: for the program's own tasks, without a client's
    /// request.
    pub fn ourselves(engine: &Arc<Engine>) -> Self {
        let mut local = Local::open_unobserved(engine);
        local.trust();
        Self { local, user: DEFAULT_USER.to_owned() }
    }

    /// Returns the reply to a command, as bytes of RESP2.
    ///
    /// # Errors
    /// The engine's refusal.
    pub fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Vec<u8>, Refusal> {
        let (mut request, mut reply) = (Vec::new(), Vec::new());
        encode(words, &mut request);
        let closed = self.local.exchange(&request, &mut reply).is_err();
        match decode(&reply) {
            Ok((Frame::Error(text), _)) => {
                let text = String::from_utf8_lossy(text).into_owned();
                Err(match text.split(' ').next() {
                    Some("NOAUTH" | "WRONGPASS") => Refusal::Unknown,
                    Some("NOPERM") => Refusal::Forbidden(text),
                    _ => Refusal::Later(text),
                })
            }
            Ok(_) => Ok(reply),
            Err(_) if closed => Err(Refusal::Later("the server is ending".to_owned())),
            Err(_) => Err(Refusal::Later("clients are paused (CLIENT PAUSE)".to_owned())),
        }
    }

    /// Returns the text with which a command is answered.
    ///
    /// # Errors
    /// The errors of [`Asking::ask`].
    pub fn text(&mut self, words: &[&str]) -> Result<String, Refusal> {
        let reply = self.ask(words)?;
        Ok(match decode(&reply) {
            Ok((Frame::Bulk(text) | Frame::Simple(text), _)) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        })
    }

    /// Returns INFO with all sections, and behind it CLUSTER INFO if the server is a node of a cluster and the user may ask for
    /// that.
    ///
    /// # Errors
    /// The refusal of INFO.
    pub fn info(&mut self) -> Result<String, Refusal> {
        let mut info = self.text(&["INFO", "everything"])?;
        if info.contains("\ncluster_enabled:1") {
            info += &self.text(&["CLUSTER", "INFO"]).unwrap_or_default();
        }
        Ok(info)
    }
}

/// Returns the user and the password of an `Authorization` header.
fn credentials(authorization: &[u8]) -> Option<(String, String)> {
    let (scheme, encoded) = std::str::from_utf8(authorization).ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (user, password) = decoded.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_a_name_and_a_password_that_may_hold_a_colon() {
        let read = |text: &str| credentials(format!("Basic {}", BASE64_STANDARD.encode(text)).as_bytes());
        assert_eq!(read("a:b:c"), Some(("a".into(), "b:c".into())));
        assert_eq!(read(":b"), Some((String::new(), "b".into())));
        assert_eq!(read("a"), None);
        for wrong in ["Bearer x", "Basic", "Basic !", "basic  "] {
            assert_eq!(credentials(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(credentials(b"\xff\xff"), None);
    }

    #[test]
    fn a_user_without_permission_at_the_server_has_none_here() {
        let engine = Engine::new(sleeve_server::Config::default());
        let (near, far) = ([127, 0, 0, 1].into(), IpAddr::from([192, 0, 2, 1]));
        let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text)).into_bytes();
        assert!(Asking::begin(&engine, near, None).unwrap().text(&["INFO", "server"]).unwrap().contains("uptime"));
        assert!(
            matches!(Asking::begin(&engine, far, None).unwrap_err(), Refusal::Forbidden(text) if text.contains("protected"))
        );
        let mut own = Asking::begin(&engine, near, None).unwrap();
        own.ask(&["ACL", "SETUSER", "default", ">secret"]).unwrap();
        own.ask(&["ACL", "SETUSER", "seer", "on", ">eye", "+info"]).unwrap();
        own.ask(&["ACL", "SETUSER", "blind", "on", ">no", "+get"]).unwrap();
        assert_eq!(Asking::begin(&engine, far, None).unwrap().ask(&["INFO"]).unwrap_err(), Refusal::Unknown);
        assert_eq!(Asking::begin(&engine, far, Some(&basic("default:wrong"))).unwrap_err(), Refusal::Unknown);
        for right in ["default:secret", ":secret", "seer:eye"] {
            assert!(Asking::begin(&engine, far, Some(&basic(right))).unwrap().ask(&["INFO"]).is_ok(), "{right}");
        }
        let refused = Asking::begin(&engine, far, Some(&basic("blind:no"))).unwrap().ask(&["INFO"]).unwrap_err();
        assert!(matches!(refused, Refusal::Forbidden(text) if text.starts_with("NOPERM")));
        own.ask(&["CLIENT", "PAUSE", "100000", "ALL"]).unwrap();
        let refused = Asking::begin(&engine, far, Some(&basic("seer:eye"))).unwrap_err();
        assert!(matches!(refused, Refusal::Later(text) if text.contains("paused")));
    }
}
