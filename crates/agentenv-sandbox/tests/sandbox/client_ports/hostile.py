"""hostile.py WHAT TARGET: makes the life of its socket maker hard, for as long as it lives."""
import ctypes, os, random, resource, signal, socket, sys, threading

what, target = sys.argv[1], ("127.0.0.1", int(sys.argv[2]))
libc = ctypes.CDLL(None, use_errno=True)


def connect(forever=True):
    while True:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
                s.connect_ex(target)
        except OSError:
            pass
        if not forever:
            return


def threads(count, body):
    threading.stack_size(64 << 10)
    all_of_them = [threading.Thread(target=body, daemon=True) for _ in range(count)]
    for thread in all_of_them:
        thread.start()
    return all_of_them


def swap():
    """Closes and replaces whatever descriptor another thread may just have got."""
    null = os.open("/dev/null", os.O_RDONLY)
    while True:
        fd = random.randrange(3, 40)
        if fd != null:
            random.choice([lambda: libc.close(fd), lambda: libc.dup2(null, fd)])()


def churn():
    """Children that are killed in the middle of making sockets."""
    while True:
        children = []
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                connect()
            children.append(pid)
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def bomb():
    for _ in range(10_000):
        try:
            if os.fork() == 0:
                connect()
        except OSError:
            break


def idle():
    """Processes that hardly ever run, so that giving them a descriptor takes long; and others that keep them from it."""
    for n in range(20):
        if os.fork() == 0:
            if n % 2:
                os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
                connect()
            while True:
                pass


def stopped():
    """Processes that are stopped and go on, in the middle of making sockets."""
    children = []
    for _ in range(8):
        pid = os.fork()
        if pid == 0:
            connect()
        children.append(pid)
    while True:
        pid = random.choice(children)
        os.kill(pid, signal.SIGSTOP)
        os.kill(pid, signal.SIGCONT)


bodies = {
    "threads": lambda: threads(1000, connect),
    "swap": lambda: threads(8, connect) + threads(4, swap),
    "churn": churn,
    "bomb": bomb,
    "idle": idle,
    "stopped": lambda: threading.Thread(target=stopped, daemon=True).start(),
}
os.write(1, b"hostile\n")
bodies[what]()
while True:
    signal.pause()
