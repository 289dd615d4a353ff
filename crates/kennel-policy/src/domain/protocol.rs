//! What may be spoken to a host beside TLS and HTTP, where a rule says so: `postgres://db.example.com:5433`.
//!
//! TLS and HTTP tell which host they are for, and the gate compares. Other protocols do not, or not where the gate looks,
//! so the gate carries them on the ports that are theirs, where a rule names them, and nowhere else.

use std::fmt;

/// A protocol beside TLS and HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Any bytes: nothing is looked at.
    Tcp,
    /// SSH. It tells itself by its first line, on every port.
    Ssh,
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    MySql,
    /// Redis and those that speak its protocol.
    Redis,
    /// Mail, as it is sent.
    Smtp,
    /// Mail, as it is read.
    Imap,
    /// Mail, as it is fetched.
    Pop3,
    /// Git's own protocol.
    Git,
    /// The rsync daemon's protocol.
    Rsync,
}

/// Each protocol, what it is called in a rule, and the ports that are its own.
const TABLE: &[(Protocol, &str, &[u16])] = &[
    (Protocol::Tcp, "tcp", &[]),
    (Protocol::Ssh, "ssh", &[22]),
    (Protocol::Postgres, "postgres", &[5432]),
    (Protocol::MySql, "mysql", &[3306]),
    (Protocol::Redis, "redis", &[6379]),
    (Protocol::Smtp, "smtp", &[25, 587]),
    (Protocol::Imap, "imap", &[143]),
    (Protocol::Pop3, "pop3", &[110]),
    (Protocol::Git, "git", &[9418]),
    (Protocol::Rsync, "rsync", &[873]),
];

impl Protocol {
    /// The protocol that a rule calls by this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Protocol> {
        let name = match name {
            "postgresql" => "postgres",
            "mariadb" => "mysql",
            name => name,
        };
        TABLE.iter().find(|(_, own, _)| *own == name).map(|(protocol, ..)| *protocol)
    }

    /// The protocol that is expected on a port.
    #[must_use]
    pub fn of_port(port: u16) -> Option<Protocol> {
        TABLE.iter().find(|(.., ports)| ports.contains(&port)).map(|(protocol, ..)| *protocol)
    }

    /// What a rule calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        TABLE.iter().find(|(own, ..)| *own == self).map_or("", |(_, name, _)| name)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
