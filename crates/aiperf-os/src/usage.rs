//! What the process has used so far.

/// CPU time and memory of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessUsage {
    /// User and system CPU time of all threads, nanoseconds.
    pub cpu_ns: u64,
    /// Largest resident set so far, bytes.
    pub peak_rss_bytes: u64,
}

/// Reads the usage of this process; zeros where the platform does not tell.
pub fn process_usage() -> ProcessUsage {
    #[cfg(unix)]
    {
        usage_of(libc::RUSAGE_SELF)
    }
    #[cfg(not(unix))]
    {
        ProcessUsage::default()
    }
}

/// Reads what the children that ended and were waited for used together (the memory is the largest one's); zeros where the
/// platform does not tell.
pub fn ended_children_usage() -> ProcessUsage {
    #[cfg(unix)]
    {
        usage_of(libc::RUSAGE_CHILDREN)
    }
    #[cfg(not(unix))]
    {
        ProcessUsage::default()
    }
}

#[cfg(unix)]
fn usage_of(who: libc::c_int) -> ProcessUsage {
    // SAFETY: rusage is plain integers, for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid and writable.
    if unsafe { libc::getrusage(who, &raw mut usage) } != 0 {
        return ProcessUsage::default();
    }
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
    // Linux counts the peak in kibibytes, the BSDs' children in bytes.
    let unit = if cfg!(any(target_os = "macos", target_os = "ios")) { 1 } else { 1024 };
    ProcessUsage {
        cpu_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
        peak_rss_bytes: usage.ru_maxrss as u64 * unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_uses_something() {
        let usage = process_usage();
        if cfg!(unix) {
            assert!(usage.peak_rss_bytes > 100_000);
        }
    }

    #[cfg(unix)]
    #[test]
    fn children_count_once_they_were_waited_for() {
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        child.wait().expect("its end");
        assert!(ended_children_usage().peak_rss_bytes > 0);
    }
}
