//! `sbom`: the list of the libraries in the binary, in CycloneDX's format, in `packaging/sbom.cdx.json`.
//!
//! cargo-cyclonedx writes it. It is kept in the repository, because it changes with `Cargo.lock` alone, and building the tool
//! takes a minute: the image and the package copy the file, and the tests compare it with what cargo would link.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sleeve_tests::server::workspace_root;

use crate::steps::{cargo, output_of, run, target_folder};

/// The place of the list in the repository.
pub const FILE: &str = "packaging/sbom.cdx.json";

/// The release of the tool that writes the list.
const TOOL: (&str, &str) = ("cargo-cyclonedx", "0.5.9");

/// The name of the files that the tool leaves in the folder of each crate.
const LEFT: &str = "xtask-sbom";

/// Whether the list is written or compared.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Write nothing; fail if the list lacks a library, or names one of another version
    #[arg(long)]
    check: bool,
}

/// Writes the list, or compares it.
///
/// # Errors
/// If the tool cannot be installed or fails, or the list is not true any more.
pub fn run_chore(options: &Options) -> Result<(), String> {
    if options.check {
        return check();
    }
    let program = tool(TOOL.0, TOOL.1)?;
    let format = ["--format", "json", "--spec-version", "1.5", "--target", "x86_64-unknown-linux-gnu"];
    let mut write = Command::new(program);
    write.arg("cyclonedx").args(format).args(["--override-filename", LEFT, "--manifest-path", "crates/cli/Cargo.toml"]);
    let wrote = run(write.current_dir(workspace_root()));
    let list = std::fs::read_to_string(workspace_root().join(format!("crates/cli/{LEFT}.json")));
    sweep()?;
    wrote?;
    let list = list.map_err(|error| format!("the tool wrote no list: {error}"))?;
    // The folder of this checkout is of no interest, and the list is not another one because it was written again.
    let root = std::fs::canonicalize(workspace_root()).map_err(|error| error.to_string())?;
    let mut list = parse(&list.replace(&format!("path+file://{}/", root.display()), "path:"))?;
    list.as_object_mut().and_then(|fields| fields.remove("serialNumber"));
    list["metadata"].as_object_mut().and_then(|fields| fields.remove("timestamp"));
    let text = serde_json::to_string_pretty(&list).map_err(|error| error.to_string())? + "\n";
    std::fs::write(workspace_root().join(FILE), text).map_err(|error| format!("{FILE}: {error}"))?;
    println!("{FILE}: {} libraries", list["components"].as_array().map_or(0, Vec::len));
    check()
}

/// Compares the list with the libraries that cargo would link, and with `Cargo.lock`.
///
/// # Errors
/// The libraries that are missing, or that the list names though they have left or changed.
pub fn check() -> Result<(), String> {
    let text = std::fs::read_to_string(workspace_root().join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    let list = parse(&text)?;
    let named: BTreeSet<String> = list["components"].as_array().into_iter().flatten().map(name_of).collect();
    let tree = ["tree", "--locked", "--package", "sleeve-cli", "--edges", "normal", "--prefix", "none"];
    let tree = output_of(cargo().args(tree).args(["--format", "{p}"]))?;
    // A line is `name v1.2.3`, for a crate of this repository with its folder behind it.
    let mut linked: BTreeSet<String> =
        tree.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ").replace(" v", " ")).collect();
    linked.retain(|name| !name.starts_with("sleeve-cli ") && !name.is_empty());
    let lock = std::fs::read_to_string(workspace_root().join("Cargo.lock")).map_err(|error| error.to_string())?;
    let is_locked = |name: &&String| {
        let (name, version) = name.split_once(' ').unwrap_or_default();
        lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n"))
    };
    let missing: Vec<&String> = linked.difference(&named).collect();
    let gone: Vec<&String> = named.iter().filter(|name| !is_locked(name)).collect();
    if missing.is_empty() && gone.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{FILE} lacks {missing:?} and names {gone:?}, which are not in Cargo.lock; `cargo xtask sbom` writes it anew"
    ))
}

/// Installs a program of crates.io into the folder of cargo's output, if it is not there, and returns its path.
///
/// # Errors
/// If it cannot be installed.
pub fn tool(name: &str, version: &str) -> Result<PathBuf, String> {
    let folder = target_folder()?.join("tools").join(format!("{name}-{version}"));
    let program = folder.join("bin").join(name);
    if !program.is_file() {
        println!("    cargo install {name} {version}");
        let install = ["install", "--quiet", "--locked", "--debug", name, "--version", version, "--root"];
        run(cargo().args(install).arg(&folder))?;
    }
    Ok(program)
}

/// Removes the files that the tool has left.
fn sweep() -> Result<(), String> {
    let text = output_of(cargo().args(["metadata", "--format-version", "1", "--no-deps", "--offline"]))?;
    for package in parse(&text)?["packages"].as_array().into_iter().flatten() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let left = manifest.with_file_name(format!("{LEFT}.json"));
        if left.is_file() {
            std::fs::remove_file(&left).map_err(|error| format!("{}: {error}", left.display()))?;
        }
    }
    Ok(())
}

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn name_of(component: &Value) -> String {
    let field = |name: &str| component[name].as_str().unwrap_or_default().to_owned();
    format!("{} {}", field("name"), field("version"))
}
