//! `deny`: licences, sources and duplicates of the libraries, by the rules of `deny.toml`.
//!
//! cargo-deny checks them. The list of known vulnerabilities is left out, because it comes from a repository that not every
//! machine reaches; `cargo deny check advisories` reads it where it is reached.

use std::process::Command;

use sleeve_tests::server::workspace_root;

use super::sbom::tool;
use crate::steps::run;

/// The release of the tool that checks the rules.
const TOOL: (&str, &str) = ("cargo-deny", "0.20.2");

/// Checks every rule that needs no network.
///
/// # Errors
/// If the tool cannot be installed, or a library breaks a rule. The tool prints which.
pub fn run_chore() -> Result<(), String> {
    let program = tool(TOOL.0, TOOL.1)?;
    run(Command::new(program).args(["check", "licenses", "bans", "sources"]).current_dir(workspace_root()))
}
