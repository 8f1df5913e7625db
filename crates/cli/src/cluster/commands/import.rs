//! `import`: the keys of a single server move to the nodes of a cluster.

use super::super::check;
use super::super::console::{Reported, complain};
use super::super::manager::Manager;
use super::super::node::NodeAddress;
use super::super::peer::{Answer, Door, Fault, Peer};
use super::super::slots::SLOTS;
use crate::endpoint::Login;
use crate::output;
use crate::shell;

/// The number of keys that are asked for at once.
const COUNT: &str = "1000";

/// Moves or copies all keys of database 0.
pub fn run(manager: &mut Manager) -> Result<(), Reported> {
    let console = manager.console;
    let address = Manager::address(&manager.texts())?;
    let options = manager.options.clone();
    let Some(from) = &options.moves.from else {
        return complain(format_args!("[ERR] Option '--cluster-from' is required for subcommand 'import'."));
    };
    let Some(from) = NodeAddress::of_words(std::slice::from_ref(from)) else {
        return complain(format_args!(
            "[ERR] Invalid --cluster-from host. You need to pass a valid address (ie. 120.0.0.1:7000)."
        ));
    };
    let mut password = options.import.from_pass.clone();
    if options.import.from_askpass {
        let asked = shell::ask_password("Please input import source node password: ");
        password = Some(asked.or_else(|error| complain(format_args!("{error}")))?);
    }
    console.step(format_args!(">>> Importing data from {from} to cluster {address}"));
    manager.load(&address)?;
    check::check(manager, false)?.must_be_sound()?;
    let login = Login { user: options.import.from_user.clone(), password, ..Login::default() };
    let mut source = open_source(&manager.door.with_login(login), &from)?;
    let size = match source.ask(&["DBSIZE"]) {
        Ok(Answer::Number(size)) => size,
        _ => return Err(Reported),
    };
    console.warn(format_args!("*** Importing {size} keys from DB 0"));
    let mut flags = manager.door.migrate_words();
    flags.extend(options.import.copy.then(|| "COPY".to_owned()));
    flags.extend(options.moves.replace.then(|| "REPLACE".to_owned()));
    let importer = Importer { owners: owners(manager), timeout: options.moves.timeout.to_string(), flags };
    importer.run(manager, &mut source, &from)
}

/// Connects to the server that is imported from. It must not be a node of a cluster: it would redirect.
fn open_source(door: &Door, from: &NodeAddress) -> Result<Peer, Reported> {
    let mut source = door.open(from)?;
    match source.info() {
        Ok(info) if info.number("cluster_enabled") == 0 => Ok(source),
        Ok(_) => source_fails("[ERR] The source node should not be a cluster node."),
        Err(fault) => source.report(&fault),
    }
}

fn source_fails<T>(text: &str) -> Result<T, Reported> {
    super::super::console::Console::new().fail(format_args!("{text}"))
}

/// Returns the address of the owner of each slot.
fn owners(manager: &Manager) -> Vec<NodeAddress> {
    let mut owners = vec![NodeAddress::default(); usize::from(SLOTS)];
    for number in manager.view.primaries() {
        let node = &manager.view.members[number].node;
        node.slots.iter().for_each(|slot| owners[usize::from(slot)] = node.address.clone());
    }
    owners
}

/// The settings of all moves.
struct Importer {
    owners: Vec<NodeAddress>,
    timeout: String,
    /// The words behind the timeout.
    flags: Vec<String>,
}

impl Importer {
    /// Walks through all keys.
    fn run(&self, manager: &Manager, source: &mut Peer, from: &NodeAddress) -> Result<(), Reported> {
        let mut cursor = b"0".to_vec();
        loop {
            let mut parts = source.ask(&[&b"SCAN"[..], &cursor, b"COUNT", COUNT.as_bytes()])?.items().into_iter();
            let (Some(Answer::Text(next)), Some(keys)) = (parts.next(), parts.next()) else { return Err(Reported) };
            for key in keys.strings() {
                self.migrate(manager, source, from, &key)?;
            }
            if next == b"0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    fn migrate(&self, manager: &Manager, source: &mut Peer, from: &NodeAddress, key: &[u8]) -> Result<(), Reported> {
        let target = &self.owners[usize::from(sleeve_wire::slot::of_key(key))];
        let console = manager.console;
        console.part(format_args!("Migrating {} to {target}: ", String::from_utf8_lossy(key)));
        let port = target.port.to_string();
        let mut words: Vec<&[u8]> =
            [b"MIGRATE", target.host.as_bytes(), port.as_bytes(), key, b"0", self.timeout.as_bytes()].to_vec();
        words.extend(self.flags.iter().map(String::as_bytes));
        match source.try_ask(&words) {
            Ok(_) => {
                console.success(format_args!("OK"));
                Ok(())
            }
            Err(Fault::Refused(text)) => console.fail(format_args!("Source {from} replied with error:\n{text}")),
            Err(fault) => {
                output::line(format_args!(""));
                source.report(&fault)
            }
        }
    }
}
