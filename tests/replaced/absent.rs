//! Denied paths that do not exist when the command starts, and that the host makes meanwhile.

use kennel_tests::{Scratch, text};

use crate::replaced::{Inside, exposed, report};

fn yard() -> Scratch {
    let yard = Scratch::new();
    yard.dir("work");
    yard.dir("home");
    yard
}

#[test]
#[kennel_claim::claim("files/host-replaces-denied-paths")]
fn a_path_that_the_host_makes_is_hidden() {
    let yard = yard();
    let folder = yard.join("home/.aws");
    let mut inside = Inside::run(&yard, &["--deny-read", &text(&folder)]);
    let look = format!("cat {}/credentials; ls -A {}", text(&folder), text(&folder));
    assert!(inside.ask(&look).contains("No such file"));
    yard.write("home/.aws/credentials", "new-text");
    inside.until_without(&look, "new-text");
    assert!(!inside.ask(&look).contains("credentials\n"));
    inside.end().ok();
    assert!(exposed(&report(&yard), &folder).is_some());
}

#[test]
fn a_path_of_several_folders_that_the_host_makes_is_hidden() {
    let yard = yard();
    let file = yard.join("home/a/b/c/token");
    let mut inside = Inside::run(&yard, &["--deny-read", &text(&file)]);
    yard.write("home/a/b/other", "other-text");
    yard.write("home/a/b/c/token", "new-text");
    inside.until_without(&format!("cat {}", text(&file)), "new-text");
    // What is not denied shows.
    assert!(inside.ask(&format!("cat {}", text(&yard.join("home/a/b/other")))).contains("other-text"));
    inside.end().ok();
}

#[test]
fn a_path_that_comes_with_a_folder_is_hidden() {
    let yard = yard();
    yard.write("prepared/b/token", "new-text");
    let file = yard.join("home/a/b/token");
    let mut inside = Inside::run(&yard, &["--deny-read", &text(&file)]);
    std::fs::rename(yard.join("prepared"), yard.join("home/a")).unwrap();
    inside.until_without(&format!("cat {}", text(&file)), "new-text");
    inside.end().ok();
}

#[test]
fn a_path_that_is_a_link_when_it_comes_is_hidden_where_it_leads() {
    let yard = yard();
    yard.write("vault/token", "new-text");
    let file = yard.join("home/token");
    let mut inside = Inside::run(&yard, &["--deny-read", &text(&file)]);
    std::os::unix::fs::symlink(yard.join("vault/token"), &file).unwrap();
    inside.until_without(&format!("cat {}", text(&file)), "new-text");
    assert!(!inside.ask(&format!("cat {}", text(&yard.join("vault/token")))).contains("new-text"));
    inside.end().ok();
}
