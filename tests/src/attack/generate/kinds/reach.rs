//! Sockets: the network, and the host's daemons.

use crate::attack::generate::Draft;
use crate::attack::perform::SECRET;

impl Draft<'_> {
    /// Ways out by the network.
    pub(in crate::attack::generate) fn network(&mut self) {
        match self.rng.below(4) {
            0 => self.flag("--allow-domain", "example.com"),
            1 => self.flag("--allow-domain", "localhost:1"),
            _ => {}
        }
        for _ in 0..self.rng.between(1, 3) {
            let host = self.pick(&[
                "127.0.0.1",
                "localhost",
                "0.0.0.0",
                "::1",
                "127.1",
                "::ffff:127.0.0.1",
                "host.kennel.internal",
                "example.com",
            ]);
            let verb = self.pick(&["tcp", "tcp", "udp", "proxy"]);
            self.inside(0, &[format!("{verb} {host} {{port}}")]);
        }
    }

    /// A secret that stays outside: the command gets a stand-in, and looks for the real one.
    pub(in crate::attack::generate) fn secrets(&mut self) {
        let host = self.pick(&["example.com", "*.example.com", "example.com,example.org:8443"]);
        self.flag("--secret", &format!("{SECRET}=env:{SECRET}@{host}"));
        for actor in 0..self.rng.between(1, 2) {
            for _ in 0..self.rng.between(2, 5) {
                let line = self.pick(&[
                    "procs",
                    "memory",
                    "memory",
                    "ptrace",
                    "sweep",
                    "tcp example.com 443",
                    "proxy example.com 80",
                    "unshare",
                    "kill init",
                    "daemon 1000 memory",
                ]);
                self.inside(actor, &[line]);
            }
        }
    }

    /// Daemons of the host's.
    pub(in crate::attack::generate) fn sockets(&mut self) {
        self.node("sock out/d1.sock");
        self.node("sock w/d2.sock");
        match self.rng.below(5) {
            0 => self.flag("--unix-sockets", "listed"),
            1..=2 => self.flag("--allow-unix-socket", "out/d1.sock"),
            _ => {}
        }
        for _ in 0..self.rng.between(1, 4) {
            let line = self.pick(&[
                "unix out/d1.sock",
                "unix w/d2.sock",
                "sock w/own.sock",
                "exchange w/own.sock w/d2.sock",
                "unix w/own.sock",
                "rename w/d2.sock w/d3.sock",
                "unix w/d3.sock",
                "symlink {top}/out/d1.sock w/s",
                "unix w/s",
                "unlink out/d1.sock",
            ]);
            self.inside(0, &[line]);
        }
    }
}
