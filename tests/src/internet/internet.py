"""A real internet in a network namespace: name server, HTTPS and HTTP origins under a root of its own, traps.

Started inside a new namespace as `internet.py FOLDER`. Prints `ready` and runs until its standard input ends. In FOLDER: `ca.pem`,
`requests.jsonl` (each request that an origin got), `dns.jsonl` (each question), `trapped` (each connection to an address that nobody
may reach), and `mode`, which a test may write: `captcha`, `refuse`, `hang`, or nothing.
"""

import http.server
import ipaddress
import json
import os
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.parse

FOLDER = sys.argv[1]
DNS = "203.0.113.53"
PRIVATE = "10.9.9.9"
TOKEN = "ghp_octocats-own-token"
SESSION = "octocats-own-session"
# Name to address; names of one address share a certificate.
NAMES = {
    "github.com": "203.0.113.10",
    "www.github.com": "203.0.113.10",
    "github.githubassets.com": "203.0.113.11",
    "avatars.githubusercontent.com": "203.0.113.12",
    "api.github.com": "203.0.113.13",
    "gist.github.com": "203.0.113.14",
    "example.com": "203.0.113.20",
    "pypi.org": "203.0.113.21",
    "portal.github.com": "203.0.113.30",
    "expired.github.com": "203.0.113.31",
    "self-signed.github.com": "203.0.113.32",
    "rebind.github.com": "203.0.113.10",
    "internal.github.com": PRIVATE,
    "h2.github.com": "203.0.113.33",
}
# Names whose answers hold an address that is not public.
INSIDE = {
    "shared.github.com": ["100.64.0.1"],
    "multicast.github.com": ["224.0.0.251"],
    "nothing.github.com": ["0.0.0.0"],
    "metadata.github.com": ["169.254.169.254"],
    "loopback6.github.com": ["::1"],
    "mapped.github.com": ["::ffff:127.0.0.1"],
    "unique-local.github.com": ["fd00::1"],
    "nat64.github.com": ["64:ff9b::7f00:1"],
    "mixed.github.com": ["203.0.113.10", "127.0.0.1"],
    "mixed6.github.com": ["203.0.113.10", "::1"],
}
# Another name for an internal host.
ALIAS, TARGET = "alias.github.com", "intranet.github.com"
METADATA = "169.254.169.254"
WRITING = threading.Lock()


def note(log, **what):
    with WRITING, open(os.path.join(FOLDER, log), "a") as file:
        file.write(json.dumps(what) + "\n")


def mode():
    try:
        with open(os.path.join(FOLDER, "mode")) as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def run(*command, **more):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **more)


def certificate(name, names, days=30, sign=True):
    """A key and a certificate for names, signed by the root or by itself; with negative days it is over."""
    path = lambda kind: os.path.join(FOLDER, f"{name}.{kind}")
    run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path("key"),
        "-out", path("csr"), "-subj", f"/CN={names[0]}")
    with open(path("ext"), "w") as file:
        file.write("subjectAltName=" + ",".join(f"DNS:{one}" for one in names) + "\nextendedKeyUsage=serverAuth\n")
    signer = ["-CA", os.path.join(FOLDER, "ca.pem"), "-CAkey", os.path.join(FOLDER, "ca.key"), "-CAcreateserial"]
    # `x509 -req` takes no dates in the past: `ca` does.
    if days < 0:
        with open(path("cnf"), "w") as file:
            file.write(f"[ca]\ndefault_ca=d\n[d]\ndatabase={path('db')}\nserial={path('serial')}\nnew_certs_dir={FOLDER}\n"
                       "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")
        open(path("db"), "w").close()
        with open(path("serial"), "w") as file:
            file.write("01\n")
        run("openssl", "ca", "-batch", "-config", path("cnf"), "-in", path("csr"), "-out", path("pem"), "-extfile", path("ext"),
            "-cert", os.path.join(FOLDER, "ca.pem"), "-keyfile", os.path.join(FOLDER, "ca.key"), "-startdate", "20240101000000Z",
            "-enddate", "20240201000000Z", "-notext")
    else:
        run("openssl", "x509", "-req", "-in", path("csr"), "-out", path("pem"), "-days", str(days), "-extfile", path("ext"),
            *(signer if sign else ["-signkey", path("key")]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path("pem"), path("key"))
    return context


PAGE = """<!doctype html><html><head><title>GitHub</title>{login}
<link rel="stylesheet" href="https://github.githubassets.com/assets/light.css"></head>
<body><h1 id="who">{who}</h1><img id="face" src="https://avatars.githubusercontent.com/u/583231.png" alt="">
<a href="https://gist.github.com/">Gists</a></body></html>"""
# One red pixel.
PIXEL = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
                      "53de0000000c4944415408d763f8cfc0000003010100c9fe92ef0000000049454e44ae426082")
CAPTCHA = "<!doctype html><title>Verify</title><p>Please verify that you are human.</p><div class=\"captcha\"></div>"
REPOSITORY = {"id": 1296269, "name": "Hello-World", "full_name": "octocat/Hello-World", "private": False,
              "owner": {"login": "octocat", "id": 583231}, "description": "My first repository on GitHub!",
              "html_url": "https://github.com/octocat/Hello-World", "default_branch": "master", "open_issues_count": 2}
ISSUES = [{"number": number, "title": title, "state": "open", "user": {"login": "octocat"}}
          for number, title in ((7, "Edited README via GitHub"), (8, "Create hello.txt"))]


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    tls = True

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind="text/html; charset=utf-8", **headers):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def json(self, status, value):
        self.answer(status, json.dumps(value), "application/json; charset=utf-8")

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.do_GET()

    def do_GET(self):
        host = (self.headers.get("Host") or "").split(":")[0]
        note("requests.jsonl", host=host, tls=self.tls, method=self.command, path=self.path,
             headers={name.lower(): value for name, value in self.headers.items()})
        if mode() == "hang":
            time.sleep(600)
        if not self.tls:
            if self.path == "/plain":
                return self.answer(200, "plain " + host)
            return self.answer(301, "", Location=f"https://{host}{self.path}")
        path = urllib.parse.urlsplit(self.path).path
        if host == "api.github.com":
            return self.api(path)
        if host in ("github.com", "www.github.com", "rebind.github.com"):
            signed_in = f"user_session={SESSION}" in (self.headers.get("Cookie") or "")
            return self.answer(200, PAGE.format(
                who="Signed in as octocat" if signed_in else "Sign in to GitHub",
                login='<meta name="user-login" content="octocat">' if signed_in else ""))
        if host == "github.githubassets.com":
            return self.answer(200, "h1 { color: rgb(1, 2, 3) }", "text/css", Access_Control_Allow_Origin="*")
        if host == "avatars.githubusercontent.com":
            return self.answer(200, PIXEL, "image/png")
        if host == "portal.github.com":
            to = urllib.parse.urlsplit(self.path).query
            return self.answer(302, "", Location=urllib.parse.unquote(to) or "https://example.com/login")
        self.answer(200, f"<!doctype html><title>real {host}</title>real {host}")

    def api(self, path):
        if mode() == "captcha":
            return self.answer(403, CAPTCHA)
        given = self.headers.get("Authorization") or ""
        if mode() == "refuse" or given not in (f"token {TOKEN}", f"Bearer {TOKEN}"):
            return self.json(401, {"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest"})
        known = {"/user": {"login": "octocat", "id": 583231}, "/repos/octocat/Hello-World": REPOSITORY,
                 "/user/repos": [REPOSITORY], "/repos/octocat/Hello-World/issues": ISSUES}
        if path not in known:
            return self.json(404, {"message": "Not Found", "documentation_url": "https://docs.github.com/rest"})
        self.json(200, known[path])


class Plain(Origin):
    tls = False


class Http2(socketserver.BaseRequestHandler):
    """Answers every request over HTTP/2 with a page, whatever it asks for."""

    def frame(self, kind, flags, stream, payload=b""):
        self.request.sendall(struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload)

    def handle(self):
        file = self.request.makefile("rb")
        file.read(24)
        self.frame(4, 0, 0)
        while len(head := file.read(9)) == 9:
            length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            stream, payload = int.from_bytes(head[5:], "big"), file.read(length)
            if kind in (4, 6) and not flags & 1:
                self.frame(kind, 1, 0, payload if kind == 6 else b"")
            if kind == 1:
                note("requests.jsonl", host="h2.github.com", tls=True, method="?", path="?", headers={})
                # `:status: 200`, then literals that no table keeps; it says that it has HTTP/3 too, and for whom else it speaks.
                fields = {"content-type": "text/html", "alt-svc": 'h3=":443", h2="gist.github.com:443"'}
                self.frame(1, 4, stream, b"\x88" + b"".join(
                    bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode() for name, value in fields.items()))
                self.frame(0, 1, stream, b"<!doctype html><title>h2</title><h1>real over h2</h1>")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    context = None

    def server_bind(self):
        socket.socket.setsockopt(self.socket, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)

    def finish_request(self, request, address):
        # In the thread of the connection, so that a silent client holds up nobody.
        if self.context is not None:
            request = self.context.wrap_socket(request, server_side=True)
        super().finish_request(request, address)

    def handle_error(self, *_):
        pass


def serve(address, port, handler, context=None):
    server = Server((address, port), handler)
    server.context = context
    threading.Thread(target=server.serve_forever, daemon=True).start()


def trap(address, port):
    listener = socket.create_server((address, port))

    def wait():
        while True:
            connection, peer = listener.accept()
            note("trapped", address=address, port=port, peer=peer)
            connection.close()

    threading.Thread(target=wait, daemon=True).start()


def name_server():
    asked = {}
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((DNS, 53))
    while True:
        message, client = server.recvfrom(4096)
        labels, at = [], 12
        while message[at]:
            labels.append(message[at + 1:at + 1 + message[at]].decode("ascii", "replace").lower())
            at += 1 + message[at]
        kind = struct.unpack(">H", message[at + 1:at + 3])[0]
        name, question = ".".join(labels), message[12:at + 5]
        note("dns.jsonl", name=name, type=kind)
        addresses = INSIDE.get(name) or ([NAMES[name]] if name in NAMES else [])
        if name == "rebind.github.com" and kind == 1:
            asked[name] = asked.get(name, 0) + 1
            if asked[name] > 1:
                addresses = ["127.0.0.1"]
        records, owner = [], b"\xc0\x0c"
        if name == ALIAS:
            owner = b"".join(bytes([len(label)]) + label.encode() for label in TARGET.split(".")) + b"\0"
            records, addresses = [(b"\xc0\x0c", 5, owner)], [PRIVATE]
        packed = [ipaddress.ip_address(address).packed for address in addresses]
        records += [(owner, kind, data) for data in packed if kind == {4: 1, 16: 28}[len(data)]]
        head = message[:2] + struct.pack(">HHHHH", 0x8180 | (0 if addresses else 3), 1, len(records), 0, 0)
        # Kept by nobody: each has a time to live of zero.
        answer = b"".join(who + struct.pack(">HHIH", what, 1, 0, len(data)) + data for who, what, data in records)
        server.sendto(head + question + answer, client)


def main():
    run("ip", "link", "set", "lo", "up")
    for address in sorted({DNS, METADATA, *NAMES.values()}):
        run("ip", "addr", "add", f"{address}/32", "dev", "lo")
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj",
        "/CN=Root of the test's internet", "-keyout", os.path.join(FOLDER, "ca.key"), "-out", os.path.join(FOLDER, "ca.pem"))
    for address in {address for address in NAMES.values() if address != PRIVATE}:
        names = sorted((name for name in NAMES if NAMES[name] == address), key=len)
        if names[0] in ("github.com", "h2.github.com"):
            # It covers names that are other sites': browsers that reuse HTTP/2 connections by certificate would go wrong.
            names.append("*.github.com")
        days = -1 if names[0] == "expired.github.com" else 30
        context = certificate(names[0], names, days, sign=names[0] != "self-signed.github.com")
        if names[0] == "h2.github.com":
            context.set_alpn_protocols(["h2"])
        serve(address, 443, Http2 if names[0] == "h2.github.com" else Origin, context)
        serve(address, 80, Plain)
    traps = [(address, port) for address in (PRIVATE, "127.0.0.1", METADATA) for port in (80, 443)]
    traps += [("203.0.113.10", port) for port in (22, 25, 853, 8443)] + [(DNS, 443), (DNS, 853)]
    for address, port in traps:
        trap(address, port)
    threading.Thread(target=name_server, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


main()
