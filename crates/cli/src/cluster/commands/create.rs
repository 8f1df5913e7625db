//! `create`: a cluster of empty nodes.

use std::thread;
use std::time::Duration;

use super::super::check;
use super::super::console::{Console, Reported, complain};
use super::super::manager::{Manager, chance};
use super::super::node::NodeAddress;
use super::super::peer::Fault;
use super::super::plan::affinity::{Affinity, Layout};
use super::super::plan::allocation::{Allocation, PRIMARIES_MIN, allocate};
use super::super::view::{Member, View, words_of_meet};
use crate::output;

/// The pause after which the nodes have begun to meet. Before that they all agree that no slot has an owner.
const MEETING: Duration = Duration::from_secs(1);

/// Makes a cluster of the nodes in the words.
pub fn run(manager: &mut Manager) -> Result<(), Reported> {
    let console = manager.console;
    for text in manager.texts() {
        let Some(address) = NodeAddress::read(&text) else {
            return complain(format_args!("Invalid address format: {text}"));
        };
        let (mut member, _) = Member::meet(&manager.door, console, &address)?;
        member.must_be_empty(console)?;
        manager.view.members.push(member);
    }
    let replicas = manager.options.roles.replicas as usize;
    let count = manager.view.members.len();
    if count / (replicas + 1) < PRIMARIES_MIN {
        return console.fail(format_args!(
            "*** ERROR: Invalid configuration for cluster creation.\n*** Redis Cluster requires at least 3 master nodes.\n*** This \
             is not possible with {count} nodes and {replicas} replicas per node.\n*** At least {} nodes are required.",
            PRIMARIES_MIN * (replicas + 1)
        ));
    }
    console.step(format_args!(">>> Performing hash slots allocation on {count} nodes..."));
    let primary_of = plan(&mut manager.view, console, replicas);
    print_plan(&manager.view, &primary_of);
    if !manager.confirm("Can I set the above configuration?") {
        return Ok(());
    }
    configure(&mut manager.view, console, &primary_of)?;
    let first = manager.view.members[0].node.address.clone();
    manager.load(&first)?;
    // The cluster exists; the check is for the user to read.
    check::check(manager, false).map(|_| ())
}

/// Distributes slots and roles, prints both, and returns the primary of each node.
fn plan(view: &mut View, console: Console, replicas: usize) -> Vec<Option<usize>> {
    let hosts: Vec<String> = view.members.iter().map(|member| member.node.address.host.clone()).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let allocation = allocate(&hosts, replicas);
    for (number, share) in allocation.primaries.iter().enumerate() {
        output::line(format_args!("Master[{number}] -> Slots {} - {}", share.first, share.last));
        view.members[share.node].node.slots = (share.first..=share.last).collect();
    }
    print_replicas(view, &allocation);
    let mut layout = Layout { hosts: &hosts, primary_of: allocation.primary_of(hosts.len()) };
    if !layout.is_perfect() {
        console.step(format_args!(">>> Trying to optimize slaves allocation for anti-affinity"));
        match layout.optimize(chance()) {
            Affinity::Perfect => console.success(format_args!("[OK] Perfect anti-affinity obtained!")),
            Affinity::WithPrimary => {
                console.warn(format_args!("[WARNING] Some slaves are in the same host as their master"));
            }
            Affinity::WithReplica => {
                console.warn(format_args!("[WARNING] Some slaves of the same master are in the same host"));
            }
        }
    }
    layout.primary_of
}

fn print_replicas(view: &View, allocation: &Allocation) {
    let address = |number: usize| &view.members[number].node.address;
    for (number, (replica, primary)) in allocation.replicas.iter().enumerate() {
        if number == allocation.regular {
            output::line(format_args!("Adding extra replicas..."));
        }
        output::line(format_args!("Adding replica {} to {}", address(*replica), address(*primary)));
    }
}

fn print_plan(view: &View, primary_of: &[Option<usize>]) {
    for (member, primary) in view.members.iter().zip(primary_of) {
        let text = match primary {
            Some(primary) => member.node.describe_future_replica(&view.members[*primary].node.id),
            None => member.node.describe(0, 0),
        };
        output::line(format_args!("{text}"));
    }
}

/// Gives the primaries their slots, introduces all nodes to each other, and then makes replicas of the others.
fn configure(view: &mut View, console: Console, primary_of: &[Option<usize>]) -> Result<(), Reported> {
    for (member, _) in view.members.iter_mut().zip(primary_of).filter(|(_, primary)| primary.is_none()) {
        let slots: Vec<String> = member.node.slots.iter().map(|slot| slot.to_string()).collect();
        let mut words = vec!["CLUSTER", "ADDSLOTS"];
        words.extend(slots.iter().map(String::as_str));
        if words.len() > 2 {
            member.peer.ask(&words)?;
        }
    }
    console.step(format_args!(">>> Nodes configuration updated"));
    console.step(format_args!(">>> Assign a different config epoch to each node"));
    for (number, member) in view.members.iter_mut().enumerate() {
        // A node that has an epoch already keeps it.
        if let Err(fault @ Fault::Lost(_)) =
            member.peer.try_ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])
        {
            return member.peer.report(&fault);
        }
    }
    console.step(format_args!(">>> Sending CLUSTER MEET messages to join the cluster"));
    let meet = words_of_meet(&view.members[0].node.address)?;
    for member in view.members.iter_mut().skip(1) {
        member.peer.ask(&meet)?;
    }
    thread::sleep(MEETING);
    view.wait_until_joined(console);
    let ids: Vec<String> = view.members.iter().map(|member| member.node.id.clone()).collect();
    for (member, primary) in view.members.iter_mut().zip(primary_of) {
        if let Some(primary) = primary {
            member.peer.ask(&["CLUSTER", "REPLICATE", &ids[*primary]])?;
        }
    }
    Ok(())
}
