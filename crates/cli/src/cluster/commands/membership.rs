//! `add-node` and `del-node`.

use std::thread;
use std::time::Duration;

use super::super::check;
use super::super::console::Reported;
use super::super::manager::Manager;
use super::super::node::NodeAddress;
use super::super::peer::{Answer, Fault, Peer};
use super::super::view::{Member, words_of_meet};
use crate::output;

/// The pause after which a new node has begun to meet the others.
const MEETING: Duration = Duration::from_secs(1);

/// Adds an empty node, as a primary without slots or as a replica.
pub fn add(manager: &mut Manager) -> Result<(), Reported> {
    let console = manager.console;
    let words = manager.texts();
    let known = Manager::address(words.get(1..).unwrap_or_default())?;
    let address = manager.first_address()?;
    console.step(format_args!(">>> Adding node {address} to cluster {known}"));
    manager.load(&known)?;
    check::check(manager, false)?.must_be_sound()?;
    let primary = chosen_primary(manager)?;
    let (mut new, _) = Member::meet(&manager.door, console, &address)
        .or_else(|Reported| console.fail(format_args!("[ERR] Sorry, can't connect to node {address}")))?;
    new.must_be_empty(console)?;
    if primary.is_none() {
        copy_functions(manager, &mut new.peer, &address)?;
    }
    console.step(format_args!(">>> Send CLUSTER MEET to node {address} to make it join the cluster."));
    new.peer.ask(&words_of_meet(&manager.view.members[0].node.address)?)?;
    manager.view.members.push(new);
    if let Some(primary) = primary {
        thread::sleep(MEETING);
        manager.view.wait_until_joined(console);
        let node = &manager.view.members[primary].node;
        console.step(format_args!(">>> Configure node as replica of {}.", node.address));
        let (id, last) = (node.id.clone(), manager.view.members.len() - 1);
        manager.peer(last).ask(&["CLUSTER", "REPLICATE", &id])?;
    }
    console.success(format_args!("[OK] New node added correctly."));
    Ok(())
}

/// Returns the primary of the new node if it shall be a replica.
fn chosen_primary(manager: &Manager) -> Result<Option<usize>, Reported> {
    let roles = &manager.options.roles;
    if !roles.replica {
        return Ok(None);
    }
    match &roles.master_id {
        Some(id) => match manager.view.find(id) {
            Some(number) => Ok(Some(number)),
            None => manager.console.fail(format_args!("[ERR] No such master ID {id}")),
        },
        None => {
            let number = manager.view.primary_with_fewest_replicas(None).ok_or(Reported)?;
            let address = &manager.view.members[number].node.address;
            output::line(format_args!("Automatically selected master {address}"));
            Ok(Some(number))
        }
    }
}

/// Gives a new primary the functions of the cluster: every primary has them all.
fn copy_functions(manager: &mut Manager, new: &mut Peer, address: &NodeAddress) -> Result<(), Reported> {
    let console = manager.console;
    console.step(format_args!(">>> Getting functions from cluster"));
    let dump = match manager.peer(0).try_ask(&["FUNCTION", "DUMP"]) {
        Ok(Answer::Text(dump)) => dump,
        Err(Fault::Refused(text)) => {
            console.step(format_args!(
                ">>> Failed retrieving Functions from the cluster, skip this step as Redis version do not support function command \
                 (error = '{text}')"
            ));
            return Ok(());
        }
        Err(fault) => return manager.peer(0).report(&fault),
        Ok(_) => return Err(Reported),
    };
    console.step(format_args!(">>> Send FUNCTION LIST to {address} to verify there is no functions in it"));
    match new.try_ask(&["FUNCTION", "LIST"]) {
        Ok(list) if list.clone().items().is_empty() => {}
        Ok(_) => {
            return console.fail(format_args!(
                ">>> New node already contains functions and can not be added to the cluster. Use FUNCTION FLUSH and try again."
            ));
        }
        Err(Fault::Refused(text)) => {
            return console.fail(format_args!(">>> Failed on FUNCTION LIST (error = '{text}')"));
        }
        Err(fault) => return new.report(&fault),
    }
    console.step(format_args!(">>> Send FUNCTION RESTORE to {address}"));
    match new.try_ask(&[&b"FUNCTION"[..], b"RESTORE", &dump]) {
        Err(Fault::Refused(text)) => {
            console.fail(format_args!(">>> Failed loading functions to the new node (error = '{text}')"))
        }
        Err(fault) => new.report(&fault),
        Ok(_) => Ok(()),
    }
}

/// Takes a node without slots out of the cluster. Its replicas get another primary.
pub fn delete(manager: &mut Manager) -> Result<(), Reported> {
    let (console, address) = (manager.console, manager.first_address()?);
    let id = manager.texts().get(1).cloned().unwrap_or_default();
    console.step(format_args!(">>> Removing node {id} from cluster {address}"));
    manager.load(&address)?;
    let Some(number) = manager.view.find(&id) else {
        return console.fail(format_args!("[ERR] No such node ID {id}"));
    };
    let node = &manager.view.members[number].node;
    let id = node.id.clone();
    if node.slots.len() > 0 {
        return console
            .fail(format_args!("[ERR] Node {} is not empty! Reshard data away and try again.", node.address));
    }
    console.step(format_args!(">>> Sending CLUSTER FORGET messages to the cluster..."));
    for other in (0..manager.view.members.len()).filter(|other| *other != number) {
        let node = &manager.view.members[other].node;
        if node.primary.as_deref() == Some(&id) {
            let primary = manager.view.primary_with_fewest_replicas(Some(&id)).ok_or(Reported)?;
            let primary = &manager.view.members[primary].node;
            console.step(format_args!(">>> {} as replica of {}", node.address, primary.address));
            let primary = primary.id.clone();
            manager.peer(other).ask(&["CLUSTER", "REPLICATE", &primary])?;
            manager.view.members[other].node.primary = Some(primary);
        }
        manager.peer(other).ask(&["CLUSTER", "FORGET", &id])?;
    }
    console.step(format_args!(">>> Sending CLUSTER RESET SOFT to the deleted node."));
    manager.peer(number).ask(&["CLUSTER", "RESET", "SOFT"]).map(|_| ())
}
