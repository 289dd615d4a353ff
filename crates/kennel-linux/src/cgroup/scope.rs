//! A cgroup for an ordinary user from the user's own systemd: a transient scope with delegation.
//!
//! systemd owns the tree that a login session sits in, also where the files belong to the user; writing there
//! behind its back is what its documentation asks programs not to do. A scope with `Delegate=yes` is the way
//! it offers: systemd moves a process that exists into a new cgroup and leaves everything below to its owner.
//! A scope cannot be empty, so it is made when the sandbox's first process exists and waits to be let in; the
//! controller stays where it is. systemd removes the scope by itself when it is empty, also if the controller
//! was killed; so that it does not do so before the statistics have been read, there is a `keeper` inside.

use std::io;
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::controller::ControllerSet;
use super::dbus::{Body, Connection, Peer, Target, sockets_of};
use super::dir::Dir;
use super::error::CgroupError;
use super::hierarchy::Seat;

/// systemd answers within a few milliseconds; on a machine that is starting up it can take longer.
const PATIENCE: Duration = Duration::from_secs(10);

const MANAGER: Target = Target {
    destination: "org.freedesktop.systemd1",
    path: "/org/freedesktop/systemd1",
    interface: "org.freedesktop.systemd1.Manager",
};

const PROPERTIES: Target = Target { interface: "org.freedesktop.DBus.Properties", ..MANAGER };

/// The user's systemd, connected.
#[derive(Debug)]
pub(super) struct Manager {
    connection: Connection,
    peer: Peer,
    /// The socket it was reached by, for messages.
    bus: String,
    /// Its own cgroup as it gives it, from the top of the hierarchy.
    control_group: PathBuf,
}

impl Manager {
    /// Connects to the user's systemd over the user's bus, or else directly.
    pub fn connect() -> Result<Self, CgroupError> {
        let mut failure = None;
        for (peer, address) in known_sockets() {
            let bus = shown(&address);
            match Self::connect_to(&address, peer, bus.clone()) {
                Ok(manager) => return Ok(manager),
                Err(error) => {
                    failure.get_or_insert(CgroupError::Scope { bus, why: error.to_string() });
                }
            }
        }
        Err(failure.unwrap_or_else(|| CgroupError::Scope {
            bus: "the user's bus".to_owned(),
            why: "neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR says where it is".to_owned(),
        }))
    }

    fn connect_to(address: &SocketAddr, peer: Peer, bus: String) -> io::Result<Self> {
        let mut connection = Connection::open(address, peer, PATIENCE)?;
        let mut body = Body::default();
        body.string(MANAGER.interface);
        body.string("ControlGroup");
        let reply = connection.call(&PROPERTIES, "Get", "ss", &body)?;
        let mut value = reply.expect("v")?;
        let control_group = value.signature().filter(|kind| kind == "s").and_then(|_| value.string());
        let control_group = control_group.ok_or_else(|| io::Error::other("its reply cannot be read"))?;
        Ok(Self { connection, peer, bus, control_group: PathBuf::from(control_group) })
    }

    /// The socket it was reached by.
    pub fn bus(&self) -> &str {
        &self.bus
    }

    /// The controllers that this systemd has to give.
    pub fn controllers(&self, seat: &Seat) -> Result<ControllerSet, CgroupError> {
        let below = self.control_group.strip_prefix("/").unwrap_or(&self.control_group);
        let path = seat.top.join(below);
        let text = Dir::open(&path).and_then(|dir| dir.read("cgroup.controllers"));
        let text =
            text.map_err(|error| CgroupError::system("reading what systemd may delegate", &path, error))?;
        Ok(ControllerSet::from_names(&text))
    }

    /// Has `first` and `keeper` moved into a new scope `name.scope`, and returns the scope's cgroup.
    pub fn start_scope(
        &mut self,
        name: &str,
        first: i32,
        keeper: i32,
        seat: &Seat,
    ) -> Result<Dir, CgroupError> {
        let unit = format!("{name}.scope");
        self.request(&unit, &[first, keeper])
            .map_err(|error| CgroupError::Scope { bus: self.bus.clone(), why: error.to_string() })?;
        // Where the process is now is asked of the kernel, not of the bus.
        let place = std::fs::read_to_string(format!("/proc/{first}/cgroup")).map_err(|error| {
            CgroupError::system("finding the scope", format!("/proc/{first}/cgroup"), error)
        })?;
        let path = scope_path(&place, &unit, seat).ok_or_else(|| CgroupError::Scope {
            bus: self.bus.clone(),
            why: format!("it reported success, but the process is not in {unit}"),
        })?;
        Dir::open(&path).map_err(|error| CgroupError::system("opening the scope", &path, error))
    }

    fn request(&mut self, unit: &str, pids: &[i32]) -> io::Result<()> {
        self.connection.allow(PATIENCE);
        if self.peer == Peer::Bus {
            self.connection.add_match(
                "type='signal',sender='org.freedesktop.systemd1',path='/org/freedesktop/systemd1',\
                 interface='org.freedesktop.systemd1.Manager',member='JobRemoved'",
            )?;
        }
        let reply = self.connection.call(
            &MANAGER,
            "StartTransientUnit",
            "ssa(sv)a(sa(sv))",
            &scope_request(unit, pids),
        )?;
        let job = reply.expect("o")?.string().ok_or_else(|| io::Error::other("its reply cannot be read"))?;
        loop {
            let signal = self.connection.signal()?;
            if signal.member != "JobRemoved" {
                continue;
            }
            let Ok(mut body) = signal.expect("uoss") else { continue };
            let (_id, ended, _unit, result) = (body.number(), body.string(), body.string(), body.string());
            if ended.as_deref() == Some(&job) {
                return match result.as_deref() {
                    Some("done") => Ok(()),
                    _ => Err(io::Error::other(format!(
                        "the scope was not started: {}",
                        result.unwrap_or_default()
                    ))),
                };
            }
        }
    }
}

fn scope_request(unit: &str, pids: &[i32]) -> Body {
    let mut body = Body::default();
    body.string(unit);
    body.string("fail");
    body.array(8, |properties| {
        let text = |properties: &mut Body, name: &str, value: &str| {
            properties.structure();
            properties.string(name);
            properties.signature("s");
            properties.string(value);
        };
        text(properties, "Description", "kennel sandbox");
        // Gone when it ends, also when it ends badly.
        text(properties, "CollectMode", "inactive-or-failed");
        properties.structure();
        properties.string("Delegate");
        properties.signature("b");
        properties.number(1);
        properties.structure();
        properties.string("PIDs");
        properties.signature("au");
        properties.array(4, |array| pids.iter().for_each(|pid| array.number(pid.unsigned_abs())));
    });
    // Auxiliary units: none.
    body.array(8, |_| {});
    body
}

/// The scope's directory, if the process whose `/proc/<pid>/cgroup` this is has been moved into it.
fn scope_path(place: &str, unit: &str, seat: &Seat) -> Option<PathBuf> {
    let path = Path::new(place.lines().find_map(|line| line.strip_prefix("0::"))?);
    let plain = path.components().skip(1).all(|part| matches!(part, std::path::Component::Normal(_)));
    (plain && path.file_name()?.to_str() == Some(unit))
        .then(|| seat.top.join(path.strip_prefix("/").unwrap_or(path)))
}

/// The sockets at which the user's systemd may be reached, best first.
fn known_sockets() -> Vec<(Peer, SocketAddr)> {
    let mut sockets = Vec::new();
    if let Ok(addresses) = std::env::var("DBUS_SESSION_BUS_ADDRESS") {
        sockets.extend(sockets_of(&addresses).into_iter().map(|address| (Peer::Bus, address)));
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(
        || PathBuf::from(format!("/run/user/{}", rustix::process::geteuid().as_raw())),
        PathBuf::from,
    );
    for (peer, path) in [(Peer::Bus, "bus"), (Peer::Direct, "systemd/private")] {
        let path = runtime.join(path);
        let known = sockets.iter().any(|(_, address)| address.as_pathname() == Some(&path));
        if !known && let Ok(address) = SocketAddr::from_pathname(&path) {
            sockets.push((peer, address));
        }
    }
    sockets
}

fn shown(address: &SocketAddr) -> String {
    match address.as_pathname() {
        Some(path) => path.display().to_string(),
        None => "an abstract socket".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scope_is_believed_only_if_the_process_is_in_it() {
        let seat = Seat { top: "/sys/fs/cgroup".into(), own: "/sys/fs/cgroup".into() };
        let inside = "1:name=systemd:/x\n0::/user.slice/app.slice/k-1.scope\n";
        assert_eq!(
            scope_path(inside, "k-1.scope", &seat),
            Some(PathBuf::from("/sys/fs/cgroup/user.slice/app.slice/k-1.scope"))
        );
        for elsewhere in ["0::/user.slice/session-1.scope\n", "0::/\n", "0::/../k-1.scope\n", "", "0::"] {
            assert_eq!(scope_path(elsewhere, "k-1.scope", &seat), None, "{elsewhere}");
        }
    }
}
