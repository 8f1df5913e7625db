//! `crates`: each crate that is to be published, packaged as crates.io takes it, and built from its package.
//!
//! cargo packages the crates in the order of their dependencies, and builds each against the packages of the others. A file that
//! a crate reads from outside of its folder is missing there, and shows.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::steps::{cargo, output_of, run, target_folder};

/// The fields by which readers of crates.io find a crate and judge it.
const FIELDS: [&str; 8] =
    ["description", "license", "documentation", "readme", "rust_version", "edition", "keywords", "categories"];

/// Checks the fields of each crate, and packages it.
///
/// # Errors
/// The crates with a missing field, or the reason why one cannot be packaged or built.
pub fn run_chore() -> Result<(), String> {
    let text = output_of(cargo().args(["metadata", "--format-version", "1", "--no-deps", "--locked"]))?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let packages: Vec<&Value> = metadata["packages"].as_array().into_iter().flatten().collect();
    // `publish = false` is an empty list of registries.
    let (published, others): (Vec<_>, Vec<_>) = packages.into_iter().partition(|package| package["publish"].is_null());
    let lacks = |package: &&Value, field: &&str| {
        let value = &package[*field];
        value.as_str().is_none_or(str::is_empty) && value.as_array().is_none_or(Vec::is_empty)
    };
    let missing: BTreeSet<String> = published
        .iter()
        .flat_map(|package| {
            FIELDS.iter().filter(|field| lacks(package, field)).map(|field| format!("{}: {field}", name_of(package)))
        })
        .collect();
    if !missing.is_empty() {
        return Err(format!("fields of Cargo.toml are missing: {missing:?}"));
    }
    let excluded = others.iter().flat_map(|package| ["--exclude".to_owned(), name_of(package)]);
    let folder = target_folder()?.join("crates");
    run(cargo()
        .args(["package", "--workspace", "--locked", "--allow-dirty"])
        .args(excluded)
        .arg("--target-dir")
        .arg(&folder))?;
    println!("{} crates; their packages are in {}", published.len(), folder.join("package").display());
    Ok(())
}

fn name_of(package: &Value) -> String {
    package["name"].as_str().unwrap_or_default().to_owned()
}
