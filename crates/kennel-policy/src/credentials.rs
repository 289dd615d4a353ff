//! Which paths hold credentials, or what is as private: nothing that kennel says suggests to open one.
//!
//! No list of these is complete, so this one opens nothing and closes nothing. It is that of profile `agent`, with the
//! files of the system, and names by which programs know keys.

use std::path::{Component, Path};
use std::sync::LazyLock;

use crate::profiles;

/// The system's own.
const OF_SYSTEM: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/krb5.keytab",
    "/run/secrets",
];

/// Names of files and folders wherever they are. One `*` stands for any text.
const NAMES: &[&str] = &[
    ".env",
    ".env.*",
    ".ssh",
    ".gnupg",
    ".netrc",
    ".pgpass",
    ".git-credentials",
    "credentials",
    "credentials.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.keystore",
    "*.kdbx",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "ssh_host_*_key",
];

/// What profile `agent` hides, below `~`.
static OF_HOME: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let text = profiles::text("agent").unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("\"~/")?.strip_suffix("\","));
    lines.collect()
});

/// Whether a path is known as a credential, lies in a folder of such, or is a folder that holds nothing else.
///
/// ```
/// use kennel_policy::credentials::is_credential;
/// use std::path::Path;
/// let home = [Path::new("/home/me")];
/// assert!(is_credential(Path::new("/home/me/.ssh/id_rsa"), home));
/// assert!(is_credential(Path::new("/srv/app/.env"), home));
/// assert!(!is_credential(Path::new("/home/me/project/main.c"), home));
/// ```
pub fn is_credential<'h>(path: &Path, homes: impl IntoIterator<Item = &'h Path>) -> bool {
    let below_home = homes.into_iter().any(|home| {
        path.strip_prefix(home).is_ok_and(|below| OF_HOME.iter().any(|known| below.starts_with(known)))
    });
    let named = path.components().any(|component| match component {
        Component::Normal(name) => {
            name.to_str().is_some_and(|name| NAMES.iter().any(|known| is_named(name, known)))
        }
        _ => false,
    });
    below_home || named || OF_SYSTEM.iter().any(|known| path.starts_with(known))
}

fn is_named(name: &str, known: &str) -> bool {
    match known.split_once('*') {
        None => name == known,
        Some((start, end)) => {
            name.len() > start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_the_profile_is_read_whole() {
        let text = profiles::text("agent").unwrap();
        let home = Path::new("/h");
        for known in [".ssh", ".aws", ".npmrc", ".config/gh", ".bash_history", ".mozilla"] {
            assert!(text.contains(&format!("\"~/{known}\"")), "{known}");
            assert!(is_credential(&home.join(known), [home]), "{known}");
        }
        assert_eq!(OF_HOME.len(), text.matches("\"~/").count());
    }

    #[test]
    fn what_only_looks_alike_is_none() {
        let home = Path::new("/h");
        for path in
            ["/h/.sshrc", "/h/x/.envrc", "/h/keys", "/w/.key", "/w/pem", "/etc/shadowing", "/h/.config"]
        {
            assert!(!is_credential(Path::new(path), [home]), "{path}");
        }
        for path in ["/w/server.pem", "/etc/shadow", "/etc/ssl/private/x", "/w/.env.local", "/w/.ssh/config"]
        {
            assert!(is_credential(Path::new(path), [home]), "{path}");
        }
    }
}
