//! Ways around the rules on a Mac, each tried on the profile's text.

use std::path::{Path, PathBuf};

use kennel_policy::pattern::PathPattern;
use kennel_policy::policy::{
    FilePolicy, GitLevel, HomeMode, Missing, NetworkMode, Origin, OtherNames, PathRule, Policy, Precedence,
    ReadModel, SearchScope, TmpMode, UnixSockets,
};

use super::mac::Mac;
use crate::evaluator::{Profile as Evaluated, Vnode::*};
use crate::profile::files::{MISTAKE, Mistake};
use crate::profile::{MissingFolders, Network, ResolveError, Resolved, Surroundings, profile, resolve};

const PROJECT: &str = "/Users/me/project";

fn rule(path: &str) -> PathRule {
    PathRule {
        pattern: PathPattern::parse(path).unwrap(),
        missing: Missing::Skip,
        follow_link: true,
        lenient: false,
        without_exceptions: false,
        of_profile: false,
        look: SearchScope::Everywhere,
        origin: Origin("settings".to_owned()),
    }
}

fn rules(paths: &[&str]) -> Vec<PathRule> {
    paths.iter().map(|path| rule(path)).collect()
}

/// A policy with the host's `/tmp` and open reads.
fn policy(deny_read: &[&str], allow_read: &[&str], allow_write: &[&str], deny_write: &[&str]) -> Policy {
    let files = FilePolicy {
        deny_read: rules(deny_read),
        allow_read: rules(allow_read),
        allow_write: rules(allow_write),
        deny_write: rules(deny_write),
        tmp: TmpMode::Host,
        host_run: true,
        ..FilePolicy::default()
    };
    Policy { files, ..Policy::default() }
}

fn around() -> Surroundings {
    Surroundings {
        cwd: PROJECT.into(),
        homes: vec!["/Users/me".into()],
        user_temp: Some("/var/folders/ab/xyz/T".into()),
        path: vec!["/usr/bin".into(), "/opt/homebrew/bin".into()],
        ..Surroundings::default()
    }
}

fn resolved(mac: &Mac, policy: &Policy) -> Result<Resolved, ResolveError> {
    resolve(policy, &around(), mac, MissingFolders::Create)
}

fn text(mac: &Mac, policy: &Policy) -> String {
    let resolved = resolved(mac, policy).unwrap_or_else(|error| panic!("{error}"));
    let network = Network::of(&policy.network, &[4128]).unwrap();
    profile(&resolved, &network, "kennel-1").unwrap_or_else(|error| panic!("{error}")).text
}

fn read(mac: &Mac, policy: &Policy) -> Evaluated {
    let text = text(mac, policy);
    Evaluated::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
#[kennel_claim::claim("macos/system-links")]
fn links_of_the_system_are_followed() {
    let mac = Mac::new();
    mac.folder("/private/tmp/w");
    mac.file("/private/var/db/secret", "");
    let seen = read(&mac, &policy(&["/var/db/secret", "/etc/later"], &[], &["/tmp/w"], &[]));
    assert!(seen.may_create("/private/tmp/w/x", Regular));
    assert!(!seen.may_create("/private/tmp/x", Regular));
    assert!(!seen.may_read("/private/var/db/secret", Regular));
    assert!(!seen.may_read("/private/etc/later", Regular), "a name that comes later");
    assert!(seen.may_read("/private/var/db", Directory));
}

#[test]
#[kennel_claim::claim("macos/system-links")]
fn the_second_mount_of_the_disk_is_no_way_around() {
    let mac = Mac::new();
    let seen = read(&mac, &policy(&["/System/Volumes/Data/Users/me/.ssh"], &[], &[PROJECT], &[]));
    assert!(!seen.may_read("/Users/me/.ssh/id_ed25519", Regular));
    let seen = read(&mac, &policy(&["/Users/me/.ssh"], &[], &["/System/Volumes/Data/Users/me/project"], &[]));
    assert!(seen.may_create("/Users/me/project/x", Regular));
    assert!(!seen.may_read("/Users/me/.ssh/id_ed25519", Regular));
}

#[test]
#[kennel_claim::claim("macos/system-links")]
fn paths_are_written_as_the_kernel_names_them() {
    let mac = Mac::new();
    mac.folder("/Users/me/project/a/b");
    for way in [
        "/Users/me/project/a/b/",
        "/Users/me//project/./a/b",
        "/Users/me/project/a/../a/b",
        "/USERS/me/Project/A/B",
    ] {
        let seen = read(&mac, &policy(&[], &[], &[PROJECT], &[way]));
        assert!(!seen.may_create("/Users/me/project/a/b/x", Regular), "{way}");
        assert!(!seen.may_rename("/Users/me/project/a", "/Users/me/project/c", Directory, false), "{way}");
        assert!(seen.may_create("/Users/me/project/a/x", Regular), "{way}");
    }
}

#[test]
#[kennel_claim::claim("macos/denied-names-stay-denied")]
fn a_name_that_is_not_there_is_denied_in_every_spelling() {
    let mac = Mac::new();
    let policy = policy(
        &[],
        &[],
        &[PROJECT],
        &["/Users/me/project/.profile", "/Users/me/project/Ärger", "/Users/me/project/Kuss"],
    );
    let names = [
        ".profile",
        ".PROFILE",
        ".Profile",
        ".pro\u{fb01}le",
        "Ärger",
        "ärger",
        "A\u{308}rger",
        "a\u{308}RGER",
        "kuss",
        "KUSS",
        "ku\u{df}",
        "\u{212a}uss",
        "kuſs",
    ];
    let seen = read(&mac, &policy);
    for name in names {
        for vnode in [Regular, Directory, Symlink] {
            assert!(!seen.may_create(&format!("{PROJECT}/{name}"), vnode), "{name}");
        }
        assert!(!seen.may_create(&format!("{PROJECT}/{name}/x"), Regular), "{name}");
    }
    assert!(seen.may_create("/Users/me/project/.profiles", Regular));
    // Without this, the other spellings are open.
    MISTAKE.set(Some(Mistake::NoFolding));
    let seen = read(&mac, &policy);
    MISTAKE.set(None);
    assert!(seen.may_create("/Users/me/project/.PROFILE", Regular));
    // On a volume that tells them apart they are other files.
    let seen = read(&Mac::case_sensitive(), &policy);
    assert!(seen.may_create("/Users/me/project/.PROFILE", Regular));
    assert!(!seen.may_create("/Users/me/project/.profile", Regular));
}

#[test]
#[kennel_claim::claim("macos/denied-names-stay-denied")]
fn a_denied_name_is_not_reached_by_moving_folders() {
    let mac = Mac::new();
    mac.file("/Users/me/project/a/b/kept", "");
    let denied =
        ["/Users/me/project/a/b/kept", "/Users/me/project/new/deep/name", "/Users/me/project/a/later"];
    let seen = read(&mac, &policy(&[], &[], &[PROJECT], &denied));
    for folder in ["a", "a/b", "."] {
        let path = Path::new(PROJECT).join(folder);
        let path = if folder == "." { PROJECT.to_owned() } else { path.to_str().unwrap().to_owned() };
        assert!(!seen.may_rename(&path, "/Users/me/project/moved", Directory, false), "{path}");
    }
    for vnode in [Directory, Symlink] {
        assert!(!seen.may_create("/Users/me/project/new", vnode), "a prepared folder, or a link");
    }
    assert!(!seen.may_unlink("/Users/me/project/a/b/kept", Regular));
    // What holds nothing denied moves.
    assert!(seen.may_rename("/Users/me/project/x", "/Users/me/project/y", Directory, false));
    assert!(seen.may_create("/Users/me/project/a/b/other", Regular));
    assert!(seen.may_unlink("/Users/me/project/a/other", Regular));
}

#[test]
#[kennel_claim::claim("macos/names-write-no-rules")]
fn names_that_mean_something_in_a_profile_mean_themselves() {
    let mac = Mac::new();
    let odd = [
        "quote\"",
        "back\\slash",
        "paren)(allow file-write*)",
        ";comment",
        "#\"x",
        "[set]",
        "star*",
        "dot.s",
        "(",
        "a b",
        "$HOME",
        "^",
    ];
    for name in odd {
        mac.file(&format!("/Users/me/project/{name}/in"), "");
    }
    for name in odd {
        let path = format!("/Users/me/project/{name}");
        let mut asked = policy(&[], &[], &[PROJECT], &[]);
        asked.files.deny_write = vec![PathRule { pattern: PathPattern::literal(&path), ..rule("/x") }];
        let seen = read(&mac, &asked);
        assert!(!seen.may_write(&format!("{path}/in"), Regular), "{name}");
        for other in odd.iter().filter(|other| **other != name) {
            assert!(
                seen.may_write(&format!("/Users/me/project/{other}/in"), Regular),
                "{name} is not {other}"
            );
        }
    }
    let mut asked = policy(&[], &[], &[PROJECT], &[]);
    asked.files.deny_write =
        vec![PathRule { pattern: PathPattern::literal("/Users/me/project/a\nb"), ..rule("/x") }];
    let resolved = resolved(&mac, &asked).unwrap();
    let error = profile(&resolved, &Network::default(), "t").unwrap_err().to_string();
    assert!(error.contains("control character") && error.contains("help:"), "{error}");
}

#[test]
fn globs_hold_for_what_comes_later() {
    let mac = Mac::new();
    mac.file("/Users/me/project/a.pem", "");
    mac.file("/Users/me/project/open/b.pem", "");
    let seen = read(
        &mac,
        &policy(
            &["/Users/me/project/**/*.pem"],
            &["/Users/me/project/open/b.pem"],
            &[PROJECT],
            &["/**/.env"],
        ),
    );
    for path in ["a.pem", "x/y/later.pem", "later.PEM", ".env", "deep/.env", "deep/.ENV/x"] {
        assert!(!seen.may_create(&format!("{PROJECT}/{path}"), Regular), "{path}");
    }
    assert!(!seen.may_read("/Users/me/project/x/y/later.pem", Regular));
    assert!(seen.may_read("/Users/me/project/x/.env", Regular), "a deny of writing hides nothing");
    assert!(!seen.may_read("/Users/me/project/open/b.pem", Regular), "at a tie the deny wins");
    assert!(
        seen.may_create("/Users/me/project/pem", Regular)
            && seen.may_create("/Users/me/project/a.pems", Regular)
    );
}

#[test]
fn a_deny_within_an_allow_within_a_deny() {
    let mac = Mac::new();
    mac.file("/Users/me/vault/open/shut/open/x", "");
    let vault = "/Users/me/vault";
    let deny = [vault, "/Users/me/vault/open/shut"];
    let allow = ["/Users/me/vault/open", "/Users/me/vault/open/shut/open"];
    let seen = read(&mac, &policy(&deny, &allow, &["/Users/me/vault/open/shut/open"], &[]));
    assert!(!seen.may_read(vault, Directory) && !seen.may_read("/Users/me/vault/x", Regular));
    assert!(seen.may_read("/Users/me/vault/open/x", Regular));
    assert!(!seen.may_read("/Users/me/vault/open/shut/x", Regular));
    assert!(seen.may_read("/Users/me/vault/open/shut/open/x", Regular));
    assert!(seen.may_write("/Users/me/vault/open/shut/open/x", Regular));
    assert!(!seen.may_write("/Users/me/vault/open/x", Regular));
    // A program resolves its own path.
    assert!(seen.may_stat(vault, Directory) && !seen.may_stat("/Users/me/vault/x", Regular));
}

#[test]
fn the_root_and_the_home_as_places_to_write() {
    let mac = Mac::new();
    let all = read(&mac, &policy(&["/Users/me/.ssh"], &[], &["/"], &["/private/etc"]));
    assert!(all.may_create("/anything", Regular) && !all.may_create("/private/etc/x", Regular));
    assert!(!all.may_read("/Users/me/.ssh/id_ed25519", Regular));
    assert!(!all.may_rename("/Users/me", "/Users/you", Directory, false));
    assert!(!all.may_create("/Users/me/.config/kennel/settings.toml", Regular), "kennel's own settings");
    let mut home = policy(&[], &[], &["/Users/me"], &[]);
    let seen = read(&mac, &home);
    assert!(!seen.may_create("/Users/me/.srt-settings.json", Regular));
    assert!(!seen.may_create("/Users/me/.config", Directory), "a prepared folder could be moved there");
    home.files.refuse_home = true;
    assert!(matches!(resolved(&mac, &home), Err(ResolveError::Home { .. })));
}

#[test]
fn a_private_home_shows_what_is_listed_and_allowed() {
    let mac = Mac::new();
    for file in [
        ".foo-secret",
        "Library/Keychains/login",
        ".cargo/credentials.toml",
        ".cargo/bin/cargo",
        "tools/x",
        ".gitconfig",
    ] {
        mac.file(&format!("/Users/me/{file}"), "");
    }
    mac.file("/Users/me/.nvm/versions/node/v22/bin/node", "");
    mac.file("/Users/me/.nvm/versions/node/v22/etc/npmrc", "");
    mac.file("/Users/you/x", "");
    let mut asked = policy(&["/Users/me/tools/deep"], &["/Users/me/tools"], &[PROJECT], &[]);
    asked.files.home = HomeMode::Private;
    let seen = read(&mac, &asked);
    for closed in [
        "/Users/me/.foo-secret",
        "/Users/me/Library/Keychains/login",
        "/Users/me/.cargo/credentials.toml",
        "/Users/me/.nvm/versions/node/v22/etc/npmrc",
        "/Users/me/.gitconfig",
        "/Users/me/later",
        "/Users/you/x",
    ] {
        assert!(!seen.may_read(closed, Regular), "{closed}");
    }
    for shown in
        ["/Users/me/.cargo/bin/cargo", "/Users/me/.nvm/versions/node/v22/bin/node", "/Users/me/tools/x"]
    {
        assert!(seen.may_read(shown, Regular) && !seen.may_create(shown, Regular), "{shown}");
    }
    assert!(seen.may_create("/Users/me/project/x", Regular) && !seen.may_create("/Users/me/x", Regular));
    // What somebody denies around the table's entries stays denied.
    let mut denied = policy(&["/Users/me/.cargo"], &[], &[PROJECT], &[]);
    denied.files.home = HomeMode::Private;
    assert!(!read(&mac, &denied).may_read("/Users/me/.cargo/bin/cargo", Regular));
}

#[test]
fn a_write_root_below_a_denied_path_stays_hidden() {
    let mac = Mac::new();
    mac.folder("/Users/me/vault/w");
    let mut asked = policy(&["/Users/me/vault"], &[], &["/Users/me/vault/w"], &[]);
    let seen = read(&mac, &asked);
    assert!(
        !seen.may_create("/Users/me/vault/w/x", Regular) && !seen.may_read("/Users/me/vault/w", Directory)
    );
    asked.files.precedence = Precedence::DenyWrite;
    let seen = read(&mac, &asked);
    assert!(seen.may_create("/Users/me/vault/w/x", Regular), "as srt has it");
}

#[test]
#[kennel_claim::claim("macos/system-links")]
fn links_on_the_way_stay() {
    let mac = Mac::new();
    mac.file("/Users/me/elsewhere/x", "");
    mac.link("/Users/me/project/link", "../elsewhere");
    mac.link("/Users/me/project/key.pem", "../elsewhere/x");
    let seen = read(&mac, &policy(&["/Users/me/project/link/x"], &[], &[PROJECT], &[]));
    assert!(!seen.may_read("/Users/me/elsewhere/x", Regular));
    assert!(!seen.may_unlink("/Users/me/project/link", Symlink));
    assert!(!seen.may_create("/Users/me/project/link/x", Regular), "should the link become a folder");
    let seen = read(&mac, &policy(&["/Users/me/project/*.pem"], &[], &[PROJECT], &[]));
    assert!(!seen.may_read("/Users/me/elsewhere/x", Regular));
    // An earlier run may have made the link.
    let allow = policy(&[], &["/Users/me/project/link"], &[PROJECT], &[]);
    let mut listed = allow.clone();
    listed.files.reads = ReadModel::Listed;
    assert!(matches!(resolved(&mac, &listed), Err(ResolveError::PlantedLink { .. })));
}

#[test]
fn a_hard_link_is_another_name() {
    let mac = Mac::new();
    mac.file("/Users/me/project/secret", "");
    mac.hard_link("/Users/me/project/secret", "/Users/me/project/other");
    let mut asked = policy(&["/Users/me/project/secret"], &[], &[PROJECT], &[]);
    assert!(matches!(resolved(&mac, &asked), Err(ResolveError::HardLinks { .. })));
    asked.files.other_names = OtherNames::Deny;
    let seen = read(&mac, &asked);
    assert!(!seen.may_read("/Users/me/project/other", Regular));
    assert!(!seen.may_link("/Users/me/project/secret", "/Users/me/project/new"), "and no new one");
    assert!(!seen.may_link("/Users/me/.ssh/id_ed25519", "/Users/me/project/new"), "nor of what is outside");
    assert!(seen.may_link("/Users/me/project/a", "/Users/me/project/b"));
}

#[test]
fn repositories_and_listed_reads() {
    let mac = Mac::new();
    for file in [".git/HEAD", ".git/config", ".git/hooks/x", ".git/objects/x", ".git/refs/x"] {
        mac.file(&format!("{PROJECT}/{file}"), "");
    }
    let mut asked = policy(&[], &[], &[PROJECT], &[]);
    asked.files.git = GitLevel::HooksAndConfigReadOnly;
    asked.files.reads = ReadModel::Listed;
    let seen = read(&mac, &asked);
    assert!(!seen.may_create("/Users/me/project/.git/hooks/pre-commit", Regular));
    assert!(!seen.may_write("/Users/me/project/.git/config", Regular));
    assert!(!seen.may_rename("/Users/me/project/.git", "/Users/me/project/x", Directory, false));
    assert!(seen.may_create("/Users/me/project/.git/objects/new", Regular));
    assert!(!seen.may_read("/Users/me/.ssh/id_ed25519", Regular) && !seen.may_read("/Users/me", Directory));
    assert!(seen.may_stat("/Users/me", Directory) && seen.may_read("/", Directory));
    assert!(seen.may_read("/usr/bin/true", Regular));
    assert!(seen.may_stat("/opt/homebrew/bin/brew", Regular), "a folder of PATH");
    asked.files.git = GitLevel::MetadataReadOnly;
    let seen = read(&mac, &asked);
    assert!(!seen.may_create("/Users/me/project/.git/objects/new", Regular));
}

#[test]
#[kennel_claim::claim("macos/listed-services-only")]
fn temporary_files_are_the_commands_own() {
    let mac = Mac::new();
    mac.file("/private/var/folders/ab/xyz/T/others", "");
    mac.file("/private/var/folders/ab/xyz/T/xcrun_db", "");
    mac.folder("/private/var/folders/ab/xyz/T/kennel-1");
    let mut asked = policy(&[], &[], &[PROJECT], &[]);
    (asked.files.tmp, asked.files.host_run) = (TmpMode::Private, false);
    let around = Surroundings { tmp: Some("/var/folders/ab/xyz/T/kennel-1".into()), ..around() };
    let resolved = resolve(&asked, &around, &mac, MissingFolders::Create).unwrap();
    let text = profile(&resolved, &Network::default(), "t").unwrap().text;
    let seen = Evaluated::parse(&text).unwrap();
    assert!(seen.may_create("/private/var/folders/ab/xyz/T/kennel-1/x", Regular));
    assert!(!seen.may_unlink("/private/var/folders/ab/xyz/T/kennel-1", Directory));
    assert!(!seen.may_read("/private/var/folders/ab/xyz/T/others", Regular));
    assert!(!seen.may_read("/private/tmp", Directory) && !seen.may_create("/private/tmp/x", Regular));
    assert!(!seen.may_read("/private/var/run/resolv.conf", Regular), "no network, no name servers");
    let database = "/private/var/folders/ab/xyz/T/xcrun_db";
    assert!(
        seen.may_read(database, Regular) && !seen.may_write(database, Regular),
        "the host's tools go by it"
    );
}

#[test]
#[kennel_claim::claim("macos/gate-only")]
fn networks() {
    let mac = Mac::new();
    let mut asked = policy(&[], &[], &[PROJECT], &[]);
    let none = read(&mac, &asked);
    for (host, port) in [("127.0.0.1", 4128), ("127.0.0.1", 80), ("::1", 4128), ("93.184.216.34", 443)] {
        assert!(!none.may_connect(host, port) && !none.may_listen(host, port));
    }
    assert!(!none.may_look_up("com.apple.trustd") && none.may_look_up("com.apple.logd"));
    asked.network.mode = NetworkMode::AllowList;
    let gate = read(&mac, &asked);
    assert!(gate.may_connect("127.0.0.1", 4128) && gate.may_connect("::1", 4128));
    assert!(!gate.may_connect("127.0.0.1", 5432) && !gate.may_connect("93.184.216.34", 4128));
    assert!(!gate.may_connect_unix("/private/var/run/mDNSResponder") && !gate.may_listen("127.0.0.1", 4128));
    asked.network.local_binding = true;
    let binding = read(&mac, &asked);
    assert!(binding.may_listen("127.0.0.1", 3000) && !binding.may_listen("0.0.0.0", 3000));
    assert!(binding.may_connect("127.0.0.1", 3000) && !binding.may_connect("93.184.216.34", 443));
    asked.network.mode = NetworkMode::Host;
    let host = read(&mac, &asked);
    assert!(host.may_connect("93.184.216.34", 443) && host.may_listen("0.0.0.0", 80));
    assert!(
        host.may_connect_unix("/private/var/run/mDNSResponder")
            && !host.may_connect_unix("/private/var/run/docker.sock")
    );
}

#[test]
#[kennel_claim::claim("macos/gate-only")]
fn published_ports_are_on_the_loopback_alone() {
    let mac = Mac::new();
    let mut asked = policy(&[], &[], &[PROJECT], &[]);
    let origin = Origin("settings".to_owned());
    asked.network.publish = vec![kennel_policy::policy::PublishedPort { host: 8080, inside: 3000, origin }];
    let seen = read(&mac, &asked);
    assert!(
        seen.may_listen("127.0.0.1", 3000)
            && !seen.may_listen("0.0.0.0", 3000)
            && !seen.may_listen("127.0.0.1", 3001)
    );
    assert!(!seen.may_connect("127.0.0.1", 3000));
}

#[test]
#[kennel_claim::claim("macos/gate-only")]
fn unix_sockets_by_path() {
    let mac = Mac::new();
    mac.socket("/private/var/run/docker.sock");
    mac.socket("/Users/me/.ssh/agent");
    mac.socket("/Users/me/project/host.sock");
    mac.folder("/private/tmp/own");
    let sockets = ["/private/var/run/docker.sock", "/Users/me/.ssh/agent", "/Users/me/project/host.sock"];
    let mut asked = policy(&["/Users/me/.ssh"], &[], &[PROJECT], &[]);
    let none = read(&mac, &asked);
    assert!(sockets.iter().all(|path| !none.may_connect_unix(path) && !none.may_bind_unix(path)));
    asked.network.unix_sockets = UnixSockets::Listed;
    asked.network.allow_unix_sockets = rules(&["/var/run/docker.sock", "/var/run/later.sock"]);
    let around = Surroundings { tmp: Some("/tmp/own".into()), ..around() };
    let resolved = resolve(&asked, &around, &mac, MissingFolders::Create).unwrap();
    let text = profile(&resolved, &Network::default(), "t").unwrap().text;
    let listed = Evaluated::parse(&text).unwrap();
    assert!(listed.may_connect_unix(sockets[0]) && !listed.may_bind_unix(sockets[0]));
    assert!(listed.may_connect_unix("/private/var/run/later.sock"));
    assert!(!listed.may_connect_unix(sockets[1]) && !listed.may_connect_unix(sockets[2]));
    assert!(listed.may_bind_unix("/private/tmp/own/x") && listed.may_connect_unix("/private/tmp/own/x"));
    asked.network.unix_sockets = UnixSockets::All;
    let all = read(&mac, &asked);
    assert!(
        all.may_connect_unix(sockets[0])
            && all.may_connect_unix(sockets[2])
            && !all.may_connect_unix(sockets[1])
    );
    assert!(
        all.may_bind_unix("/Users/me/project/new.sock") && !all.may_bind_unix("/private/var/run/new.sock")
    );
}

#[test]
fn every_deny_has_the_sandboxs_tag() {
    let seen = read(
        &Mac::new(),
        &policy(&["/Users/me/.ssh", "/**/*.pem"], &[], &[PROJECT], &["/Users/me/project/x"]),
    );
    assert!(seen.messages().count() > 10);
    assert!(seen.messages().all(|message| message == Some("kennel-1")));
}

#[test]
#[kennel_claim::claim("macos/listed-services-only")]
fn services_that_a_policy_adds() {
    let mac = Mac::new();
    let mut asked = policy(&[], &[], &[PROJECT], &[]);
    asked.process.mach_services = vec!["com.1password.agent".into(), "org.chromium.crashpad.*".into()];
    let seen = read(&mac, &asked);
    assert!(seen.may_look_up("com.1password.agent") && seen.may_look_up("org.chromium.crashpad.7"));
    assert!(!seen.may_look_up("com.1password.other"));
    for never in [
        "com.apple.coreservices.launchservicesd",
        "com.apple.*",
        "*",
        "com.apple.SecurityServer",
        "com.apple.securityd.xpc",
        "x\")",
        "",
        "com.apple.lsd.*",
    ] {
        asked.process.mach_services = vec![never.into()];
        let resolved = resolved(&mac, &asked).unwrap();
        assert!(profile(&resolved, &Network::default(), "t").is_err(), "{never}");
    }
}

#[test]
fn what_needs_a_tree_of_its_own_is_refused() {
    let mac = Mac::new();
    let mut asked = policy(&[], &[], &[], &[]);
    let origin = || Origin("settings".to_owned());
    asked.files.mounts = vec![kennel_policy::policy::MountPoint {
        missing: kennel_policy::policy::Missing::Error,
        source: PROJECT.into(),
        target: PathBuf::from("/work"),
        access: kennel_policy::policy::MountAccess::ReadOnly,
        origin: origin(),
    }];
    let error = resolved(&mac, &asked).unwrap_err().to_string();
    assert!(error.contains("mount /Users/me/project at /work") && error.contains("help:"), "{error}");
    asked.files.mounts.clear();
    asked.files.tmpfs = vec![kennel_policy::policy::TmpfsMount {
        target: "/x".into(),
        size: None,
        create: false,
        origin: origin(),
    }];
    assert!(matches!(resolved(&mac, &asked), Err(ResolveError::NotOnMacos { .. })));
}

#[test]
#[kennel_claim::claim("macos/listed-services-only")]
fn devices_and_terminals() {
    let mac = Mac::new();
    mac.file("/dev/null", "");
    mac.file("/dev/ttys003", "");
    mac.file("/dev/disk0", "");
    let seen = read(&mac, &policy(&["/dev/urandom"], &[], &[PROJECT, "/dev/null"], &[]));
    assert!(seen.may_write("/dev/null", Regular) && seen.may_read("/dev/tty", Regular));
    assert!(!seen.may_read("/dev/ttys003", Regular), "another terminal of the same user");
    assert!(!seen.may_read("/dev/disk0", Regular) && !seen.may_read("/dev/urandom", Regular));
}

#[test]
fn typical_profiles() {
    let mac = Mac::new();
    for file in [".git/HEAD", ".git/config", ".git/hooks/x", ".git/objects/x", ".git/refs/x"] {
        mac.file(&format!("{PROJECT}/{file}"), "");
    }
    insta::assert_snapshot!("nothing-allowed", text(&mac, &policy(&[], &[], &[], &[])));
    let mut agent = policy(
        &["/Users/me/.ssh", "/Users/me/project/**/*.pem"],
        &[],
        &[PROJECT],
        &["/Users/me/project/.env"],
    );
    agent.files.git = GitLevel::HooksAndConfigReadOnly;
    agent.network.mode = NetworkMode::AllowList;
    insta::assert_snapshot!("agent", text(&mac, &agent));
    let mut listed = policy(&[], &["/Users/me/project"], &[], &[]);
    listed.files.reads = ReadModel::Listed;
    (listed.files.tmp, listed.files.host_run) = (TmpMode::Private, false);
    listed.network.mode = NetworkMode::Host;
    insta::assert_snapshot!("listed-reads-host-network", text(&mac, &listed));
}
