//! The folders that may be the caller's home, to keep what is read there: the one that `HOME` says, and the one of the
//! user database, whatever `HOME` says; below `sudo` also that of the user who called it. Programs that run later may go
//! by either. One that does not exist counts as well, because a sandbox could make it.

use std::path::PathBuf;

use kennel_policy::passwd::home_of;

/// All of them; the one that `HOME` says comes first.
#[must_use]
pub fn homes() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let mut homes: Vec<PathBuf> = variable("HOME").into_iter().collect();
    let user = rustix::process::geteuid().as_raw();
    let called_by =
        std::env::var("SUDO_UID").ok().and_then(|number| number.parse().ok()).filter(|_| user == 0);
    let database = crate::read::read_whole("/etc/passwd").unwrap_or_default();
    for user in [Some(user), called_by].into_iter().flatten() {
        if let Some(home) = home_of(user, &database)
            && !homes.contains(&home)
        {
            homes.push(home);
        }
    }
    homes
}
