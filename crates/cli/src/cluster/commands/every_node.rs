//! `call` and `set-timeout`: one command for every node.

use sleeve_wire::frame::decode;

use super::super::console::{Reported, complain};
use super::super::manager::Manager;
use super::super::peer::Fault;
use crate::output;
use crate::shell::format::Format;

/// The shortest node timeout that is accepted, in milliseconds.
const TIMEOUT_MIN_MS: u64 = 100;

/// Sends the words to every node and prints the replies.
pub fn call(manager: &mut Manager) -> Result<(), Reported> {
    manager.load_by_first()?;
    let words = manager.words.get(1..).unwrap_or_default().to_vec();
    let text = words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
    manager.console.step(format_args!(">>> Calling {text}"));
    let roles = manager.options.roles.clone();
    let format = Format::Raw { between: b"\n".to_vec(), end: Vec::new() };
    for member in &mut manager.view.members {
        let is_replica = member.node.is_replica();
        if (roles.only_masters && is_replica) || (roles.only_replicas && !is_replica) {
            continue;
        }
        let reply = member.peer.ask_bytes(&words).ok();
        let shown = reply.and_then(|reply| format.render(&decode(&reply).ok()?.0, false).ok());
        output::bytes(format!("{}: ", member.node.address).as_bytes());
        output::bytes(&shown.unwrap_or_else(|| b"Failed!".to_vec()));
        output::bytes(b"\n");
    }
    Ok(())
}

/// Sets the node timeout of every node, in its configuration file too.
pub fn set_timeout(manager: &mut Manager) -> Result<(), Reported> {
    let address = manager.first_address()?;
    let timeout = manager.texts().get(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    if timeout < TIMEOUT_MIN_MS {
        return complain(format_args!("Setting a node timeout of less than 100 milliseconds is a bad idea."));
    }
    manager.load(&address)?;
    let console = manager.console;
    console.step(format_args!(">>> Reconfiguring node timeout in every cluster node..."));
    let (mut set, mut failed) = (0, 0);
    for member in &mut manager.view.members {
        let mut ask = |words: &[&str]| member.peer.try_ask(words).map(|_| ());
        let done = ask(&["CONFIG", "SET", "cluster-node-timeout", &timeout.to_string()])
            .and_then(|()| ask(&["CONFIG", "REWRITE"]));
        let address = &member.node.address;
        match done {
            Ok(()) => {
                set += 1;
                console.warn(format_args!("*** New timeout set for {address}"));
            }
            Err(Fault::Refused(text) | Fault::Lost(text)) => {
                failed += 1;
                console.error(format_args!("ERR setting node-timeout for {address}: {text}"));
            }
        }
    }
    console.step(format_args!(">>> New node timeout set. {set} OK, {failed} ERR."));
    Ok(())
}
