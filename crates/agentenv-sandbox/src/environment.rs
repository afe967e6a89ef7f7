//! A service's environment, secrets included, on its way to the one process that may read it.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::fs::{MemfdFlags, SealFlags};
use secrecy::{ExposeSecret as _, SecretString};

/// The kernel takes 128 KiB in one string and a quarter of the stack (2 MiB of the usual 8) in all.
const MAX_ENVIRONMENT_BYTES: usize = 2 << 20;

/// The variables of a service, in a sealed memory file.
///
/// Spawner and pid 1 pass the descriptor on and never read it; the service's own process reads it just before it
/// becomes the program. So the secrets are in nobody else's memory, arguments or `/proc/PID/environ`.
#[derive(Debug)]
pub struct Environment(OwnedFd);

impl Environment {
    /// Writes and seals the variables.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is empty or holds `=` or NUL, a value that holds NUL (its name is told, never its
    /// value), or more than 2 MiB; otherwise what the kernel says.
    pub fn new(variables: impl IntoIterator<Item = (String, SecretString)>) -> io::Result<Self> {
        let mut bytes = secrecy::zeroize::Zeroizing::new(Vec::new());
        for (name, value) in variables {
            let value = value.expose_secret();
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` can't be a variable")));
            }
            for part in [name.as_bytes(), b"=", value.as_bytes(), b"\0"] {
                bytes.extend_from_slice(part);
            }
        }
        if bytes.len() > MAX_ENVIRONMENT_BYTES {
            let text = format!("the environment has {} bytes, {MAX_ENVIRONMENT_BYTES} at most", bytes.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        sealed("environment", &bytes).map(Self)
    }

    /// Makes another handle of the same variables.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }
}

impl AsFd for Environment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Puts bytes into a memory file that nobody can change any more.
pub(crate) fn sealed(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Reads a memory file from its beginning, whatever its offset is.
pub(crate) fn read_all(fd: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt as _;
    let file = File::from(fd.try_clone_to_owned()?);
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seals_what_it_was_given() {
        let environment = Environment::new([("KEY".into(), "value".into()), ("B".into(), "a=b".into())]).unwrap();
        assert_eq!(read_all(environment.as_fd()).unwrap(), b"KEY=value\0B=a=b\0");
        assert!(File::from(environment.try_clone().unwrap().0).write_all(b"x").is_err());
    }

    #[test]
    fn refuses_what_the_kernel_would_read_otherwise() {
        for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0secret")] {
            let error = Environment::new([(name.into(), value.into())]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(!error.to_string().contains("secret"));
        }
        let long = "x".repeat(MAX_ENVIRONMENT_BYTES);
        assert!(Environment::new([("A".into(), long.into())]).is_err());
    }
}
