//! Compares the counted memory of clients with the memory that they take, measured by an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use sleeve_server::{Config, Engine, Local};

/// The system's allocator, with a count of the bytes in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn request(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.as_ref().len()).as_bytes());
        bytes.extend_from_slice(word.as_ref());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Runs requests, and returns their replies.
fn run(client: &mut Local, requests: &[u8]) -> Vec<u8> {
    let mut replies = Vec::new();
    client.exchange(requests, &mut replies).expect("it is open");
    replies
}

/// Returns a field of the first client in CLIENT LIST, as another client sees it.
fn field(admin: &mut Local, name: &str) -> usize {
    let list = String::from_utf8(run(admin, b"CLIENT LIST\r\n")).expect("text");
    let line = list.lines().find(|line| line.starts_with("id=1 ")).expect("the first client");
    let value = line.split(' ').find_map(|part| part.strip_prefix(&format!("{name}="))).expect("the field");
    value.parse().expect("a number")
}

/// Returns the field `used_memory` of INFO.
fn used_memory(admin: &mut Local) -> usize {
    let info = String::from_utf8(run(admin, b"INFO memory\r\n")).expect("text");
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("the field");
    line.parse().expect("a number")
}

/// A case: its name, the requests for which the memory is measured, the field that shows the memory, and the allowed
/// difference in percent.
type Case = (&'static str, Vec<u8>, &'static str, usize);

fn cases() -> Vec<Case> {
    let numbered = |prefix: &str, count: usize| (0..count).map(|index| format!("{prefix}{index}")).collect::<Vec<_>>();
    let command = |first: &[&str], rest: Vec<String>| {
        request(&first.iter().map(|word| (*word).to_owned()).chain(rest).collect::<Vec<_>>())
    };
    let multi = |queued: Vec<u8>| [b"MULTI\r\n".as_slice(), &queued].concat();
    let prefixes = (0..5_000).flat_map(|index| ["PREFIX".to_owned(), format!("prefix:{index:05}:")]).collect();
    vec![
        ("short commands", multi(request(&["PING"]).repeat(300_000)), "multi-mem", 10),
        ("usual commands", multi(request(&["SET", "key:000000000001", "some value"]).repeat(100_000)), "multi-mem", 10),
        ("long commands", multi(request(&["SET", "k", &"x".repeat(100_000)]).repeat(200)), "multi-mem", 10),
        ("many arguments", multi(command(&["DEL"], numbered("key:", 200_000))), "multi-mem", 10),
        ("watched keys", command(&["WATCH"], numbered("key:", 20_000)), "multi-mem", 25),
        ("channels", command(&["SUBSCRIBE"], numbered("channel:", 20_000)), "tot-mem", 35),
        ("prefixes", command(&["CLIENT", "TRACKING", "ON", "BCAST"], prefixes), "tot-mem", 25),
        ("an incomplete request", request(&["SET", "k", &"x".repeat(3_000_000)])[..2_000_000].to_vec(), "tot-mem", 10),
        (
            "incomplete arguments",
            b"*1000001\r\n".iter().copied().chain(b"$1\r\nk\r\n".repeat(900_000)).collect(),
            "tot-mem",
            10,
        ),
    ]
}

#[test]
fn what_clients_take_is_counted() {
    for (name, requests, shown, percent_max) in cases() {
        let engine = Engine::new(Config::default());
        let (mut client, mut admin) = (Local::open(&engine, || ()), Local::open(&engine, || ()));
        run(&mut client, b"HELLO 3\r\n");
        // Allocate the memory that is kept for reuse before the measurement.
        field(&mut admin, shown);
        used_memory(&mut admin);
        let before = (IN_USE.load(Ordering::Relaxed), field(&mut admin, shown), used_memory(&mut admin));
        drop(run(&mut client, &requests));
        if shown == "multi-mem" {
            // The thread frees its memory for a large request when it runs the next one.
            drop(run(&mut client, b"PING\r\n"));
        }
        let counted = field(&mut admin, shown) - before.1;
        let used = used_memory(&mut admin) - before.2;
        let taken = IN_USE.load(Ordering::Relaxed).saturating_sub(before.0);
        println!("{name}: {taken} bytes taken, {counted} counted as {shown}, {used} as used_memory");
        for seen in [counted, used] {
            assert!(seen.abs_diff(taken) * 100 <= taken * percent_max, "{name}: {taken} taken, {seen} counted");
        }
    }
}
