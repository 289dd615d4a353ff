//! Real servers with two hosts each: the one that is allowed, and all names below other.test, with a certificate and a page
//! of their own. What is not installed is told and left out.

use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kennel_tests::{am_root, program, skipped};

use crate::attack_gate::tries::ALLOWED;

/// In the page and the certificate of the other host, and nowhere else.
pub const CANARY: &str = "canary-of-the-other-host";
/// In the page and the certificate of the allowed host.
pub const ALLOWED_MARK: &str = "mark-of-the-allowed-host";

/// Ports that the gate knows other protocols on.
const PROTOCOL_PORTS: [u16; 10] = [22, 25, 110, 143, 587, 873, 3306, 5432, 6379, 9418];

/// What a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// HTTP.
    Http,
    /// TLS.
    Tls,
    /// Both, by the first byte.
    Both,
}

/// A server's port.
#[derive(Clone, Debug)]
pub struct Place {
    /// Whose it is.
    pub name: &'static str,
    /// Its number, as the gate knows it: the server itself listens further up.
    pub port: u16,
    /// What it speaks.
    pub kind: Kind,
    /// Whether it wants a PROXY line first.
    pub proxied: bool,
    /// Whether it knows the other host by one name only.
    pub exact: bool,
}

/// All that run.
pub struct Servers {
    children: Vec<Child>,
    folder: PathBuf,
    /// How far above its place's port each of them listens.
    above: u16,
    logs: Vec<PathBuf>,
    /// Where they are.
    pub places: Vec<Place>,
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // SAFETY: a signal to a group whose first process is our child, and has not been waited for.
            unsafe { libc::kill(-child.id().cast_signed(), libc::SIGKILL) };
            let _ = child.wait();
        }
    }
}

fn find(name: &str) -> Option<PathBuf> {
    program(name).or_else(|| Some(Path::new("/usr/sbin").join(name)).filter(|path| path.is_file()))
}

impl Servers {
    /// Starts all that are installed, each so far above its place's port.
    pub fn start(folder: &Path, above: u16) -> Result<Servers, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (children, logs, places) = (Vec::new(), Vec::new(), Vec::new());
        let mut servers = Servers { children, folder: folder.to_owned(), above, logs, places };
        servers.make_pages()?;
        servers.openssl();
        servers.gnutls();
        servers.nginx();
        servers.apache();
        servers.haproxy();
        servers.node();
        servers.python();
        servers.go();
        servers.await_all()?;
        Ok(servers)
    }

    /// The lines in which servers told that they took something for the other host.
    pub fn evidence(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for log in &self.logs {
            let text = fs::read(log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let told =
                |line: &&str| line.starts_with("EVIDENCE ") || line.starts_with("Hostname in TLS extension");
            // A line that is not whole yet is for the next time.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            // To a server a name is the same in capitals.
            let is_other = |line: &&str| line.to_ascii_lowercase().contains("other.test");
            lines.extend(whole.lines().filter(told).filter(is_other).map(str::to_owned));
        }
        lines
    }

    /// Those that are no longer there.
    pub fn gone(&mut self) -> Vec<String> {
        let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        let names: Vec<String> = self.logs.iter().map(|log| log.display().to_string()).collect();
        self.children.iter_mut().zip(names).filter_map(|(child, name)| ended(child).then_some(name)).collect()
    }

    /// Where the server of a place listens.
    fn at(&self, port: u16) -> String {
        (port + self.above).to_string()
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn make_pages(&self) -> Result<(), String> {
        for (name, mark) in [("allowed", ALLOWED_MARK), ("other", CANARY)] {
            let folder = self.folder.join(name);
            fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
            fs::write(folder.join("index.html"), format!("{mark}\n")).map_err(|error| error.to_string())?;
        }
        let certificate = |name: &str, host: &str, mark: &str| {
            let made = Command::new("openssl")
                .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
                .args(["-days", "2", "-subj", &format!("/O={mark}/CN={host}")])
                .args(["-addext", &format!("subjectAltName=DNS:{host},DNS:*.{host}")])
                .args([
                    "-keyout",
                    &self.path(&format!("{name}.key")),
                    "-out",
                    &self.path(&format!("{name}.pem")),
                ])
                .output();
            match made {
                Ok(output) if output.status.success() => Ok(()),
                Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
                Err(error) => Err(format!("openssl: {error}")),
            }
        };
        certificate("allowed", ALLOWED, ALLOWED_MARK)?;
        certificate("other", "other.test", CANARY)?;
        let both = ["other.pem", "other.key", "allowed.pem", "allowed.key"]
            .map(|name| fs::read(self.folder.join(name)));
        let [other_pem, other_key, pem, key] = both.map(Result::unwrap_or_default);
        let _ = fs::write(self.folder.join("both-allowed.pem"), [pem, key].concat());
        let _ = fs::write(self.folder.join("both-other.pem"), [other_pem, other_key].concat());
        Ok(())
    }

    fn launch(&mut self, name: &'static str, command: &mut Command, places: &[(u16, Kind, bool)]) {
        let log = self.folder.join(format!("{name}.log"));
        let Ok(output) = File::create(&log) else { return };
        let Ok(errors) = output.try_clone() else { return };
        // A group of its own: some servers have workers, which outlive a master that is killed.
        command.process_group(0).stdin(Stdio::null()).stdout(output).stderr(errors).current_dir(&self.folder);
        match command.spawn() {
            Ok(child) => self.children.push(child),
            Err(error) => return skipped(&format!("{name}: {error}")),
        }
        self.logs.push(log);
        let exact = name == "gnutls";
        self.places.extend(places.iter().map(|&(port, kind, proxied)| Place {
            name,
            port,
            kind,
            proxied,
            exact,
        }));
    }

    fn openssl(&mut self) {
        // It tells every name that it is asked for, but into a file only when there is a page of it: a line may stay in its
        // memory until it is killed, or come when somebody else is being judged.
        let mut command = Command::new("stdbuf");
        let accept = format!("127.0.0.1:{}", self.at(449));
        command.args(["-oL", "openssl", "s_server", "-www", "-accept", &accept, "-servername", "other.test"]);
        command.args([
            "-cert",
            "allowed.pem",
            "-key",
            "allowed.key",
            "-cert2",
            "other.pem",
            "-key2",
            "other.key",
        ]);
        self.launch("openssl", &mut command, &[(449, Kind::Tls, false)]);
    }

    fn gnutls(&mut self) {
        let Some(program) = find("gnutls-serv") else { return skipped("gnutls-serv is not installed") };
        let mut command = Command::new(program);
        // Its certificates are told from its answer, which only TLS 1.2 sends in plain.
        command.args(["--http", "--port", &self.at(450), "--priority", "NORMAL:-VERS-TLS1.3"]);
        for name in ["allowed", "other"] {
            command.args(["--x509certfile", &format!("{name}.pem"), "--x509keyfile", &format!("{name}.key")]);
        }
        self.launch("gnutls", &mut command, &[(450, Kind::Tls, false)]);
    }

    fn nginx(&mut self) {
        let Some(program) = find("nginx") else { return skipped("nginx is not installed") };
        let folder = self.path("");
        let mut blocks = String::new();
        for (name, hosts) in
            [("allowed", format!("{ALLOWED} _")), ("other", "other.test *.other.test".to_owned())]
        {
            let default = if name == "allowed" { " default_server" } else { "" };
            blocks.push_str(&format!(
                "server {{ server_name {hosts}; root {folder}{name};
                   listen 127.0.0.1:{}{default}; listen 127.0.0.1:{}{default} proxy_protocol;
                   listen 127.0.0.1:{} ssl{default}; listen 127.0.0.1:{} ssl{default} proxy_protocol;
                   ssl_certificate {folder}{name}.pem; ssl_certificate_key {folder}{name}.key; ssl_protocols TLSv1.2; }}\n",
                self.at(80), self.at(81), self.at(443), self.at(444)
            ));
        }
        let user = if am_root() { "user nobody nogroup;" } else { "" };
        let config = format!(
            "{user} daemon off; master_process off; pid {folder}nginx.pid; error_log {folder}nginx-errors.log; events {{}}
             http {{ access_log off; keepalive_timeout 5;
               client_body_temp_path {folder}nginx-1; proxy_temp_path {folder}nginx-2; fastcgi_temp_path {folder}nginx-3;
               uwsgi_temp_path {folder}nginx-4; scgi_temp_path {folder}nginx-5; {blocks} }}"
        );
        let path = self.path("nginx.conf");
        let _ = fs::write(&path, config);
        let mut command = Command::new(program);
        command.args(["-c", &path, "-p", &folder, "-e", &self.path("nginx-errors.log")]);
        let places = [
            (80, Kind::Http, false),
            (81, Kind::Http, true),
            (443, Kind::Tls, false),
            (444, Kind::Tls, true),
        ];
        self.launch("nginx", &mut command, &places);
    }

    fn apache(&mut self) {
        let Some(program) = find("apache2") else { return skipped("apache2 is not installed") };
        let folder = self.path("");
        let modules = ["mpm_event", "authz_core", "ssl", "socache_shmcb", "remoteip", "dir"];
        let load: String = modules
            .iter()
            .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
            .collect();
        let mut hosts = String::new();
        for (name, host) in [("allowed", ALLOWED), ("other", "other.test")] {
            for (port, tls, proxied) in [(82, false, false), (445, true, false), (92, false, true)] {
                let ssl = if tls {
                    format!(
                        "SSLEngine on\nSSLProtocol TLSv1.2\nSSLCertificateFile {folder}{name}.pem\nSSLCertificateKeyFile {folder}{name}.key\n"
                    )
                } else {
                    String::new()
                };
                let line = if proxied { "RemoteIPProxyProtocol On\n" } else { "" };
                hosts.push_str(&format!(
                    "<VirtualHost 127.0.0.1:{}>\nServerName {host}\nServerAlias *.{host}\nDocumentRoot {folder}{name}\nDirectoryIndex index.html\n{ssl}{line}</VirtualHost>\n",
                    self.at(port)
                ));
            }
        }
        let user = if am_root() { "User nobody\nGroup nogroup\n" } else { "" };
        let config = format!(
            "ServerRoot {folder}\nPidFile {folder}apache.pid\nErrorLog {folder}apache-errors.log\nDefaultRuntimeDir {folder}\n\
             ServerName default.test\nHttpProtocolOptions Unsafe\n{load}{user}Listen 127.0.0.1:{}\nListen 127.0.0.1:{}\nListen 127.0.0.1:{}\n\
             <Directory />\nRequire all granted\n</Directory>\n{hosts}",
            self.at(82),
            self.at(92),
            self.at(445)
        );
        let path = self.path("apache.conf");
        let _ = fs::write(&path, config);
        let mut command = Command::new(program);
        command.args(["-f", &path, "-DFOREGROUND"]);
        let places = [(82, Kind::Http, false), (92, Kind::Http, true), (445, Kind::Tls, false)];
        self.launch("apache", &mut command, &places);
    }

    fn haproxy(&mut self) {
        let Some(program) = find("haproxy") else { return skipped("haproxy is not installed") };
        let page =
            |mark: &str| format!("http-request return status 200 content-type text/plain string {mark}");
        let _ = fs::create_dir_all(self.folder.join("haproxy"));
        for name in ["allowed", "other"] {
            let _ = fs::copy(
                self.folder.join(format!("both-{name}.pem")),
                self.folder.join(format!("haproxy/{name}.pem")),
            );
        }
        let config = format!(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
             frontend f\n bind 127.0.0.1:{3}\n bind 127.0.0.1:{4} accept-proxy\n bind 127.0.0.1:{5} ssl crt {0}/allowed.pem crt {0}/other.pem ssl-max-ver TLSv1.2\n \
             bind 127.0.0.1:{6} accept-proxy ssl crt {0}/allowed.pem crt {0}/other.pem ssl-max-ver TLSv1.2\n \
             acl other req.hdr(host),field(1,:) -m end -i other.test\n use_backend o if other\n default_backend a\n\
             backend a\n {1}\nbackend o\n {2}\n",
            self.path("haproxy"),
            page(ALLOWED_MARK),
            page(CANARY),
            self.at(87),
            self.at(88),
            self.at(451),
            self.at(452)
        );
        let path = self.path("haproxy.cfg");
        let _ = fs::write(&path, config);
        let mut command = Command::new(program);
        command.args(["-db", "-f", &path]);
        let places = [
            (87, Kind::Http, false),
            (88, Kind::Http, true),
            (451, Kind::Tls, false),
            (452, Kind::Tls, true),
        ];
        self.launch("haproxy", &mut command, &places);
    }

    fn node(&mut self) {
        let Some(program) = find("node") else { return skipped("node is not installed") };
        let script = self.path("server.js");
        let _ = fs::write(&script, include_str!("server.js"));
        let mut command = Command::new(program);
        command.args([&script, &self.path(""), &self.at(83), &self.at(84), &self.at(446)]);
        let places = [(83, Kind::Http, false), (84, Kind::Http, false), (446, Kind::Tls, false)];
        self.launch("node", &mut command, &places);
    }

    fn python(&mut self) {
        let own = Some(PathBuf::from("/usr/bin/python3")).filter(|path| path.is_file());
        let Some(program) = own.or_else(|| find("python3")) else {
            return skipped("python3 is not installed");
        };
        let mut command = Command::new(program);
        command.args(["-c", include_str!("server.py"), &self.path(""), &self.at(86), &self.at(448)]);
        self.launch("python", &mut command, &[(86, Kind::Http, false), (448, Kind::Tls, false)]);
    }

    fn go(&mut self) {
        let Some(program) = find("go") else { return skipped("go is not installed") };
        // Both sets of servers have the one that was built first.
        let shared = self.folder.parent().unwrap_or(&self.folder);
        let (source, built) = (self.path("server.go"), shared.join("go-server").display().to_string());
        let _ = fs::write(&source, include_str!("server.go"));
        let mut build = Command::new(program);
        build.args(["build", "-o", &built, &source]).current_dir(&self.folder);
        build.env("GOPATH", self.path("go")).env("GO111MODULE", "off").env("CGO_ENABLED", "0");
        // Its standard library takes a while; whoever has a home has it there afterwards.
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| am_root() && home.is_dir());
        if home.is_none() {
            build.env("GOCACHE", self.path("go-cache")).env("HOME", &self.folder);
        }
        if !Path::new(&built).is_file() {
            match build.output() {
                Ok(output) if output.status.success() => {}
                Ok(output) => {
                    return skipped(&format!("go: {}", String::from_utf8_lossy(&output.stderr).trim()));
                }
                Err(error) => return skipped(&format!("go: {error}")),
            }
        }
        let mut command = Command::new(built);
        command
            .args([&self.path(""), &self.at(85), &self.at(447)])
            .args(PROTOCOL_PORTS.map(|port| self.at(port)));
        let mut places = vec![(85, Kind::Http, false), (447, Kind::Tls, false)];
        places.extend(PROTOCOL_PORTS.map(|port| (port, Kind::Both, false)));
        self.launch("go", &mut command, &places);
    }

    fn await_all(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        for place in &self.places {
            while TcpStream::connect(("127.0.0.1", place.port + self.above)).is_err() {
                if Instant::now() > deadline {
                    let log = fs::read_to_string(self.folder.join(format!("{}.log", place.name)))
                        .unwrap_or_default();
                    let errors = fs::read_to_string(self.folder.join(format!("{}-errors.log", place.name)));
                    return Err(format!(
                        "{} does not listen on {}: {log}{}",
                        place.name,
                        place.port,
                        errors.unwrap_or_default()
                    ));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }
}
