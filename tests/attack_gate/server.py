"""HTTP, and HTTPS that tells which name it was asked for. Arguments: folder, HTTP port, HTTPS port."""

import http.server
import ssl
import sys
import threading

folder, plain_port, secure_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def is_other(name):
    """A name is the same in capitals, and with the dot of the root."""
    return name.lower().removesuffix(".").endswith("other.test")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 5

    def do_GET(self):
        host = self.headers.get("Host", "").split(":")[0]
        if self.path.startswith("http://"):
            host = self.path.split("/")[2].split(":")[0]
        other = is_other(host)
        if other:
            print("EVIDENCE http", host, flush=True)
        body = open(f"{folder}/{'other' if other else 'allowed'}/index.html", "rb").read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass


def named(connection, name, _):
    if name and is_other(name):
        print("EVIDENCE sni", name, flush=True)
        connection.context = other


context, other = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{folder}/allowed.pem", f"{folder}/allowed.key")
other.load_cert_chain(f"{folder}/other.pem", f"{folder}/other.key")
context.sni_callback = named
secure = Server(("127.0.0.1", secure_port), Handler)
secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
threading.Thread(target=secure.serve_forever).start()
Server(("127.0.0.1", plain_port), Handler).serve_forever()
