//! The exchange of one request with one server, and the replies of all servers to the same request. One thread asks at a
//! time.

use sleeve_tests::Connection;
use sleeve_tests::transcript::frame::text;

/// The replies of all servers to one step on which they differ.
pub type Replies = Vec<Vec<u8>>;

/// Sends a command and waits for its reply.
pub fn ask(connection: &mut Connection, words: &[Vec<u8>]) -> Vec<u8> {
    // A server that closes the connection must not end the test: the error counts as a reply, and a wrong one.
    connection.command(words).unwrap_or_else(|error| format!("({error})").into_bytes())
}

/// Returns the text of a reply, for a person or a further command.
pub fn plain(reply: &[u8]) -> Vec<u8> {
    text(reply).unwrap_or_default().to_vec()
}
