//! `manifests`: checks `packaging/compose` and `packaging/kubernetes` against the schemas of Compose and of Kubernetes.
//!
//! The validators are compose-go, which Docker's own tool reads such files with, and kubernetes-validate, which has the schemas
//! inside. Neither starts anything.

use std::path::PathBuf;
use std::process::Command;

use sleeve_tests::server::workspace_root;

use crate::steps::{output_of, target_folder};

/// The program of Go that reads compose files, and its release.
const COMPOSE: &str = "github.com/compose-spec/compose-go/v2/cmd@v2.16.2";

/// The program of Python that knows the schemas of Kubernetes, and its release.
const KUBERNETES: &str = "kubernetes-validate==1.37.0";

/// Checks every file.
///
/// # Errors
/// The validators' words about the first file that is not valid, or the reason why they cannot be installed.
pub fn run() -> Result<(), String> {
    let tools = target_folder()?.join("tools");
    let compose = tools.join("compose-go/cmd");
    if !compose.is_file() {
        output_of(Command::new("go").args(["install", COMPOSE]).env("GOBIN", tools.join("compose-go")))?;
    }
    for file in files("packaging/compose")? {
        output_of(Command::new(&compose).arg("-no-interpolation").arg(&file))?;
        println!("valid: {}", file.display());
    }
    let python = tools.join("kubernetes-validate");
    let validate = python.join("bin/kubernetes-validate");
    if !validate.is_file() {
        output_of(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
        output_of(Command::new(python.join("bin/pip")).args(["install", "--quiet", KUBERNETES]))?;
    }
    for file in files("packaging/kubernetes")? {
        output_of(Command::new(&validate).args(["--strict"]).arg(&file))?;
        println!("valid: {}", file.display());
    }
    Ok(())
}

/// Returns the files of a folder of the repository, of which there is at least one.
fn files(folder: &str) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(workspace_root().join(folder)).map_err(|error| format!("{folder}: {error}"))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    if files.is_empty() { Err(format!("{folder} is empty")) } else { Ok(files) }
}
