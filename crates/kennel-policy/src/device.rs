//! Which paths name devices. Settings of others have no list of devices: who wants one names it among what can be written.

use std::path::Path;

/// What of `/dev` every sandbox has, or what is no device.
const NO_DEVICES: &[&str] = &[
    "console", "core", "fd", "full", "log", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr",
    "stdin", "stdout", "tty", "urandom", "zero",
];

/// Whether a path names a device of the host's, or a folder of them such as `/dev/dri`.
#[must_use]
pub fn is_device(path: &Path) -> bool {
    let Ok(below) = path.strip_prefix("/dev") else { return false };
    below.iter().next().is_some_and(|first| NO_DEVICES.iter().all(|name| first != *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_below_dev_and_not_in_every_sandbox() {
        for path in ["/dev/dri", "/dev/dri/card0", "/dev/nvidia0", "/dev/net/tun"] {
            assert!(is_device(Path::new(path)), "{path}");
        }
        for path in ["/dev", "/dev/null", "/dev/shm/x", "/dev/pts/0", "/device/x", "/", "/home/dev/x"] {
            assert!(!is_device(Path::new(path)), "{path}");
        }
    }
}
