//! The programs of Redis and Valkey that this binary takes the place of.
//!
//! Called by the name of one of them, through a link or a copy, it behaves as that program does, so that images, scripts and
//! packages find what they expect.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use sleeve_server::REDIS_VERSION;

use crate::{check, output, serve};

/// A program of Redis or Valkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `redis-server`.
    Server,
    /// `redis-sentinel`.
    Sentinel,
    /// `redis-cli`.
    Cli,
    /// `redis-benchmark`.
    Benchmark,
    /// `redis-check-rdb`.
    CheckRdb,
    /// `redis-check-aof`.
    CheckAof,
}

impl Program {
    /// Returns the program whose name this process was called by; `None` for `sleeve` and any other name.
    pub fn called(path: Option<&OsStr>) -> Option<Self> {
        let name = Path::new(path?).file_name()?.to_str()?;
        let name = name.strip_prefix("redis-").or_else(|| name.strip_prefix("valkey-"))?;
        Some(match name {
            "server" => Self::Server,
            "sentinel" => Self::Sentinel,
            "cli" => Self::Cli,
            "benchmark" => Self::Benchmark,
            "check-rdb" => Self::CheckRdb,
            "check-aof" => Self::CheckAof,
            _ => return None,
        })
    }

    /// Runs the program with the words behind its name, or returns the words by which `sleeve` is asked for the same.
    pub fn run(self, words: Vec<OsString>) -> Result<ExitCode, Vec<OsString>> {
        match self {
            Self::Server => Ok(serve::run_words(words)),
            Self::Sentinel => Ok(serve::refuse_sentinel()),
            Self::CheckRdb => Ok(check::run_rdb_words(&words)),
            Self::CheckAof => Ok(check::run_aof_words(&words)),
            Self::Cli => as_sub_command("cli", "redis-cli", words),
            Self::Benchmark => as_sub_command("bench", "redis-benchmark", words),
        }
    }
}

/// Prints the version if it was asked for, in the form that scripts take apart: the program's name, then the version of Redis.
fn as_sub_command(name: &str, program: &str, words: Vec<OsString>) -> Result<ExitCode, Vec<OsString>> {
    if let [word] = words.as_slice()
        && (word == "-v" || word == "--version")
    {
        output::line(format_args!("{program} {REDIS_VERSION} (sleeve {})", env!("CARGO_PKG_VERSION")));
        return Ok(ExitCode::SUCCESS);
    }
    Err(["sleeve".into(), name.into()].into_iter().chain(words).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_the_file_counts() {
        let called = |path: &str| Program::called(Some(OsStr::new(path)));
        assert_eq!(called("/usr/bin/redis-server"), Some(Program::Server));
        assert_eq!(called("valkey-cli"), Some(Program::Cli));
        assert_eq!(called("./redis-check-aof"), Some(Program::CheckAof));
        assert_eq!(called("/usr/bin/valkey-sentinel"), Some(Program::Sentinel));
        for other in ["/redis-server/sleeve", "sleeve", "redis-servers", "server", ""] {
            assert_eq!(called(other), None, "{other}");
        }
        assert_eq!(Program::called(None), None);
    }
}
