//! Python that runs inside sandboxes: helpers that the programs share.

/// Goes before a program: `attempt` runs something and gives the error's name, `syscall` calls the kernel by number.
pub const HELPERS: &str = r#"
import ctypes, errno, json, os, socket, ssl, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(work):
    try:
        value = work()
        return "ok" if value is None else f"ok: {value!r}"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
def syscall(number, *arguments):
    ctypes.set_errno(0)
    got = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if got < 0:
        raise OSError(ctypes.get_errno(), "")
    return got
def tcp(host, port, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(5)
        s.connect((host, port))
def show(value):
    print(json.dumps(value))
"#;

/// A program with the helpers before it.
pub fn program(body: &str) -> String {
    format!("{HELPERS}{body}")
}
