//! The template of the process's title: text with variables in braces; `{{` stands for a brace.
//!
//! A template with an unknown variable is refused, and so is a template that could give an empty text. The caller passes the
//! values of the variables. Pure functions; any thread.

/// The values of the variables.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// `title`: the name with which the program was called.
    pub program: Vec<u8>,
    /// `listen-addr`: the address at which the server listens.
    pub address: Vec<u8>,
    /// `server-mode`: `[cluster]` in a node of a cluster, otherwise empty.
    pub mode: Vec<u8>,
    /// `port`.
    pub port: i64,
    /// `tls-port`.
    pub tls_port: i64,
    /// `unixsocket`.
    pub unix_socket: Vec<u8>,
    /// `config-file`: its path, or a hyphen.
    pub file: Vec<u8>,
}

impl Facts {
    /// Returns the value of a variable.
    fn of(&self, variable: &[u8]) -> Option<Vec<u8>> {
        Some(match variable {
            b"title" => self.program.clone(),
            b"listen-addr" => self.address.clone(),
            b"server-mode" => self.mode.clone(),
            b"port" => self.port.to_string().into_bytes(),
            b"tls-port" => self.tls_port.to_string().into_bytes(),
            b"unixsocket" => self.unix_socket.clone(),
            b"config-file" => self.file.clone(),
            _ => return None,
        })
    }
}

/// Checks a template by filling it with the shortest possible values.
///
/// # Errors
/// The reason in Redis's words.
pub fn check(template: &[u8]) -> Result<(), String> {
    let least = Facts { address: b"*".into(), file: b"-".into(), ..Facts::default() };
    match fill(template, &least) {
        Some(title) if !title.is_empty() => Ok(()),
        _ => Err("template format is invalid or contains unknown variables".into()),
    }
}

/// Returns the template with its variables filled in, without spaces around it; `None` if that is not possible.
pub fn fill(template: &[u8], facts: &Facts) -> Option<Vec<u8>> {
    let mut filled = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.iter().position(|&byte| byte == b'{') {
        let (before, after) = rest.split_at(at);
        filled.extend(before);
        let after = after.get(1..)?;
        if let Some(after) = after.strip_prefix(b"{") {
            filled.push(b'{');
            rest = after;
            continue;
        }
        let end = after.iter().position(|&byte| byte == b'}')?;
        let (variable, after) = after.split_at(end);
        filled.extend(facts.of(variable)?);
        rest = after.get(1..)?;
    }
    filled.extend(rest);
    let start = filled.iter().take_while(|byte| **byte == b' ').count();
    let end = filled.len() - filled.iter().rev().take_while(|byte| **byte == b' ').count();
    Some(filled.get(start..end).unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in() {
        let facts = Facts { program: b"sleeve".into(), address: b"*:1".into(), port: 1, ..Facts::default() };
        let filled =
            |template: &str| fill(template.as_bytes(), &facts).map(|title| String::from_utf8(title).expect("text"));
        for (template, title) in [
            ("{title} {listen-addr} {server-mode}", "sleeve *:1"),
            ("x{{y}} {port}", "x{y}} 1"),
            ("}", "}"),
            ("--my--title", "--my--title"),
        ] {
            assert_eq!(filled(template).as_deref(), Some(title));
        }
    }

    #[test]
    fn what_is_no_variable_or_may_be_nothing_is_refused() {
        for template in ["", "   ", "{title}", "{server-mode}", "{bad}", "{title", "{Title} x", "a{}", "x{"] {
            assert!(check(template.as_bytes()).is_err(), "{template}");
        }
        for template in ["{{x", "{port}", "{config-file}", "{title} x"] {
            assert!(check(template.as_bytes()).is_ok(), "{template}");
        }
    }
}
