//! The tree holds to its own rules.

#[test]
fn the_tree_holds_to_its_rules() {
    let broken = sleeve_tidy::breaches();
    assert!(broken.is_empty(), "\n{broken}");
}
