//! The command line of `sleeve migrate`.

use std::time::Duration;

use crate::endpoint::address::TlsOptions;

const EXAMPLES: &str = "\
FROM and TO are URLs: redis://[[user:]password@]host[:port], or rediss:// for TLS. TO must be able to reach FROM by what FROM's
URL says, and log in with its user and password; --from-address gives another way. FROM must be able to reach TO likewise.
Passwords may stand in SLEEVE_FROM_AUTH and SLEEVE_TO_AUTH instead.

Whatever goes wrong before TO is the primary, Ctrl-C too, FROM stays the primary, and the last lines say what TO is then.

Exit codes: 0 TO is the primary, or --dry-run found nothing against it; 1 FROM still is; 2 it could not be found out which of
them is; 130 Ctrl-C, and FROM still is.

Examples:
  sleeve migrate redis://10.0.0.1:6379 redis://10.0.0.2:6379 --dry-run
  sleeve migrate redis://10.0.0.1:6379 redis://10.0.0.2:6379
  sleeve migrate redis://10.0.0.2:6379 redis://10.0.0.1:6379            # and back
  sleeve migrate redis://admin:secret@old redis://:other@new --replace --pause 300
  sleeve migrate redis://127.0.0.1:6379 redis://10.0.0.2 --from-address 10.0.0.1:6379
";

/// Moves a server's data and its role to another, between Redis, Valkey and Sleeve, while clients go on
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub struct MigrateOptions {
    /// The primary that is to be replaced
    #[arg(value_name = "FROM")]
    pub from: String,
    /// The server that is to be the primary
    #[arg(value_name = "TO")]
    pub to: String,
    /// Print the steps, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Replace the data that TO has, or the primary that it follows
    #[arg(long)]
    pub replace: bool,
    /// Go on although FROM could not load a dump of TO, so that there may be no way back
    #[arg(long)]
    pub one_way: bool,
    /// The longest time for which writers are held at once, in milliseconds
    #[arg(long, value_name = "ms", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(20..=60_000))]
    pub pause: u64,
    /// How often to try to hand over within that time
    #[arg(long, value_name = "n", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: u32,
    /// How long to wait for a server that does not answer, a lost connection, and a link that does not come about, in seconds
    #[arg(long, value_name = "s", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub patience: u64,
    /// Leave the clients of FROM connected, which are closed otherwise so that they look for the new primary
    #[arg(long)]
    pub keep_clients: bool,
    /// Where TO reaches FROM, if not by FROM's URL
    #[arg(long, value_name = "host:port", value_parser = host_and_port)]
    pub from_address: Option<(String, u16)>,
    /// The certificates to trust and to show.
    #[command(flatten)]
    pub tls_options: TlsOptions,
}

impl MigrateOptions {
    /// Returns the longest time for which writers are held at once.
    pub fn pause(&self) -> Duration {
        Duration::from_millis(self.pause)
    }
}

/// Reads a host, which may be an IPv6 address in brackets, and a port.
fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    match parts {
        Some((host, port)) if !host.is_empty() => Ok((host.trim_matches(['[', ']']).to_owned(), port)),
        _ => Err("a host, a colon and a port are wanted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        assert_eq!(host_and_port("old:7000"), Ok(("old".to_owned(), 7000)));
        assert_eq!(host_and_port("[::1]:7000"), Ok(("::1".to_owned(), 7000)));
        for bad in ["old", ":7000", "old:", "old:70000"] {
            assert!(host_and_port(bad).is_err(), "{bad}");
        }
    }
}
