//! Mirrors of registries that the user's own settings name: no sandbox can have written them.

use std::os::unix::fs::symlink;

use kennel_tests::ran;

use crate::profiles::Home;

/// Whether `kennel registries` and a plan with all registries have the mirror, for a command that starts in a folder.
fn has(home: &Home, folder: &str) -> bool {
    let told = |words: &[&str]| ran(home.kennel(words).current_dir(home.at(folder))).ok().stdout;
    let listed = told(&["registries"]).contains("mirror.example.com");
    let planned = told(&["plan", "--allow-registry", "npm", "--", "true"]);
    assert_eq!(planned.contains("mirror.example.com"), listed, "{planned}");
    listed
}

const NPMRC: &str = "registry=https://mirror.example.com/\n";

#[test]
#[kennel_claim::claim("network/mirrors-are-names")]
fn a_mirror_in_the_working_directory_or_behind_a_link_does_not_count() {
    let home = Home::new();
    home.write(".npmrc", NPMRC);
    assert!(has(&home, "project"), "else nothing is shown here");
    // The home itself is where the command works.
    assert!(!has(&home, ""));
    std::fs::rename(home.at(".npmrc"), home.at("project/npmrc")).unwrap();
    for target in ["project/npmrc", "dotfiles/npmrc"] {
        home.write("dotfiles/npmrc", NPMRC);
        symlink(target, home.at(".npmrc")).unwrap();
        assert!(!has(&home, "project"), "{target}");
        std::fs::remove_file(home.at(".npmrc")).unwrap();
    }
    // Nor the project's own.
    home.write("project/.npmrc", NPMRC);
    assert!(!has(&home, "project"));
}
