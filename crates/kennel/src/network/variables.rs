//! Variables that lead programs to the gate's proxy.

use std::ffi::OsString;

use kennel_policy::environment::DefaultVariable;
use kennel_policy::policy::NetworkPolicy;

/// Which hosts programs reach without the proxy: their own loopback, and no other. Private networks are not here: a
/// program that asks the proxy for a host is told why it is refused, and a proxy in the gate's place is not gone around.
/// `[::1]`, which Python's urllib would need, keeps every client of httpx 0.28 from starting.
const NO_PROXY: &str = "localhost,127.0.0.1,127.0.0.0/8,::1";

/// For programs that do use proxies. The others need none of these. A proxy of somebody else's is not shown the token.
pub(crate) fn variables(policy: &NetworkPolicy, token: &str, port: u16) -> Vec<(OsString, OsString)> {
    let login = |external: Option<u16>| match external {
        Some(_) => String::new(),
        None => format!("kennel:{token}@"),
    };
    let http = format!("http://{}127.0.0.1:{port}", login(policy.http_proxy_port));
    let socks = format!("socks5h://{}127.0.0.1:{port}", login(policy.socks_proxy_port));
    let both = |name: &str, value: &str| {
        [(name.to_owned(), value.to_owned()), (name.to_lowercase(), value.to_owned())]
    };
    let mut list = Vec::new();
    list.extend(both("HTTP_PROXY", &http));
    list.extend(both("HTTPS_PROXY", &http));
    // Not SOCKS: httpx refuses to start with it unless another package is there, and gRPC does not know it.
    list.extend(both("ALL_PROXY", &http));
    list.extend(both("GRPC_PROXY", &http));
    // curl would ask an HTTP proxy for `ftp://` with GET, which the gate does not do.
    list.extend(both("FTP_PROXY", &socks));
    list.extend(both("NO_PROXY", NO_PROXY));
    list.push(("RSYNC_PROXY".into(), format!("{}127.0.0.1:{port}", login(policy.http_proxy_port))));
    list.push(("DOCKER_HTTP_PROXY".into(), http.clone()));
    list.push(("DOCKER_HTTPS_PROXY".into(), http));
    list.push(("CLOUDSDK_PROXY_TYPE".into(), "http".into()));
    list.push(("CLOUDSDK_PROXY_ADDRESS".into(), "127.0.0.1".into()));
    list.push(("CLOUDSDK_PROXY_PORT".into(), port.to_string()));
    if policy.http_proxy_port.is_none() {
        list.push(("CLOUDSDK_PROXY_USERNAME".into(), "kennel".into()));
        list.push(("CLOUDSDK_PROXY_PASSWORD".into(), token.into()));
    }
    // git would otherwise first ask without the token, and some servers' answers confuse it.
    list.push(("GIT_CONFIG_PARAMETERS".into(), "'http.proxyAuthMethod=basic'".into()));
    list.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// How git and rsync call ssh, for callers who have not said it themselves.
///
/// ssh ends at once when its configuration has a `ControlPath` and it can make no unix socket, as in most sandboxes. The
/// two options turn that off, and nothing but the command line overrules the user's configuration. `GIT_SSH_COMMAND`
/// overrules git's `core.sshCommand`, so it asks for that one and adds to it. It is one command with quoted arguments:
/// some programs split it into words themselves, and people append options to it.
pub(crate) fn ssh_variables() -> Vec<DefaultVariable> {
    const GIT: &str = r#"sh -c 'eval "$(git config core.sshCommand || echo ssh) -o ControlMaster=no -o ControlPath=none \"\$@\""' ssh"#;
    const RSYNC: &str = "ssh -o ControlMaster=no -o ControlPath=none";
    vec![
        DefaultVariable { name: "GIT_SSH_COMMAND", value: GIT.into(), unless: &["GIT_SSH"] },
        DefaultVariable { name: "RSYNC_RSH", value: RSYNC.into(), unless: &[] },
    ]
}
