//! Which system calls a service may make: an allow-list, compiled once in the spawner.

mod ranges;
mod table;

use std::collections::BTreeMap;

use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use crate::spec::SeccompProfile;

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

/// The namespaces that `clone` and `unshare` can leave.
const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;
/// Those that Chromium's own sandbox is made of.
const CHROMIUMS: libc::c_int = libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNET;
/// In `clone` this bit is part of the exit signal, so it is refused in `unshare` alone.
const CLONE_NEWTIME: libc::c_int = 0x80;

/// What the filters of one kind of process are.
pub(crate) struct Filters {
    /// The allow-list.
    allowed: BpfProgram,
    /// Calls that "don't exist": programs fall back to older ones, whose arguments a filter can see. Applied last: of
    /// two filters that refuse a call, the newer one names the error.
    unknown: Option<BpfProgram>,
}

/// Why a filter can't be made; a mistake in the tables.
pub(crate) type FilterError = seccompiler::BackendError;

impl Filters {
    /// Compiles the filters of a service.
    pub(crate) fn of(profile: SeccompProfile) -> Result<Self, FilterError> {
        let conditional = compile(conditions(profile)?)?;
        let always = table::ALLOWED.iter().copied().chain(more(profile).iter().copied());
        let allowed = ranges::first(always, ranges::ALLOW, conditional);
        let missing = table::UNKNOWN.iter().copied().chain(table::NEWER);
        let unknown = ranges::first(missing, ranges::errno(libc::ENOSYS), vec![ranges::end(ranges::ALLOW)]);
        Ok(Self { allowed, unknown: Some(unknown) })
    }

    /// Makes the filter of a broker once its namespace is built: it makes sockets and hands them out.
    pub(crate) fn of_broker() -> Self {
        let refused = vec![ranges::end(ranges::errno(libc::EPERM))];
        Self { allowed: ranges::first(table::BROKER.iter().copied(), ranges::ALLOW, refused), unknown: None }
    }

    /// Makes the filter of a socket maker: it makes the sockets that a service may, and gives them to it.
    pub(crate) fn of_socket_maker() -> Result<Self, FilterError> {
        let conditional = compile(Rules::from([(libc::SYS_socket, any_of(sockets()?)?)]))?;
        let allowed = ranges::first(table::SOCKET_MAKER.iter().copied(), ranges::ALLOW, conditional);
        Ok(Self { allowed, unknown: None })
    }

    /// Puts this process under the filters, for good. It must have no new privileges.
    pub(crate) fn apply(&self) -> Result<(), Errno> {
        [&self.allowed].into_iter().chain(&self.unknown).try_for_each(|program| {
            seccompiler::apply_filter(program).map_err(|error| match error {
                seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => {
                    Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
                }
                _ => Errno::INVAL,
            })
        })
    }
}

/// Stops calls for sockets of IPv4 and IPv6 until somebody answers them. What another filter refuses stays refused.
pub(crate) fn notify_of_sockets() -> BpfProgram {
    let families = [libc::AF_INET, libc::AF_INET6];
    ranges::first_argument(libc::SYS_socket as u32, families, libc::SECCOMP_RET_USER_NOTIF)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// A program that allows calls that a rule is about, and refuses every other.
fn compile(rules: Rules) -> Result<BpfProgram, FilterError> {
    SeccompFilter::new(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow, ARCH)?.try_into()
}

/// The rules for a call that is allowed if all conditions of one of the alternatives hold.
fn any_of(alternatives: Vec<Vec<SeccompCondition>>) -> Result<Vec<SeccompRule>, FilterError> {
    alternatives.into_iter().map(SeccompRule::new).collect()
}

/// What a profile may call beyond the others, whatever the arguments.
fn more(profile: SeccompProfile) -> &'static [libc::c_long] {
    match profile {
        SeccompProfile::Service => &[],
        SeccompProfile::Browser => &[libc::SYS_chroot],
    }
}

/// One condition on an `int` argument. The kernel reads its lower half only, so the filter must too: a comparison of
/// all 64 bits could be passed by with garbage above.
fn int(argument: u8, op: SeccompCmpOp, value: libc::c_int) -> Result<SeccompCondition, FilterError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, u64::from(value as u32))
}

/// The calls that are allowed with some arguments.
fn conditions(profile: SeccompProfile) -> Result<Rules, FilterError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules = Rules::new();
    let mut allow = |call: libc::c_long, alternatives: Vec<Vec<SeccompCondition>>| -> Result<(), FilterError> {
        rules.insert(call, any_of(alternatives)?);
        Ok(())
    };
    allow(libc::SYS_socket, sockets()?)?;
    allow(libc::SYS_socketpair, vec![vec![int(0, Eq, libc::AF_UNIX)?]])?;
    // Typing into a terminal of somebody else's.
    let terminal = [libc::TIOCSTI, libc::TIOCLINUX].map(|request| int(1, Ne, request as libc::c_int));
    allow(libc::SYS_ioctl, vec![terminal.into_iter().collect::<Result<_, _>>()?])?;
    for call in [libc::SYS_setsockopt, libc::SYS_getsockopt] {
        allow(call, options()?)?;
    }
    // Without a capability `prlimit` works on any process of the same uid, pid 1 included.
    allow(libc::SYS_prlimit64, vec![vec![int(0, Eq, 0)?]])?;
    let personalities = [0, 8, 0x0002_0000, 0x0002_0008, -1].map(|persona| Ok(vec![int(0, Eq, persona)?]));
    allow(libc::SYS_personality, personalities.into_iter().collect::<Result<_, FilterError>>()?)?;
    let nested = match profile {
        SeccompProfile::Service => 0,
        SeccompProfile::Browser => CHROMIUMS,
    };
    let refused = NAMESPACES & !nested;
    let without = |mask: libc::c_int| int(0, MaskedEq(u64::from(mask as u32)), 0);
    allow(libc::SYS_clone, vec![vec![without(refused)?]])?;
    allow(libc::SYS_unshare, vec![vec![without(refused | CLONE_NEWTIME)?]])?;
    Ok(rules)
}

/// The sockets of a service: UNIX, TCP and UDP, and the two netlink protocols that libraries ask for addresses and
/// devices. Every other family or protocol either has no namespace (`AF_VSOCK` leads to the hypervisor) or makes the
/// kernel load a module for whoever asks.
fn sockets() -> Result<Vec<Vec<SeccompCondition>>, FilterError> {
    use SeccompCmpOp::{Eq, MaskedEq};
    /// The bits of `type` that aren't flags.
    const TYPE: u64 = 0xf;
    const NETLINK_KOBJECT_UEVENT: libc::c_int = 15;
    let mut alternatives = vec![vec![int(0, Eq, libc::AF_UNIX)?]];
    for family in [libc::AF_INET, libc::AF_INET6] {
        for (kind, protocol) in [(libc::SOCK_STREAM, libc::IPPROTO_TCP), (libc::SOCK_DGRAM, libc::IPPROTO_UDP)] {
            for protocol in [0, protocol] {
                alternatives.push(vec![int(0, Eq, family)?, int(1, MaskedEq(TYPE), kind)?, int(2, Eq, protocol)?]);
            }
        }
    }
    for protocol in [libc::NETLINK_ROUTE, NETLINK_KOBJECT_UEVENT] {
        alternatives.push(vec![int(0, Eq, libc::AF_NETLINK)?, int(2, Eq, protocol)?]);
    }
    Ok(alternatives)
}

/// Options of any socket but those by which netfilter takes whole tables of rules: root of a nested network namespace,
/// as a browser's process may become, is let near them, and their parsers have been a way into the kernel.
fn options() -> Result<Vec<Vec<SeccompCondition>>, FilterError> {
    use SeccompCmpOp::{Eq, Lt, Ne};
    /// `IPT_BASE_CTL`; every option of IPv4 itself has a lower number.
    const NETFILTER: libc::c_int = 64;
    /// `IP6T_SO_SET_REPLACE` and `IP6T_SO_GET_INFO`, the other of each pair after it; then options of IPv6 itself follow.
    const NETFILTER6: libc::c_int = 64;
    let option = |op, value| int(2, op, value);
    Ok(vec![
        vec![int(1, Ne, libc::SOL_IP)?, int(1, Ne, libc::SOL_IPV6)?],
        vec![int(1, Eq, libc::SOL_IP)?, option(Lt, NETFILTER)?],
        vec![int(1, Eq, libc::SOL_IPV6)?, option(Ne, NETFILTER6)?, option(Ne, NETFILTER6 + 1)?],
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_compiles_and_lists_nothing_twice() {
        let conditional = conditions(SeccompProfile::Browser).unwrap();
        for profile in [SeccompProfile::Service, SeccompProfile::Browser] {
            let filters = Filters::of(profile).unwrap();
            // The kernel's limit is 4,096.
            assert!(filters.allowed.len() < 400, "{}", filters.allowed.len());
        }
        let allowed: std::collections::BTreeSet<_> = table::ALLOWED.iter().collect();
        assert_eq!(allowed.len(), table::ALLOWED.len());
        let newer = table::NEWER;
        assert!(table::ALLOWED.iter().all(|call| call < newer.start() && !conditional.contains_key(call)));
    }

    #[test]
    fn what_design_names_is_on_no_list() {
        let conditional = conditions(SeccompProfile::Browser).unwrap();
        for call in table::NEVER.iter().chain([&libc::SYS_chroot]) {
            assert!(!table::ALLOWED.contains(call) && !conditional.contains_key(call), "{call}");
        }
    }
}
