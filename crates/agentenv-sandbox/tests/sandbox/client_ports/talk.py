"""talk.py NAME PORT ROUNDS OTHER..: serves on its port, opens connections of every kind to the others once it is told
to go, and says who spoke to it from which port."""
import errno, selectors, socket, sys, threading

name, port, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
others = [int(other) for other in sys.argv[4:]]


def serve_tcp(listener, hear):
    while True:
        stream, peer = listener.accept()
        with stream:
            who = stream.recv(100).decode()
            stream.send(b"!")
        hear(who, peer)


def serve_udp(udp, hear):
    while True:
        who, peer = udp.recvfrom(100)
        udp.sendto(b"!", peer)
        hear(who.decode(), peer)


def blocking(other):
    return socket.create_connection(("127.0.0.1", other))


def polled(other):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    assert s.connect_ex(("127.0.0.1", other)) in (0, errno.EINPROGRESS)
    with selectors.DefaultSelector() as poll:
        poll.register(s, selectors.EVENT_WRITE)
        poll.select()
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    s.setblocking(True)
    return s


def bound(other):
    return socket.create_connection(("127.0.0.1", other), source_address=("127.0.0.1", 0))


def of_ipv6(other):
    return socket.create_connection(("::1", other))


def mapped(other):
    s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    s.connect(("::ffff:127.0.0.1", other))
    return s


def datagram(other):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("127.0.0.1", other))
    return s


class Unconnected:
    """A datagram socket that nobody connects or binds."""

    def __init__(self, other):
        self.s, self.other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), other

    def send(self, text):
        self.s.sendto(text, ("127.0.0.1", self.other))

    def recv(self, length):
        return self.s.recv(length)

    def close(self):
        self.s.close()


KINDS = [blocking, polled, bound, of_ipv6, mapped, datagram, Unconnected]
heard, all_heard, lock = [], threading.Event(), threading.Lock()


def hear(who, peer):
    with lock:
        heard.append((who, peer[1]))
        if len(heard) == len(others) * rounds * len(KINDS):
            all_heard.set()


tcp = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1000)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", port))
go = socket.create_server(("127.0.0.1", port + 1))
for serve, server in (serve_tcp, tcp), (serve_udp, udp):
    threading.Thread(target=serve, args=(server, hear), daemon=True).start()
print("up", flush=True)
go.accept()
for _ in range(rounds):
    for other in others:
        for kind in KINDS:
            s = kind(other)
            s.send(name.encode())
            assert s.recv(1) == b"!", kind
            s.close()
all_heard.wait()
for who, its in heard:
    print(who, its)
