"""A site that keeps every rule of website/v1, with nothing but Python's own library."""

import json
import os
import signal
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME = ""
DOMAINS = []
PORT = int(os.environ.get("PORT", "8000"))
KEY = os.environ.get("AGENTENV_SITE_KEY", "")
READY = (200, "")
rows = []


def log(line):
    print(line, file=sys.stderr, flush=True)


def card():
    params = {"name": NAME, "domains": DOMAINS, "live": False, "allow_hosts": [], "routes": ["/"]}
    # CARD
    extension = {"uri": "urn:agentenv:website/v1", "description": "test site", "required": False, "params": params}
    return {
        "name": NAME,
        "description": "A site of a test",
        "version": "0.1.0",
        "supportedInterfaces": [
            {"url": f"http://127.0.0.1:{PORT}/", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
        ],
        "capabilities": {"extensions": [extension]},
        "defaultInputModes": ["application/json"],
        "defaultOutputModes": ["application/json"],
        "skills": [],
    }


class Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind="application/json"):
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, kind, message):
        self.answer(status, {"kind": kind, "message": message, "hint": ""})

    def do_GET(self):
        if self.path == "/.well-known/agent-card.json":
            return self.answer(200, card())
        if self.path.startswith("/api/"):
            if self.headers.get("Agentenv-Site-Key") != KEY:
                return self.refuse(404, "not_found", "no such page")
            if self.path == "/api/ready":
                status, reason = READY
                if status == 200:
                    return self.answer(200, {})
                return self.refuse(status, "not_ready", reason)
            return self.refuse(404, "not_found", "no such operation")
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/stop-accepting":
            threading.Thread(target=server.shutdown).start()
            return self.answer(200, {})
        if url.path == "/go":
            to = urllib.parse.parse_qs(url.query)["to"][0]
            return self.answer(200, f"<!doctype html><title>go</title><script>location.href={to!r}</script>", "text/html")
        if url.path == "/cookie":
            return self.answer(200, {"cookie": self.headers.get("Cookie", "")})
        host = self.headers.get("Host", "")
        self.answer(200, f"<!doctype html><title>{NAME}</title><h1>{NAME} at {host}</h1>", "text/html")

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        if not self.path.startswith("/api/"):
            return self.answer(200, {"posted": body})
        if self.headers.get("Agentenv-Site-Key") != KEY:
            return self.refuse(404, "not_found", "no such page")
        if self.path == "/api/data/load":
            rows.extend(body["data"]["rows"])
            return self.answer(200, {})
        if self.path == "/api/data/get":
            return self.answer(200, {"data": {"rows": rows}})
        if self.path == "/api/data/reset":
            rows.clear()
            return self.answer(200, {})
        if self.path == "/api/session":
            user = body.get("user") or "guest"
            cookie = {"name": "user", "value": user, "domain": DOMAINS[0], "path": "/", "expires": -1,
                      "httpOnly": True, "secure": False, "sameSite": "Lax"}
            return self.answer(200, {"cookies": [cookie], "origins": []})
        return self.refuse(404, "not_found", "no such operation")


# BEFORE
log(f"listening on {PORT}")
server = ThreadingHTTPServer(("127.0.0.1", PORT), Site)
server.serve_forever()
# Told to stop accepting: the socket goes on listening, and nobody accepts.
signal.pause()
