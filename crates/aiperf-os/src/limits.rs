//! Limits of the process and of the machine, and errors that mean one was met.

use std::io;

/// The soft and hard limit on open descriptors, after the soft one was raised as far as the hard one allows
/// (`None` where the platform has no such limit to read).
pub fn raise_descriptor_limit() -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is valid and writable.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
            return None;
        }
        if limit.rlim_cur < limit.rlim_max {
            let wanted = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
            // SAFETY: `wanted` is valid for reading.
            if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) } == 0 {
                limit = wanted;
            }
        }
        Some((limit.rlim_cur, limit.rlim_max))
    }
    #[cfg(not(unix))]
    {
        None
    }
}

/// The soft and hard limit on open descriptors as they are (`None` where the platform has no such limit to read).
pub fn descriptor_limit() -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is valid and writable.
        let rc = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
        (rc == 0).then_some((limit.rlim_cur, limit.rlim_max))
    }
    #[cfg(not(unix))]
    {
        None
    }
}

/// First and last local port that the system gives to connections on its own: so many can be open to one address at a time.
/// `None` where it does not tell.
pub fn local_ports() -> Option<(u16, u16)> {
    #[cfg(target_os = "linux")]
    {
        ports_in(&std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        None
    }
}

#[cfg(any(test, target_os = "linux"))]
fn ports_in(text: &str) -> Option<(u16, u16)> {
    let mut ports = text.split_whitespace().map(|port| port.parse::<u16>().ok());
    let (first, last) = (ports.next()??, ports.next()??);
    (first <= last).then_some((first, last))
}

/// What there was no more of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// Descriptors that the process may have open.
    ProcessDescriptors,
    /// Descriptors that the whole machine can have open.
    MachineDescriptors,
    /// Local ports for connections to one address.
    Ports,
}

impl Shortage {
    /// The shortage that `error` tells of. For ports only where it came from connecting.
    pub fn of(error: &io::Error) -> Option<Self> {
        if error.kind() == io::ErrorKind::AddrNotAvailable {
            return Some(Self::Ports);
        }
        #[cfg(unix)]
        match error.raw_os_error() {
            Some(libc::EMFILE) => return Some(Self::ProcessDescriptors),
            Some(libc::ENFILE) => return Some(Self::MachineDescriptors),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn shortages_are_known_by_their_errors() {
        for (code, shortage) in [
            (libc::EMFILE, Some(Shortage::ProcessDescriptors)),
            (libc::ENFILE, Some(Shortage::MachineDescriptors)),
            (libc::EADDRNOTAVAIL, Some(Shortage::Ports)),
            (libc::ECONNREFUSED, None),
        ] {
            assert_eq!(Shortage::of(&io::Error::from_raw_os_error(code)), shortage);
        }
        assert_eq!(Shortage::of(&io::Error::other("x")), None);
    }

    #[test]
    fn the_soft_limit_reaches_the_hard_one() {
        if let Some((soft, hard)) = raise_descriptor_limit() {
            assert!(soft > 0 && soft <= hard);
            assert_eq!(descriptor_limit(), Some((soft, hard)));
        }
    }

    #[test]
    fn ports_are_a_first_and_a_last_one() {
        assert_eq!(ports_in("32768\t60999\n"), Some((32_768, 60_999)));
        assert_eq!(ports_in("9 8"), None);
        assert_eq!(ports_in("9"), None);
        assert!(local_ports().is_none_or(|(first, last)| first <= last));
    }
}
