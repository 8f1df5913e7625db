//! The files that packages install use only words that this program understands.

use std::fs;
use std::process::Command;

#[test]
fn a_server_would_start_with_the_packages_configuration() {
    let folder = std::env::temp_dir().join(format!("sleeve-test-packaging-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/sleeve.conf")).expect("a file");
    let here = ["/var/lib/sleeve", "/var/log/sleeve", "/run/sleeve"].iter().fold(text, |text, place| {
        assert!(text.contains(place), "{place}");
        text.replace(place, folder.to_str().expect("letters"))
    });
    // Options that are only proposed have to be right too.
    let proposed: String = here
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|rest| rest.split(' ').count() == 2).unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert!(
        proposed.contains("\nappendonly yes\n") && proposed.contains("\nmaxmemory-policy allkeys-lru\n"),
        "{proposed}"
    );
    fs::write(folder.join("users.acl"), "").expect("a file");
    let proposed =
        proposed.replace("/etc/sleeve", folder.to_str().expect("letters")).replace("requirepass", "# requirepass");
    for text in [here, proposed] {
        let file = folder.join("sleeve.conf");
        fs::write(&file, &text).expect("it is ours");
        let checked = Command::new(env!("CARGO_BIN_EXE_sleeve")).args(["serve", "--check"]).arg(&file).output();
        let checked = checked.expect("it can be started");
        assert!(checked.status.success(), "{}\n{text}", String::from_utf8_lossy(&checked.stderr));
    }
    fs::remove_dir_all(&folder).expect("the folder is ours");
}
