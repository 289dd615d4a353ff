"""One server for all clients: model APIs, registries, repositories and gRPC, for every name below web.test.

HTTPS is on the listener that is handed over as descriptor 103. What clients fetch is made here, in memory, so that the
suite brings no archives along. Each answer that a client shows has the word of its host in it: `hello from HOST`.
"""

import base64
import gzip
import hashlib
import http.server
import io
import json
import os
import socket
import ssl
import sys
import tarfile
import threading
import zipfile

folder = sys.argv[1]
CERTIFICATE = os.path.join(folder, "server.pem")
KEY = os.path.join(folder, "server.key")
GRPC_PORT = 50051


def tar(files, mode="w:gz"):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:
        for name, text in files.items():
            text = text if isinstance(text, bytes) else text.encode()
            member = tarfile.TarInfo(name)
            member.size = len(text)
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(text))
    return data.getvalue()


def zipped(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


NPM = tar({"package/package.json": json.dumps({"name": "npm-demo", "version": "1.0.0"})})

WHEEL = zipped({
    "demo.py": "x = 1\n",
    "demo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
    "demo-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "demo-1.0.dist-info/RECORD": "demo.py,,\ndemo-1.0.dist-info/METADATA,,\ndemo-1.0.dist-info/WHEEL,,\n"
                                 "demo-1.0.dist-info/RECORD,,\n",
})

CRATE = tar({
    "cargo-demo-1.0.0/Cargo.toml": '[package]\nname = "cargo-demo"\nversion = "1.0.0"\nedition = "2021"\n',
    "cargo-demo-1.0.0/src/lib.rs": "",
})

MODULE = "example.test/demo"
GO_MOD = f"module {MODULE}\n"
GO_ZIP = zipped({f"{MODULE}@v1.0.0/go.mod": GO_MOD, f"{MODULE}@v1.0.0/demo.go": "package demo\n"})

SPECIFICATION = """--- !ruby/object:Gem::Specification
name: demo
version: !ruby/object:Gem::Version
  version: 1.0.0
platform: ruby
authors: [nobody]
date: 2024-01-01 00:00:00.000000000 Z
dependencies: []
email:
executables: []
extensions: []
extra_rdoc_files: []
files: [lib/demo.rb]
homepage:
licenses: [MIT]
metadata: {}
require_paths: [lib]
required_ruby_version: !ruby/object:Gem::Requirement
  requirements:
  - - ">="
    - !ruby/object:Gem::Version
      version: '0'
required_rubygems_version: !ruby/object:Gem::Requirement
  requirements:
  - - ">="
    - !ruby/object:Gem::Version
      version: '0'
requirements: []
rubygems_version: 3.3.15
specification_version: 4
summary: a demonstration
"""
GEM = tar({
    "metadata.gz": gzip.compress(SPECIFICATION.encode()),
    "data.tar.gz": tar({"lib/demo.rb": "X = 1\n"}),
}, mode="w")
GEM_INFO = f"---\n1.0.0 |checksum:{hashlib.sha256(GEM).hexdigest()}\n"
GEM_VERSIONS = (f"created_at: 2024-01-01T00:00:00Z\n---\ndemo 1.0.0 {hashlib.md5(GEM_INFO.encode()).hexdigest()}\n")

PARENT = """<project><modelVersion>4.0.0</modelVersion><groupId>test.example</groupId>
<artifactId>parent</artifactId><version>1.0.0</version><packaging>pom</packaging></project>"""

MODEL = json.dumps({"text": "hello from a model"}).encode()


def answer(method, path, host):
    """The body for a request, with fields for its head; None where there is nothing."""
    if path == "/hello":
        return f"hello from {host}\n", {}
    if path.endswith("/v1/chat/completions") and method == "POST":
        message = {"role": "assistant", "content": f"hello from {host}"}
        return {
            "id": "1", "object": "chat.completion", "created": 1, "model": "demo",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }, {}
    if path.endswith("/v1/messages") and method == "POST":
        return {
            "id": "1", "type": "message", "role": "assistant", "model": "demo",
            "content": [{"type": "text", "text": f"hello from {host}"}],
            "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }, {}
    if path == "/demo/model/resolve/main/config.json":
        return MODEL, {"ETag": f'"{hashlib.sha1(MODEL).hexdigest()}"', "X-Repo-Commit": "a" * 40}
    if path == "/npm-demo":
        dist = {
            "shasum": hashlib.sha1(NPM).hexdigest(),
            "integrity": "sha512-" + base64.b64encode(hashlib.sha512(NPM).digest()).decode(),
            "tarball": f"https://{host}/npm-demo/-/npm-demo-1.0.0.tgz",
        }
        return {
            "name": "npm-demo", "dist-tags": {"latest": "1.0.0"},
            "versions": {"1.0.0": {"name": "npm-demo", "version": "1.0.0", "dist": dist}},
            "time": {"created": "2020-01-01T00:00:00.000Z", "modified": "2020-01-01T00:00:00.000Z",
                     "1.0.0": "2020-01-01T00:00:00.000Z"},
        }, {}
    index = f'<a href="demo-1.0-py3-none-any.whl#sha256={hashlib.sha256(WHEEL).hexdigest()}">demo-1.0-py3-none-any.whl</a>'
    entry = {"name": "cargo-demo", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False,
             "cksum": hashlib.sha256(CRATE).hexdigest()}
    fixed = {
        "/npm-demo/-/npm-demo-1.0.0.tgz": NPM,
        "/simple/demo/": index,
        "/simple/demo/demo-1.0-py3-none-any.whl": WHEEL,
        "/index/config.json": json.dumps({"dl": f"https://{host}/crates/{{crate}}-{{version}}.crate"}),
        "/index/ca/rg/cargo-demo": json.dumps(entry) + "\n",
        "/crates/cargo-demo-1.0.0.crate": CRATE,
        f"/go/{MODULE}/@v/list": "v1.0.0\n",
        f"/go/{MODULE}/@v/v1.0.0.info": json.dumps({"Version": "v1.0.0", "Time": "2020-01-01T00:00:00Z"}),
        f"/go/{MODULE}/@v/v1.0.0.mod": GO_MOD,
        f"/go/{MODULE}/@v/v1.0.0.zip": GO_ZIP,
        "/maven/test/example/parent/1.0.0/parent-1.0.0.pom": PARENT,
        "/maven/test/example/parent/1.0.0/parent-1.0.0.pom.sha1": hashlib.sha1(PARENT.encode()).hexdigest(),
        "/versions": GEM_VERSIONS,
        "/names": "---\ndemo\n",
        "/info/demo": GEM_INFO,
        "/gems/demo-1.0.0.gem": GEM,
    }
    return (fixed[path], {}) if path in fixed else None


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files of the folder `www` are git's; all else is made by `answer`."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=os.path.join(folder, "www"))

    def respond(self):
        path = self.path.split("?")[0]
        host = self.headers.get("Host", "").split(":")[0]
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = answer(self.command, path, host)
        if found is None:
            if self.command in ("GET", "HEAD") and path.startswith("/demo.git/"):
                return super().do_GET() if self.command == "GET" else super().do_HEAD()
            return self.send_error(404)
        body, fields = found
        kind = "application/json" if isinstance(body, dict) else "text/html"
        body = json.dumps(body) if isinstance(body, dict) else body
        body = body.encode() if isinstance(body, str) else body
        self.send_response(200)
        fields = {"Content-Type": kind, "Content-Length": str(len(body))} | fields
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = respond


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, listener):
        super().__init__(("", 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def handle_error(self, *_):
        """Clients that go away are what these tests are about."""


def serve_grpc():
    """`/demo.Demo/Hello` answers with the name that it was asked by."""
    sys.path.append(os.path.join(os.environ.get("KENNEL_CLIENTS", "/nonexistent"), "python"))
    import grpc
    from concurrent import futures

    def hello(_, context):
        metadata = dict(context.invocation_metadata())
        return f"hello from {metadata.get('asked', '')}".encode()

    method = grpc.unary_unary_rpc_method_handler(hello)
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("demo.Demo", {"Hello": method}),))
    with open(KEY, "rb") as key, open(CERTIFICATE, "rb") as certificate:
        login = grpc.ssl_server_credentials([(key.read(), certificate.read())])
    server.add_secure_port(f"[::]:{GRPC_PORT}", login)
    server.start()
    server.wait_for_termination()


if os.path.exists(CERTIFICATE):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    context.set_alpn_protocols(["http/1.1"])
    # The handshake belongs to the client's own thread: it happens at the first read.
    secure = context.wrap_socket(socket.socket(fileno=103), server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=Server(secure).serve_forever).start()
    serve_grpc()
