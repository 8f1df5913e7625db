//! The simulated world: servers, a network and one clock.

use crate::action::{Action, LinkId};
use crate::host::{Host, Time};
use crate::id::NodeId;
use crate::node::Address;
use crate::nodes_conf;
use crate::packet::Message;
use crate::simulation::clients::Clients;
use crate::simulation::moves::Move;
use crate::simulation::network::{Connection, Direction, Network, Place};
use crate::simulation::server::{BUS_PORT, Chance, Server};
use crate::simulation::watch::Watch;
use crate::slots::{SLOTS, Slot};
use crate::state::cluster_state::Save;
use crate::state::{ClusterState, members};

/// The step of the clock.
const STEP_MS: u64 = 5;

/// The world.
pub(crate) struct World {
    pub now: u64,
    pub seed: u64,
    pub chance: Chance,
    pub servers: Vec<Server>,
    pub network: Network,
    /// The number of primaries with slots.
    pub primaries: usize,
    /// The facts by which the promises of the cluster are checked.
    pub watch: Watch,
    /// The moves of slots that an operator has begun.
    pub moves: Vec<Move>,
    /// The clients, if they write.
    pub clients: Option<Clients>,
    /// The packets that the servers have sent.
    pub sent: u64,
    pub connects: u64,
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or("simulation::");
            eprintln!("replay with: SEED={} cargo test --profile checked -p sleeve-cluster --lib {test}", self.seed);
        }
    }
}

impl World {
    /// Returns a world of servers that do not know each other.
    pub fn new(servers: usize, seed: u64) -> Self {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(seed);
        let mut chance = Chance(seed);
        let servers = (0..servers).map(|number| Server::new(number, Chance(chance.next()))).collect();
        let network = Network { delay_ms_max: 10, ..Network::default() };
        Self {
            now: 1_000,
            seed,
            chance,
            servers,
            network,
            primaries: 0,
            watch: Watch::default(),
            moves: Vec::new(),
            clients: None,
            sent: 0,
            connects: 0,
        }
    }

    /// Returns a world with a working cluster. The replicas stand behind the primaries, first one for each primary.
    pub fn cluster(primaries: usize, replicas: usize, seed: u64) -> Self {
        let mut world = Self::new(primaries + replicas, seed);
        world.form(primaries, replicas);
        world
    }

    /// Makes a working cluster of new servers.
    pub fn form(&mut self, primaries: usize, replicas: usize) {
        let world = self;
        world.primaries = primaries;
        for place in 0..world.servers.len() {
            world.command(place, |state, _, _| {
                state.myself_mut().config_epoch = place as u64 + 1;
                state.epochs.current = place as u64 + 1;
            });
        }
        for place in 1..world.servers.len() {
            world.meet(0, place);
        }
        world.run_until("all nodes know each other", 20_000, |world| {
            let count = world.servers.len();
            let is_full = |state: &ClusterState| {
                state.nodes.len() == count && state.nodes.values().all(|node| !node.is_in_handshake())
            };
            world.states().all(is_full)
        });
        for place in 0..primaries {
            let share = usize::from(SLOTS).div_ceil(primaries);
            let slots: Vec<Slot> = (0..SLOTS).filter(|slot| usize::from(*slot) / share == place).collect();
            world.command(place, |state, _, _| {
                let me = state.id();
                slots.iter().for_each(|slot| state.assign_slot(*slot, Some(me)));
                state.config_changed(Save::Lazy);
            });
        }
        for replica in 0..replicas {
            let primary = world.id(replica % primaries);
            world.command(primaries + replica, |state, _, _| members::follow(state, primary));
        }
        world.run_until("the cluster works", 20_000, Self::is_healed);
    }

    /// Returns the state of a server that is up.
    pub fn state(&self, place: Place) -> &ClusterState {
        self.servers[place].state.as_ref().expect("the server is up")
    }

    /// Returns the states of all servers that are up.
    pub fn states(&self) -> impl Iterator<Item = &ClusterState> {
        self.servers.iter().filter_map(|server| server.state.as_ref())
    }

    /// Returns the id of a server.
    pub fn id(&self, place: Place) -> NodeId {
        self.state(place).id()
    }

    /// Returns the server with an id.
    pub fn place(&self, id: NodeId) -> Option<Place> {
        self.servers.iter().position(|server| server.state.as_ref().is_some_and(|state| state.id() == id))
    }

    /// Runs a command on a server.
    pub fn command<R>(
        &mut self,
        place: Place,
        command: impl FnOnce(&mut ClusterState, Time, &mut dyn Host) -> R,
    ) -> Option<R> {
        let server = &mut self.servers[place];
        let now = server.time(self.now);
        server.data.now_ms = self.now;
        let state = server.state.as_mut()?;
        state.begin(now, &server.data);
        let result = command(state, now, &mut server.data);
        state.settle(now, &mut server.data);
        self.carry_out(place);
        Some(result)
    }

    /// Runs CLUSTER MEET on a server.
    pub fn meet(&mut self, place: Place, other: Place) {
        let ip = self.servers[other].ip.clone();
        let address = Address { ip, port: 6_379, bus_port: BUS_PORT, ..Address::default() };
        self.command(place, |state, now, host| members::begin_handshake(state, address, true, now, host));
    }

    /// Publishes a message on a server.
    pub fn publish(&mut self, place: Place, text: &str, is_sharded: bool) {
        let message = Message { channel: b"news".to_vec(), message: text.into(), is_sharded };
        self.command(place, |state, _, _| state.publish(message));
    }

    /// Moves the clock on until a condition holds. Fails if it does not within so many milliseconds.
    pub fn run_until(&mut self, goal: &str, ms: u64, condition: impl Fn(&Self) -> bool) -> u64 {
        let begin = self.now;
        while !condition(self) {
            assert!(self.now - begin < ms, "not within {ms} ms: {goal}\n{}", self.picture());
            self.step();
        }
        self.now - begin
    }

    /// Moves the clock on.
    pub fn run(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.now < end {
            self.step();
        }
    }

    fn step(&mut self) {
        self.now += STEP_MS;
        self.open_connections();
        self.deliver();
        for place in 0..self.servers.len() {
            if (self.now + 35 * place as u64) % 100 < STEP_MS {
                self.tick(place);
            }
            if self.now % self.servers[place].copy_ms < STEP_MS {
                self.replicate(place);
            }
        }
        if self.now % 50 < STEP_MS {
            self.note_touch();
            self.advance_moves();
            self.check_owners();
        }
        self.serve_clients();
    }

    fn serve_clients(&mut self) {
        let Some(clients) = self.clients.as_mut() else { return };
        if self.now % 20 < STEP_MS {
            clients.write(&mut self.servers, self.chance.next(), self.now);
        }
    }

    fn tick(&mut self, place: Place) {
        self.event(place, |state, now, host| state.tick(now, host));
    }

    fn event(&mut self, place: Place, event: impl FnOnce(&mut ClusterState, Time, &mut dyn Host)) {
        let server = &mut self.servers[place];
        let now = server.time(self.now);
        server.data.now_ms = self.now;
        if let Some(state) = server.state.as_mut() {
            event(state, now, &mut server.data);
            self.carry_out(place);
        }
    }

    /// Carries out the actions of a server.
    fn carry_out(&mut self, place: Place) {
        let Some(state) = self.servers[place].state.as_mut() else { return };
        for action in state.take_actions() {
            let server = &mut self.servers[place];
            match action {
                Action::Connect { link, ip, port } => self.connect(place, link, &ip, port),
                Action::Close(link) => self.network.close(place, link, self.now),
                Action::Send { link, bytes, .. } => {
                    self.watch_packet(place, link, &bytes);
                    self.sent += 1;
                    self.network.send(place, link, bytes, self.now, &mut self.chance);
                }
                Action::Save { text, sync } => {
                    if sync {
                        server.synced.clone_from(&text);
                    }
                    server.disk = text;
                }
                Action::Follow { node, host, .. } => {
                    server.follows = Some((node, host));
                    server.data.is_linked = false;
                }
                Action::Lead => {
                    self.check_win(place);
                    self.check_succession(place);
                    let server = &mut self.servers[place];
                    server.follows = None;
                    server.data.is_linked = false;
                }
                Action::DeleteKeys(slots) => {
                    server.data.keys.retain(|slot, _| !slots.contains(*slot));
                    server.deleted.push(slots);
                }
                Action::FlushAll => server.data.keys.clear(),
                Action::PauseWrites { until_ms } => server.paused_until_ms = until_ms,
                Action::ResumeWrites => server.paused_until_ms = 0,
                Action::Publish { channel, message, is_sharded } => {
                    server.messages.push(Message { channel, message, is_sharded });
                }
                Action::Log(_, line) => server.log.push(format!("{} {line}", self.now)),
            }
        }
    }

    fn connect(&mut self, from: Place, link: LinkId, ip: &str, port: u16) {
        self.connects += 1;
        let is_at = |server: &Server| server.ip == ip && port == BUS_PORT && server.state.is_some();
        let to = self.servers.iter().position(is_at);
        let delay = 1 + self.chance.below(self.network.delay_ms_max);
        self.network.opening.push((self.now + delay, from, link, to));
    }

    fn open_connections(&mut self) {
        let (due, later) = self.network.opening.drain(..).partition(|(ready, ..)| *ready <= self.now);
        self.network.opening = later;
        for (ready, from, link, to) in Vec::from_iter::<Vec<_>>(due) {
            match to {
                None => self.event(from, |state, now, _| state.link_down(link, now)),
                // Neither a connection nor a refusal comes through a cut.
                Some(to) if !self.network.reaches(from, to) || !self.network.reaches(to, from) => {
                    self.network.opening.push((ready + 200, from, link, Some(to)));
                }
                Some(to) if self.servers[to].state.is_none() => {
                    self.event(from, |state, now, _| state.link_down(link, now));
                }
                Some(to) => {
                    let accepted = self.servers[to].accept_number();
                    let (peer_ip, local_ip) = (self.servers[from].ip.clone(), self.servers[to].ip.clone());
                    self.network.connections.push(Connection {
                        ends: [(from, Some(link)), (to, Some(accepted))],
                        directions: [Direction::default(), Direction::default()],
                    });
                    self.event(to, |state, _, _| state.accept(accepted, peer_ip, local_ip));
                    self.event(from, |state, now, host| state.link_up(link, now, host));
                }
            }
        }
    }

    fn deliver(&mut self) {
        let mut arrived = Vec::new();
        for connection in &mut self.network.connections {
            for side in [0, 1] {
                let ((from, _), (to, link)) = (connection.ends[side], connection.ends[1 - side]);
                let Some(link) = link else { continue };
                if self.network.cuts.contains(&(from, to)) {
                    continue;
                }
                let direction = &mut connection.directions[side];
                while direction.packets.front().is_some_and(|(ready, _)| *ready <= self.now) {
                    arrived.extend(direction.packets.pop_front().map(|(_, bytes)| (to, link, Some(bytes))));
                }
                let is_closed = direction.closed_ms.is_some_and(|ms| ms <= self.now);
                if is_closed && direction.packets.is_empty() {
                    connection.ends[1 - side].1 = None;
                    arrived.push((to, link, None));
                }
            }
        }
        self.network.connections.retain(|connection| connection.ends.iter().any(|(_, link)| link.is_some()));
        for (to, link, bytes) in arrived {
            let bytes = bytes.map(|bytes| self.servers[to].as_read(bytes));
            match bytes {
                Some(bytes) => self.event(to, |state, now, host| state.receive(link, &bytes, now, host)),
                None => self.event(to, |state, now, _| state.link_down(link, now)),
            }
        }
    }

    /// Copies the data of a primary to its replica.
    fn replicate(&mut self, place: Place) {
        let Some((_, ip)) = self.servers[place].follows.clone() else { return };
        let primary = self.servers.iter().position(|server| server.ip == ip && server.state.is_some());
        let is_up = |primary: &Place| {
            self.network.reaches(*primary, place)
                && self.network.reaches(place, *primary)
                && self.servers[*primary].follows.is_none()
        };
        let primary = primary.filter(is_up);
        self.servers[place].data.is_linked = primary.is_some();
        let Some(primary) = primary.filter(|primary| *primary != place && self.servers[place].state.is_some()) else {
            return;
        };
        let [replica, source] = self.servers.get_disjoint_mut([place, primary]).expect("two servers");
        let (copy, writes) = (&mut replica.data, &source.data.writes);
        // Writes have numbers of their own, so what is before a write is the same in all copies.
        let known = copy.writes.len();
        let is_begin = known <= writes.len() && writes.get(known.wrapping_sub(1)) == copy.writes.last();
        let kept = if is_begin { known } else { 0 };
        copy.writes.truncate(kept);
        copy.writes.extend_from_slice(&writes[kept..]);
        copy.keys.clone_from(&source.data.keys);
        copy.copied_ms = Some(self.now);
        if let Some(clients) = self.clients.as_mut() {
            clients.copied(place, primary, &writes[kept..]);
        }
    }

    /// Takes a server down. Its peers see their connections close.
    pub fn crash(&mut self, place: Place) {
        self.servers[place].state = None;
        self.servers[place].data.is_linked = false;
        self.network.close_all(place, self.now);
        if let Some(clients) = self.clients.as_mut() {
            clients.lost(place);
        }
    }

    /// Starts a server from a nodes.conf of which the end is lost. Returns whether the file still names the node.
    pub fn restart_torn(&mut self, place: Place) -> bool {
        let length = self.servers[place].disk.len();
        let kept = self.chance.below(length as u64 + 1) as usize;
        let whole = self.servers[place].disk.clone();
        self.servers[place].disk.truncate(kept);
        let names =
            matches!(nodes_conf::read(self.servers[place].disk.as_bytes(), false, Time::default()), Ok(Some(_)));
        if !names {
            self.servers[place].disk = whole;
        }
        self.restart(place, true);
        names
    }

    /// Starts a server from its nodes.conf. With `keeps`, the last file is on the disk, otherwise the last synced one.
    pub fn restart(&mut self, place: Place, keeps: bool) {
        let server = &mut self.servers[place];
        let text = if keeps { &server.disk } else { &server.synced };
        let now = server.time(self.now);
        let (contents, _) = nodes_conf::read(text.as_bytes(), false, now)
            .expect("the file can be read")
            .expect("the file names the node");
        let state =
            ClusterState::restore(contents.me, contents.nodes, contents.slots, contents.epochs, server.options.clone());
        server.follows = None;
        server.paused_until_ms = 0;
        server.data.now_ms = self.now;
        server.state = Some(state);
        self.carry_out(place);
    }

    /// Takes all servers down and starts them again from their files.
    pub fn restart_all_from_disk(&mut self) {
        (0..self.servers.len()).for_each(|place| self.crash(place));
        (0..self.servers.len()).for_each(|place| self.restart(place, true));
    }

    /// Returns whether all servers that are up agree on the owners of all slots, and each sees the cluster work.
    pub fn is_healed(&self) -> bool {
        let Some(first) = self.states().next() else { return false };
        let agrees = |state: &ClusterState| {
            let is_reached = |id: &NodeId| state.nodes.get(id).is_some_and(|node| !node.has_failed());
            state.health.is_ok
                && first.nodes.values().all(|node| state.node(node.id).is_some_and(|other| other.slots == node.slots))
                && self.states().all(|other| is_reached(&other.id()))
        };
        let owns = |state: &ClusterState| {
            let me = state.myself();
            !me.is_replica() || (me.slots.is_empty() && state.own_primary().is_some_and(|id| self.place(id).is_some()))
        };
        self.states().all(agrees) && self.states().all(owns)
    }

    /// Describes the world, for a test that fails.
    pub fn picture(&self) -> String {
        let mut text = format!("at {} ms, cuts {:?}\n", self.now, self.network.cuts);
        for (place, server) in self.servers.iter().enumerate() {
            let Some(state) = &server.state else {
                text += &format!("{place}: down\n");
                continue;
            };
            text += &format!(
                "{place}: epoch {} vote {} ok {} follows {:?} election {:?}\n",
                state.epochs.current, state.epochs.last_vote, state.health.is_ok, server.follows, state.election
            );
            for node in state.nodes.values() {
                text += &format!(
                    "    {:?} {} at {} epoch {} slots {} offset {} primary {:?} up {} reports {}\n",
                    self.place(node.id),
                    node.flags,
                    node.address.ip,
                    node.config_epoch,
                    node.slots.len(),
                    node.offset,
                    node.primary.and_then(|id| self.place(id)),
                    node.links.is_connected,
                    node.reports.len()
                );
            }
            for line in server.log.iter().rev().take(12).rev() {
                text += &format!("    | {line}\n");
            }
        }
        text
    }
}
