//! What a package registry asks of the manifests: without it nothing can be published, and nobody notices before the day.

use std::fs;

use crate::source::workspace_root;

/// The packages that are published.
const PUBLISHED: [&str; 9] = ["wire", "rings", "certificates", "store", "disk", "server", "derive", "client", "cli"];

/// What each of their manifests says, or has the workspace say.
const FIELDS: [&str; 8] =
    ["version", "edition", "rust-version", "license", "readme", "keywords", "categories", "description"];

/// What is missing, a line each.
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
        // What only tests use is left out of what is published.
        for line in text.lines().filter(|line| line.contains("path = \"../") && !line.starts_with("sleeve-tests ")) {
            if !line.contains("version = ") {
                breaches.push(format!("{path} names no version: {line}"));
            }
        }
    }
    breaches
}
