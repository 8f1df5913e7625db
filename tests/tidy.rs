//! The tree holds to its own rules.
