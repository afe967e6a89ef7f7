"""same.py: asserts that sockets are what they are without a socket maker."""
import errno, fcntl, os, resource, socket, sys

first, last = int(sys.argv[1]), int(sys.argv[2])


def fails(expected, call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        assert error.errno == expected, (error, errno.errorcode[expected])
    else:
        raise AssertionError(f"no {errno.errorcode[expected]}")


INET, INET6, STREAM, DGRAM = socket.AF_INET, socket.AF_INET6, socket.SOCK_STREAM, socket.SOCK_DGRAM
# A port that somebody chose stays; the next free one is of the service's range, for servers too.
with socket.socket(INET, STREAM) as s:
    s.bind(("127.0.0.1", 5000))
    s.listen()
    assert s.getsockname() == ("127.0.0.1", 5000)
    with socket.create_connection(("127.0.0.1", 5000), source_address=("127.0.0.3", 6000)) as c:
        assert c.getsockname() == ("127.0.0.3", 6000)
        assert s.accept()[1] == ("127.0.0.3", 6000)
    with socket.create_connection(("127.0.0.1", 5000)) as c:
        peer = s.accept()[1]
        assert peer == c.getsockname() and peer[0] == "127.0.0.1" and first <= peer[1] <= last, peer
for family, address in (INET, "127.0.0.1"), (INET6, "::1"):
    for kind in STREAM, DGRAM:
        with socket.socket(family, kind) as s:
            s.bind((address, 0))
            assert first <= s.getsockname()[1] <= last
            assert s.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == kind
            assert s.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == family
            assert os.fstat(s.fileno()).st_uid == os.getuid() == 1000
# Nobody listens: by every kind of connect, the same error as ever.
for family, address in (INET, "127.0.0.1"), (INET6, "::1"):
    with socket.socket(family, STREAM) as s:
        fails(errno.ECONNREFUSED, s.connect, (address, 1))
    with socket.socket(family, STREAM | socket.SOCK_NONBLOCK) as s:
        assert s.connect_ex((address, 1)) in (errno.ECONNREFUSED, errno.EINPROGRESS)
    with socket.socket(family, DGRAM) as s:
        s.connect((address, 1))
        s.send(b"x")
        fails(errno.ECONNREFUSED, s.recv, 1)
with socket.socket(INET, STREAM) as s:
    fails(errno.ENETUNREACH, s.connect, ("192.0.2.1", 1))
# Flags, and the lowest number that is free.
with socket.socket(INET, STREAM) as s:
    number = s.fileno()
for flags, inherited, blocks in (0, True, True), (socket.SOCK_CLOEXEC, False, True), (socket.SOCK_NONBLOCK, True, False):
    import ctypes

    fd = ctypes.CDLL(None).socket(INET, STREAM | flags, 0)
    assert fd == number
    assert (fcntl.fcntl(fd, fcntl.F_GETFD) == 0) == inherited and os.get_blocking(fd) == blocks
    os.close(fd)
# The last close is the service's own.
for _ in range(500):
    with socket.socket(INET, STREAM) as s:
        s.bind(("127.0.0.1", 5001))
        s.listen()
    with socket.socket(INET, STREAM) as s:
        fails(errno.ECONNREFUSED, s.connect, ("127.0.0.1", 5001))
# Shared ports need one owner.
shared = [socket.socket(INET, STREAM) for _ in range(2)]
for s in shared:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("127.0.0.1", 5002))
    s.listen()
# Other families never meet the maker, and what is refused stays so.
left, right = socket.socketpair()
left.send(b"x")
assert right.recv(1) == b"x"
with socket.socket(socket.AF_UNIX, STREAM) as s, socket.socket(socket.AF_UNIX, STREAM) as c:
    s.bind("/tmp/socket")
    s.listen()
    c.connect("/tmp/socket")
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()
fails(errno.EPERM, socket.socket, INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
fails(errno.EPERM, socket.socket, INET, DGRAM, socket.IPPROTO_ICMP)
fails(errno.EPERM, socket.socket, INET, STREAM, 262)
fails(errno.EPERM, socket.socket, 40, STREAM)
# Without a free descriptor there is no socket, and afterwards there is.
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
while True:
    try:
        held.append(socket.socket(INET, STREAM))
    except OSError as error:
        assert error.errno == errno.EMFILE, error
        break
held.pop().close()
socket.socket(INET6, DGRAM).close()
print("same")
