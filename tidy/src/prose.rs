//! The language of comments, documents and test names.
//!
//! Pronouns such as `what` and `who` in place of a noun hide the actor and the term, so that a reader has to decode a
//! sentence that is true. The rule counts them per file and allows as many as good prose has. A doc comment begins with a
//! verb or with the noun that the item is; an opening such as `Whether` or `The` is fine, `What`, `Those` and `Has` are not.

use crate::ratchet::Ratchet;
use crate::source::{self, Tree};
use syn::visit::{self, Visit};

/// Words that stand in the place of a noun.
const DIALECT: &[&str] = &["what", "who", "whoever", "whose", "whom", "nobody", "somebody", "anybody", "whatever"];

/// Words with which no doc comment begins.
const OPENINGS: &[&str] = &[
    "What", "Who", "Whoever", "Whose", "Has", "Have", "Had", "Those", "No", "Nothing", "Nobody", "Somebody", "The same",
];

/// The number of words of comment for which one dialect word is allowed.
const COMMENT_WORDS_PER_DIALECT_WORD: usize = 200;
const DOCUMENT_WORDS_PER_DIALECT_WORD: usize = 250;

const TEST_NAME_MAX: usize = 70;

/// Reports each file with more dialect words in its comments than their length allows.
pub fn dialect_in_comments(tree: &Tree) -> Vec<String> {
    let mut ratchet = Ratchet::read("dialect");
    for source in &tree.sources {
        let text: Vec<String> = blocks(&source.text).into_iter().map(|block| block.text).collect();
        check_dialect(&mut ratchet, &source.path, &text.join(" "), COMMENT_WORDS_PER_DIALECT_WORD);
    }
    ratchet.breaches()
}

/// Reports each document that uses more dialect words than its length allows.
pub fn dialect_in_documents(_: &Tree) -> Vec<String> {
    let mut ratchet = Ratchet::read("document");
    for (path, text) in source::texts() {
        if path.ends_with(".md") && !path.contains("results") {
            check_dialect(&mut ratchet, &path, &text, DOCUMENT_WORDS_PER_DIALECT_WORD);
        }
    }
    ratchet.breaches()
}

/// Reports each file with doc comments that begin with a pronoun, an auxiliary verb or a fragment.
pub fn doc_comments_open_well(tree: &Tree) -> Vec<String> {
    let mut ratchet = Ratchet::read("opening");
    for source in &tree.sources {
        let opens_badly = |block: &Block| block.is_doc && starts_with_any(&block.text, OPENINGS);
        let lines: Vec<String> = blocks(&source.text)
            .iter()
            .filter(|block| opens_badly(block))
            .map(|block| block.line.to_string())
            .collect();
        let unit = format!("doc comments that open badly (lines {})", lines.join(", "));
        ratchet.check(&source.path, lines.len(), 0, &unit);
    }
    ratchet.breaches()
}

/// Reports each test with a name that is too long to be read in a list of results.
pub fn test_names_are_short(tree: &Tree) -> Vec<String> {
    let mut ratchet = Ratchet::read("testname");
    for source in &tree.sources {
        let mut names = TestNames { path: &source.path, ratchet: &mut ratchet };
        names.visit_file(&source.syntax);
    }
    ratchet.breaches()
}

struct TestNames<'a> {
    path: &'a str,
    ratchet: &'a mut Ratchet,
}

impl<'ast> Visit<'ast> for TestNames<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        let is_test = |attribute: &syn::Attribute| {
            attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
        };
        if function.attrs.iter().any(is_test) {
            let name = function.sig.ident.to_string();
            self.ratchet.check(&format!("{}#{name}", self.path), name.len(), TEST_NAME_MAX, "characters");
        }
        visit::visit_item_fn(self, function);
    }
}

/// A run of comment lines of one kind.
struct Block {
    /// The number of its first line, from 1.
    line: usize,
    /// Its lines, joined by spaces.
    text: String,
    is_doc: bool,
}

/// Returns the comment blocks of a Rust file. A comment behind code on its line does not count.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_open = false;
            continue;
        };
        let is_doc = comment.starts_with(['/', '!']);
        let words = comment.strip_prefix(['/', '!']).unwrap_or(comment).trim();
        match blocks.last_mut() {
            Some(block) if is_open && block.is_doc == is_doc => {
                block.text.push(' ');
                block.text.push_str(words);
            }
            _ => blocks.push(Block { line: index + 1, text: words.to_owned(), is_doc }),
        }
        is_open = true;
    }
    blocks
}

fn check_dialect(ratchet: &mut Ratchet, path: &str, text: &str, words_per_dialect_word: usize) {
    let text = without_code(text);
    let is_part_of_word = |c: char| c.is_ascii_alphabetic() || c == '\'' || c == '-';
    let words = text.split(|c: char| !is_part_of_word(c)).filter(|word| !word.is_empty());
    let (mut count, mut dialect) = (0, 0);
    for word in words {
        count += 1;
        let parts = word.split(['\'', '-']);
        dialect += parts.filter(|part| DIALECT.iter().any(|known| part.eq_ignore_ascii_case(known))).count();
    }
    let unit = format!("dialect words (what, who, nobody …) in {count} words");
    ratchet.check(path, dialect, count / words_per_dialect_word, &unit);
}

/// Returns a text without code: fenced blocks and spans between backticks.
fn without_code(text: &str) -> String {
    let without_fences: String = text.split("```").step_by(2).collect();
    without_fences.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

fn starts_with_any(text: &str, openings: &[&str]) -> bool {
    openings.iter().any(|opening| {
        let rest = text.strip_prefix(opening);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

#[cfg(test)]
mod tests {
    use super::{OPENINGS, blocks, starts_with_any, without_code};

    #[test]
    fn comment_lines_of_one_kind_are_one_block() {
        let found =
            blocks("//! One\n//! two.\n\n/// What it is.\n// A note.\nlet x = 1; // behind code\n// Another.\n");
        let found: Vec<(usize, &str, bool)> =
            found.iter().map(|block| (block.line, block.text.as_str(), block.is_doc)).collect();
        let expected = [(1, "One two.", true), (4, "What it is.", true), (5, "A note.", false), (7, "Another.", false)];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_opening_is_a_whole_word() {
        assert!(starts_with_any("No.", OPENINGS));
        assert!(starts_with_any("The same if it is long.", OPENINGS));
        assert!(!starts_with_any("Node of the tree.", OPENINGS));
        assert!(!starts_with_any("Returns what was sent.", OPENINGS));
    }

    #[test]
    fn code_is_not_prose() {
        assert_eq!(without_code("a `who` b ```what``` c"), "a   b  c");
    }
}
