//! The commands that a target does not send: they affect the machine, or lift the limits under which the target runs.

use sleeve_wire::request::{Batch, Limits, Parser};

/// Returns whether one of these requests is a command with one of these names, or with a name that has one of these
/// beginnings.
pub fn is_asked_for(bytes: &[u8], names: &[&[u8]], beginnings: &[&[u8]]) -> bool {
    let mut batch = Batch::new();
    // A request that the parser refuses is not executed, and the batch has the requests before it.
    let _ = Parser::new().parse(bytes, &Limits::default(), &mut batch);
    (0..batch.len()).any(|index| {
        let name = batch.get(index, bytes).get(0).unwrap_or_default();
        let begins = |start: &&[u8]| name.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start));
        names.iter().any(|left_out| name.eq_ignore_ascii_case(left_out)) || beginnings.iter().any(begins)
    })
}
