//! Advice for a login that a server has refused: the part that the URL lacks.
//!
//! A URL without a password, or with a password in the place of the user, is the usual reason. The server cannot know that,
//! and the configuration shows it. The advice repeats no part of the URL, which may be a password. Pure functions; any thread.

use super::{Config, Endpoint, Login};
use crate::error::Error;

/// Returns the error of a connection that was not made, with advice if its login was refused and lacks a part.
pub(crate) fn advised(error: Error, config: &Config) -> Error {
    match advice(error.message(), config) {
        Some(advice) => {
            // The server's text may end its sentence.
            let message = format!("{}; {advice}", error.message().trim_end_matches('.'));
            Error::new(error.kind(), error.effect(), message)
        }
        None => error,
    }
}

fn advice(refusal: &str, config: &Config) -> Option<String> {
    let Login { user, password, provider } = &config.login;
    let has_code = |code: &str| refusal.contains(&format!(": {code} "));
    if provider.is_some() {
        return None;
    }
    if has_code("NOAUTH") && password.is_none() {
        return Some(format!("give the password in the URL: {}", form(config, ":password@")));
    }
    (has_code("WRONGPASS") && user.is_some() && password.as_deref() == Some("")).then(|| {
        let (both, lone) = (form(config, "user:password@"), form(config, ":password@"));
        format!("this is a user without a password: give both in the URL, {both}, or a password alone, {lone}")
    })
}

/// Returns the form of a URL of this kind with a login in it.
fn form(config: &Config, login: &str) -> String {
    let scheme = if config.tls.is_some() { "rediss" } else { "redis" };
    match &config.endpoint {
        Endpoint::Cluster(_) => format!("{scheme}+cluster://{login}host"),
        Endpoint::Sentinel { .. } => {
            format!("{scheme}+sentinel://{login}host/service (?sentinel_password=... is for the Sentinels)")
        }
        Endpoint::Unix(_) => format!("unix://{login}/path"),
        _ => format!("{scheme}://{login}host"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Effect, ErrorKind};

    /// Returns the message for a refusal with this text at this URL.
    fn message(url: &str, text: &str) -> String {
        let config = Config::from_url(url).expect("a URL");
        let error = Error::unsent(ErrorKind::Connect, format!("h:6379: the server refused the connection: {text}"));
        let error = advised(error, &config);
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Connect, Effect::None));
        assert!(!error.message().contains("hunter2"), "{error}");
        error.message().to_owned()
    }

    #[test]
    fn a_missing_password_is_asked_for_in_the_form_of_the_url() {
        let asked = "NOAUTH Authentication required.";
        for (url, form) in [
            ("redis://h", "redis://:password@host"),
            ("unix:///run/a.sock", "unix://:password@/path"),
            ("redis+cluster://h", "redis+cluster://:password@host"),
            ("redis+sentinel://h/shop", "redis+sentinel://:password@host/service (?sentinel_password="),
            #[cfg(feature = "tls")]
            ("rediss://h", "rediss://:password@host"),
        ] {
            let message = message(url, asked);
            assert!(message.contains(&format!("required; give the password in the URL: {form}")), "{message}");
        }
        assert!(message("redis://:hunter2@h", asked).ends_with(asked));
    }

    #[test]
    fn a_lone_user_is_named_as_the_reason() {
        let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
        let message_of_lone = message("redis://hunter2@h", wrong);
        assert!(message_of_lone.contains("; this is a user without a password: give both"), "{message_of_lone}");
        assert!(message_of_lone.ends_with("redis://user:password@host, or a password alone, redis://:password@host"));
        for url in ["redis://:hunter2@h", "redis://ann:hunter2@h"] {
            assert!(message(url, wrong).ends_with(wrong));
        }
        assert!(message("redis://hunter2@h", "ERR max number of clients reached").ends_with("reached"));
    }

    #[test]
    fn a_provider_of_credentials_gets_no_advice_about_urls() {
        let config = Config::from_url("redis://h").expect("a URL");
        let config = config.credentials(|| Ok::<_, std::io::Error>(crate::Credentials::new("")));
        let error = Error::unsent(ErrorKind::Connect, "h:6379: the server refused the connection: NOAUTH sorry");
        assert_eq!(advised(error.clone(), &config), error);
    }
}
