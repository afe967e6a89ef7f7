//! Sealed sandboxes with placed sockets; the only crate with unsafe code.
//!
//! A sandbox's network namespace leads nowhere. It reaches exactly the sockets that its broker, a process of ours
//! inside, makes and hands out: a socket belongs for life to the namespace it was made in, whoever holds it.
//!
//! ```text
//! supervisor ── control socket ── spawner            one thread, re-executed, no secrets; starts and reaps all below
//!     │                              ├── broker      per sandbox: user and network namespace; makes sockets
//!     │                              ├── (entry)     enters a sandbox's namespaces, clones, ends; or stays as
//!     │                              │               socket maker, for a service with client ports of its own
//!     │                              └── pid 1       per service: builds the root, gives everything up, reaps
//!     ├── socket to each broker            └── the service's program
//!     └── pipes of each service
//! ```
//!
//! In order: [`UidAllocator::allocate`] a uid, [`Spawner::launch`] (from the main thread, before a runtime), [`Spawner::create`]
//! a [`Sandbox`], [`Sandbox::tcp`] and [`Sandbox::udp`] place sockets, [`Spawner::start`] a [`Service`] with its
//! [`Environment`]. Everything is synchronous and safe to call from any thread; descriptors that come back don't block.
//! `main()` must call [`spawner_main`] for [`SPAWNER_COMMAND`] before it does anything else.

mod broker;
mod capture;
mod cgroup;
mod client_ports;
mod doctor;
mod enter;
mod environment;
mod error;
mod failure;
mod ids;
mod init;
mod kernel;
pub mod liveness;
mod messages;
mod netlink;
mod network;
mod pipes;
mod privileges;
pub mod process;
mod program;
mod quota;
mod root;
mod sandbox;
mod seccomp;
mod serve;
mod service;
mod spawner;
mod spec;
mod uid;
mod wire;

pub use capture::{
    Capture, CaptureError, CaptureFile, CaptureSummary, Health, OpenCapture, OpenCaptureError, PacketSocket,
    RingOptions, open_beneath, open_file_beneath, read_ring,
};
pub use cgroup::{Cgroup, Cgroups, Unlimited, remove_cgroups};
pub use client_ports::split_client_ports;
pub use doctor::{Check, doctor};
pub use environment::Environment;
pub use error::SandboxError;
pub use sandbox::Sandbox;
pub use serve::spawner_main;
#[doc(hidden)]
pub use serve::spawner_main_failing;
pub use service::{ExitInfo, Service};
pub use spawner::{SPAWNER_COMMAND, Spawner};
pub use spec::{
    DataDir, HOME, INSIDE_ID, Limits, Mount, NetworkKind, SITE_RANGE, SandboxSpec, SeccompProfile, ServiceSpec,
    SpecError,
};
pub use uid::{Range, Uid, UidAllocator, UidMode};
pub use wire::WireError;
