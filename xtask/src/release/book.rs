//! `book`: the documents as a site that can be searched, in `target/book/html`.
//!
//! mdBook renders `docs/`. The first page is `docs/deployment.md`; the others follow in the order of the README's table. A link
//! to a file outside of `docs/` becomes text, because the site does not have it. Every other link, with its anchor, must lead to
//! a place in the site.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sleeve_tests::server::workspace_root;

use super::sbom::tool;
use crate::steps::{output_of, target_folder};

const CONFIGURATION: &str = "[book]\ntitle = \"Sleeve\"\nlanguage = \"en\"\n\n[output.html]\nno-section-label = true\n\n\
                             [output.html.search]\nlimit-results = 20\n";

/// The page that a reader sees first.
const FIRST: &str = "deployment.md";

/// Renders the site and checks its links.
///
/// # Errors
/// The links that lead nowhere, or the reason why it cannot be rendered.
pub fn run() -> Result<(), String> {
    let program = tool("mdbook", "0.5.4")?;
    let folder = target_folder()?.join("book");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    }
    fs::create_dir_all(folder.join("src")).map_err(|error| error.to_string())?;
    write(&folder.join("book.toml"), CONFIGURATION)?;
    let pages = pages()?;
    let mut summary = "# Summary\n\n".to_owned();
    for name in &pages {
        let text = read(&workspace_root().join("docs").join(name))?;
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).ok_or(format!("{name} has no title"))?;
        summary += &format!("- [{title}]({name})\n");
        write(&folder.join("src").join(name), &without_outside(&text))?;
    }
    // A page links to the table that it is made of.
    write(&folder.join("src/redis-tests.tsv"), &read(&workspace_root().join("docs/redis-tests.tsv"))?)?;
    write(&folder.join("src/SUMMARY.md"), &summary)?;
    output_of(Command::new(program).arg("build").arg("--dest-dir").arg(folder.join("html")).arg(&folder))?;
    let links = check(&folder.join("html"))?;
    println!("{} pages, {links} links; open target/book/html/index.html", pages.len());
    Ok(())
}

/// Returns the names of all pages in the order of the book.
fn pages() -> Result<Vec<String>, String> {
    let readme = read(&workspace_root().join("README.md"))?;
    let entries = fs::read_dir(workspace_root().join("docs")).map_err(|error| format!("docs: {error}"))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    let table = readme.find("## Where to read next").map_or("", |start| &readme[start..]);
    let place = |name: &String| table.find(&format!("(docs/{name})")).unwrap_or(usize::MAX);
    names.sort_by_key(|name| (name != FIRST, place(name), name.clone()));
    Ok(names)
}

/// Returns a page in which each link to a file outside of the folder is the text alone.
fn without_outside(page: &str) -> String {
    let mut text = page.to_owned();
    while let Some(middle) = text.find("](../") {
        let start = text[..middle].rfind('[').unwrap_or(middle);
        let end = text[middle..].find(')').map_or(text.len(), |length| middle + length + 1);
        let words = text[start + 1..middle].to_owned();
        text.replace_range(start..end, &words);
    }
    text
}

/// Follows every link of the site inside of it; returns their number.
fn check(site: &Path) -> Result<usize, String> {
    let mut texts: BTreeMap<PathBuf, String> = BTreeMap::new();
    for entry in fs::read_dir(site).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.extension().is_some_and(|ending| ending == "html") {
            texts.insert(path.clone(), read(&path)?);
        }
    }
    let mut checked = 0;
    let mut broken = Vec::new();
    for (page, text) in &texts {
        for link in text.split("<a ").skip(1).filter_map(|rest| rest.split_once("href=\"")?.1.split('"').next()) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { site.join(file) };
            let has = |text: &String| anchor.is_empty() || text.contains(&format!("id=\"{anchor}\""));
            if !texts.get(&target).map_or(anchor.is_empty() && target.exists(), has) {
                broken.push(format!("{}: {link}", page.file_name().unwrap_or_default().to_string_lossy()));
            }
        }
    }
    if broken.is_empty() { Ok(checked) } else { Err(format!("links that lead nowhere:\n{}", broken.join("\n"))) }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::without_outside;

    #[test]
    fn a_link_to_a_file_outside_becomes_text() {
        let page = "See [the page](a.md#b), [SECURITY.md](../SECURITY.md) and [it](../x/y.md).";
        assert_eq!(without_outside(page), "See [the page](a.md#b), SECURITY.md and it.");
    }
}
