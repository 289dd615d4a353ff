//! Servers inside, which clients that use the proxy reach without it.

use kennel_tests::skipped;

use crate::clients::installed::{self, Need};
use crate::clients::{Way, ask};
use kennel_tests::world::{self, world};

#[test]
fn python_clients_reach_servers_inside_without_the_proxy() {
    if world().is_none() {
        return;
    }
    let Some(python) = world::python() else { return skipped("python3 is not installed") };
    for need in [Need::Python("httpx"), Need::Python("requests")] {
        if let Err(reason) = need.version() {
            return skipped(&reason);
        }
    }
    let script = "$PYTHON -c '
import http.server, threading, socket, httpx, requests
class Server(http.server.HTTPServer): address_family = socket.AF_INET6
server = Server((\"::\", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for client in (httpx, requests):
    for host in (\"localhost\", \"127.0.0.1\", \"[::1]\"):
        print(client.__name__, host, client.get(\"http://%s:%d/\" % (host, server.server_port), timeout=20).status_code)
' 2>/dev/null";
    let python = python.display().to_string();
    let packages = installed::folder().unwrap_or_default().join("python").display().to_string();
    let variables = [("PYTHON", python.as_str()), ("PYTHONPATH", &packages)];
    let seen = ask(Way::Variables, script, &["inside.web.test"], &variables, &[]);
    let hosts = ["localhost", "127.0.0.1", "[::1]"];
    let expected: Vec<String> = ["httpx", "requests"]
        .iter()
        .flat_map(|client| hosts.iter().map(move |host| format!("{client} {host} 200")))
        .collect();
    assert_eq!(seen.answers[0].0.trim().lines().collect::<Vec<_>>(), expected, "{}", seen.all);
}
