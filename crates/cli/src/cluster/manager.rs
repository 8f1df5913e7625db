//! The state of one cluster command: its options, the way to the nodes, the console, and the nodes once they are loaded.

use super::console::{Console, Reported, complain};
use super::mover::Mover;
use super::node::NodeAddress;
use super::peer::{Door, Peer};
use super::view::View;
use crate::shell::options::ClusterOptions;

/// The command in progress.
#[derive(Debug)]
pub struct Manager {
    /// The options.
    pub options: ClusterOptions,
    /// The words behind the command's name.
    pub words: Vec<Vec<u8>>,
    /// The way to the nodes.
    pub door: Door,
    /// The console.
    pub console: Console,
    /// True for the command `fix`.
    pub is_fix: bool,
    /// The nodes.
    pub view: View,
}

impl Manager {
    /// Returns the words as text.
    pub fn texts(&self) -> Vec<String> {
        self.words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    /// Returns the address in the first word.
    pub fn first_address(&self) -> Result<NodeAddress, Reported> {
        Self::address(self.texts().get(..1).unwrap_or_default())
    }

    /// Reads an address in one word or two.
    pub fn address(words: &[String]) -> Result<NodeAddress, Reported> {
        NodeAddress::of_words(words).ok_or(()).or_else(|()| {
            complain(format_args!(
                "[ERR] Invalid arguments: you need to pass either a valid address (ie. 120.0.0.1:7000) or space separated IP and \
                 port (ie. 120.0.0.1 7000)"
            ))
        })
    }

    /// Loads the cluster of the node in the words.
    pub fn load_by_words(&mut self) -> Result<(), Reported> {
        self.load(&Self::address(&self.texts())?)
    }

    /// Loads the cluster of the node in the first word.
    pub fn load_by_first(&mut self) -> Result<(), Reported> {
        self.load(&self.first_address()?)
    }

    /// Loads the cluster of a node.
    pub fn load(&mut self, address: &NodeAddress) -> Result<(), Reported> {
        self.view = View::load(&self.door, self.console, address)?;
        Ok(())
    }

    /// Returns the mover with the settings of the options.
    pub fn mover(&self) -> Mover {
        Mover {
            pipeline: self.options.moves.pipeline,
            timeout_ms: self.options.moves.timeout,
            replace: self.options.moves.replace,
            is_fix: self.is_fix,
            login: self.door.migrate_words(),
            console: self.console,
        }
    }

    /// Asks the user, unless the options say yes.
    pub fn confirm(&self, question: &str) -> bool {
        self.options.moves.yes || self.console.confirm(question)
    }

    /// Returns the connection to a node.
    pub fn peer(&mut self, number: usize) -> &mut Peer {
        &mut self.view.members[number].peer
    }
}

/// Returns a source of random numbers: each is below the number that it is given, which is at least 1.
pub fn chance() -> impl FnMut(usize) -> usize {
    use std::hash::{BuildHasher, RandomState};
    // The standard library seeds its hashers at random.
    let (state, mut counter) = (RandomState::new(), 0_u64);
    move |below| {
        counter += 1;
        (state.hash_one(counter) % below.max(1) as u64) as usize
    }
}
