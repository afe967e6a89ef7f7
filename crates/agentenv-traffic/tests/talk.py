"""Talks HTTP over the loopback interface of a network namespace of its own while tcpdump captures it into the file named."""

import gzip
import http.client
import http.server
import socket
import subprocess
import sys
import threading
import time

LIMIT_S = 20
LARGE = bytes(number * 31 % 251 for number in range(400_000))
MARK = b"this is the last packet"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body=b"", status=200, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        if self.path == "/gzip":
            self.answer(gzip.compress(b"squeezed " * 100), Content_Encoding="gzip", Content_Type="text/plain")
        elif self.path == "/large":
            self.answer(LARGE, Content_Type="application/octet-stream")
        elif self.path == "/chunked":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (b"one", b"two" * 1000, b"three"):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        elif self.path == "/old":
            self.close_connection = True
            self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")
        elif self.path == "/nothing":
            self.send_response(204)
            self.end_headers()
        elif self.path == "/elsewhere":
            self.answer(status=302, Location="/plain")
        else:
            self.answer(b"plain " + self.path.encode(), Content_Type="text/plain")

    do_HEAD = do_GET

    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers["Content-Length"])), Content_Type="text/plain")

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64


class Server6(Server):
    address_family = socket.AF_INET6


def talk(host, port, source):
    client = http.client.HTTPConnection(host, port, source_address=source, timeout=LIMIT_S)
    for method, path, body in (
        ("GET", "/plain", None), ("GET", "/gzip", None), ("HEAD", "/plain", None), ("GET", "/chunked", None),
        ("POST", "/echo", b"posted"), ("GET", "/nothing", None), ("GET", "/elsewhere", None), ("GET", "/large", None),
        ("POST", "/echo", LARGE), ("GET", "/old", None),
    ):
        client.request(method, path, body, {"Host": "shop.test", "X-Real": "yes"})
        client.getresponse().read()
    client.close()


def pipeline(port):
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as client:
        ask = b"GET /%d HTTP/1.1\r\nHost: shop.test\r\n\r\n"
        client.sendall(b"".join(ask % number for number in range(20)))
        got = b""
        while got.count(b"plain /") < 20:
            got += client.recv(65536)


def captured(path):
    """Runs tcpdump and gives it back once it captures."""
    tcpdump = subprocess.Popen(
        ["tcpdump", "-i", "lo", "-w", path, "-U", "-s", "262144", "-B", "65536"],
        stderr=subprocess.PIPE, text=True,
    )
    while "listening on" not in (line := tcpdump.stderr.readline()):
        assert line, "tcpdump ended"
    return tcpdump


def main(path):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    servers = [Server(("0.0.0.0", 8000), Handler), Server6(("::1", 8080), Handler)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    tcpdump = captured(path)
    talk("127.0.0.1", 8000, ("127.0.0.2", 0))
    talk("::1", 8080, ("::1", 21000))
    pipeline(8000)
    clients = [threading.Thread(target=talk, args=("127.0.0.1", 8000, ("127.0.0.2", 0))) for _ in range(8)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(MARK, ("127.0.0.1", 9000))
    until = time.monotonic() + LIMIT_S
    with open(path, "rb") as file:
        end = b""
        while MARK not in end and time.monotonic() < until:
            more = file.read()
            end = end[-len(MARK):] + more if more else end
            if not more:
                time.sleep(0.01)
    tcpdump.terminate()
    said = tcpdump.stderr.read()
    assert MARK in end and "\n0 packets dropped by kernel" in said, said


main(sys.argv[1])
