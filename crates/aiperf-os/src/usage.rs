//! What the process and its threads have used so far.

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

/// Memory of this process that is resident now, bytes; `None` where the platform does not tell.
pub fn resident_bytes() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        resident_in(&std::fs::read_to_string("/proc/self/status").ok()?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        None
    }
}

#[cfg(any(test, target_os = "linux"))]
fn resident_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Time that threads of this process could have run and waited for a core, summed over those that live, nanoseconds; `None` where
/// [`ThreadUsage::waited_ns`] is.
pub fn process_waited_ns() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let threads = std::fs::read_dir("/proc/self/task").ok()?.flatten();
        let waits = threads.filter_map(|thread| {
            // A thread that ended since is told of no more.
            waited_in(&std::fs::read_to_string(thread.path().join("schedstat")).ok()?)
        });
        waits.reduce(|a, b| a + b)
    }
    #[cfg(not(target_os = "linux"))]
    {
        None
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

/// What the calling thread has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadUsage {
    /// CPU time, nanoseconds; `None` where the platform does not tell.
    pub cpu_ns: Option<u64>,
    /// Time it could have run and waited for a core, nanoseconds. The kernel adds a wait when it is over. `None` where it does not
    /// tell (Linux alone does, when built with scheduler statistics).
    pub waited_ns: Option<u64>,
}

/// Reads the usage of the calling thread.
pub fn thread_usage() -> ThreadUsage {
    ThreadUsage { cpu_ns: thread_cpu_ns(), waited_ns: run_queue_wait_ns() }
}

fn thread_cpu_ns() -> Option<u64> {
    #[cfg(unix)]
    {
        let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `ts` is a valid, writable timespec for the duration of the call.
        let rc = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut ts) };
        (rc == 0).then(|| ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64)
    }
    #[cfg(not(unix))]
    {
        None
    }
}

fn run_queue_wait_ns() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        waited_in(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        None
    }
}

/// The second number of `schedstat`: time on a core, time waiting for one, turns. All are zero in a kernel that does not count.
#[cfg(any(test, target_os = "linux"))]
fn waited_in(schedstat: &str) -> Option<u64> {
    let mut numbers = schedstat.split_whitespace().map(|n| n.parse::<u64>().ok());
    let (on_core, waited, turns) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (on_core > 0 || waited > 0 || turns > 0).then_some(waited)
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

    #[test]
    fn a_thread_that_works_uses_something_of_its_own() {
        let worked = std::thread::spawn(|| {
            let before = thread_usage();
            let mut x = 1u64;
            while before.cpu_ns.is_some() && thread_usage().cpu_ns == before.cpu_ns {
                x = std::hint::black_box(x.wrapping_mul(3));
            }
            (before, thread_usage())
        });
        let (before, after) = worked.join().expect("no panic");
        if cfg!(unix) {
            assert!(after.cpu_ns > before.cpu_ns && before.cpu_ns.is_some());
        }
        assert!(after.waited_ns >= before.waited_ns);
    }

    #[test]
    fn a_kernel_that_does_not_count_tells_nothing() {
        assert_eq!(waited_in("160088 10665239 2\n"), Some(10_665_239));
        assert_eq!(waited_in("160088 0 2\n"), Some(0));
        assert_eq!(waited_in("0 0 0\n"), None);
        assert_eq!(waited_in(""), None);
        assert_eq!(waited_in("1 x 2"), None);
    }

    #[test]
    fn what_is_resident_is_less_than_its_peak() {
        assert_eq!(resident_in("Name:\tx\nVmRSS:\t    1024 kB\nThreads:\t1\n"), Some(1 << 20));
        assert_eq!(resident_in("VmSize: 3 kB"), None);
        if cfg!(target_os = "linux") {
            let now = resident_bytes().expect("Linux tells");
            assert!(now > 100_000 && process_usage().peak_rss_bytes > 100_000);
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
