//! The fields that a package registry asks of the manifests: without them the crates cannot be published, and the fault would
//! show only on the day of a release.

use std::fs;

use crate::source::workspace_root;

/// The packages that are published.
const PUBLISHED: [&str; 10] =
    ["wire", "cluster", "rings", "certificates", "store", "disk", "server", "derive", "client", "cli"];

/// The fields that each manifest sets, or takes from the workspace.
const FIELDS: [&str; 8] =
    ["version", "edition", "rust-version", "license", "readme", "keywords", "categories", "description"];

/// Returns the missing fields, a line each.
pub fn missing() -> Vec<String> {
    let mut breaches = Vec::new();
    for package in PUBLISHED {
        let path = format!("crates/{package}/Cargo.toml");
        let text = fs::read_to_string(workspace_root().join(&path)).expect("a manifest");
        let head = text.split("\n[").next().unwrap_or_default();
        for field in FIELDS {
            let says = |line: &str| line.starts_with(&format!("{field} ")) || line.starts_with(&format!("{field}."));
            if !head.lines().any(says) {
                breaches.push(format!("{path} says nothing about {field}"));
            }
        }
        // Dependencies of tests alone are left out of the published package.
        for line in text.lines().filter(|line| line.contains("path = \"../") && !line.starts_with("sleeve-tests ")) {
            if !line.contains("version = ") {
                breaches.push(format!("{path} names no version: {line}"));
            }
        }
    }
    breaches
}
