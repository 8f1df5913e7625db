//! Tests of late replies in an engine of this process.

use std::cell::Cell;

use crate::{Client, prelude::*};

use super::*;

thread_local! {
    /// True if the system refuses to create another thread for this one, as a test pretends.
    pub(super) static IS_REFUSED: Cell<bool> = const { Cell::new(false) };
}

#[test]
fn who_waits_for_a_reply_without_a_thread_that_looks_for_it_is_told_so() {
    let client = Client::connect("embedded://").expect("an engine");
    IS_REFUSED.set(true);
    let late = client.blpop::<Option<(String, String)>>("jobs", Duration::from_secs(3600));
    let error = late.wait().expect_err("nobody would look for it");
    assert!(error.to_string().contains("gives no thread"), "{error}");
    IS_REFUSED.set(false);
    let served = client.blpop::<Option<(String, String)>>("jobs", Duration::from_secs(3600));
    client.lpush("jobs", "one").wait().expect("it is pushed");
    assert_eq!(served.wait().expect("it is served"), Some(("jobs".to_owned(), "one".to_owned())));
}
