"""HTTPS, files for git, pip and npm, and WebSockets, on listeners that are handed over as descriptors 103 and 104."""

import base64
import hashlib
import http.server
import os
import socket
import ssl
import sys
import threading

folder = sys.argv[1]


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=os.path.join(folder, "www"))

    def do_GET(self):
        if self.headers.get("Upgrade", "").lower() == "websocket":
            return self.websocket()
        if self.path != "/hello":
            return super().do_GET()
        body = f"hello from {self.headers['Host']}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        left = int(self.headers.get("Content-Length", "0"))
        while left > 0:
            data = self.rfile.read(min(left, 65536))
            if not data:
                return
            left -= len(data)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def websocket(self):
        """RFC 6455, as far as an echo of short frames needs it."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        self.wfile.flush()
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                break
            length = head[1] & 127
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[i % 4] for i, byte in enumerate(self.rfile.read(length)))
            self.wfile.write(bytes([head[0], length]) + data)
        self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, listener):
        super().__init__(("", 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def handle_error(self, *_):
        """Clients that go away are what these tests are about."""


plain = socket.socket(fileno=104)
threads = [threading.Thread(target=Server(plain).serve_forever)]
if os.path.exists(os.path.join(folder, "server.pem")):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(folder, "server.pem"), os.path.join(folder, "server.key"))
    context.set_alpn_protocols(["http/1.1"])
    # The handshake belongs to the client's own thread: it happens at the first read.
    secure = context.wrap_socket(socket.socket(fileno=103), server_side=True, do_handshake_on_connect=False)
    threads.append(threading.Thread(target=Server(secure).serve_forever))
for thread in threads:
    thread.start()
