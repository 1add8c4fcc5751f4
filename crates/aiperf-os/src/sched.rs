//! How the kernel schedules our threads.

/// Asks for wake-ups as close to the deadline as the kernel can (Linux: timer slack of this thread in nanoseconds; the
/// default is 50 µs). Returns whether it was granted.
pub fn set_timer_slack(ns: u64) -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: PR_SET_TIMERSLACK takes one integer and no pointers.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns as libc::c_ulong, 0, 0, 0) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = ns;
        false
    }
}

/// Lowers the priority of this thread (Linux: nice value raised by `steps`), so that reading behind the run never
/// takes a core from the run. Returns whether it was granted.
pub fn lower_priority(steps: i32) -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: plain integers; 0 means the calling thread, since Linux keeps nice values per thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, steps) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = steps;
        false
    }
}

/// Cores this process may run on, at least 1.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_be_nicer_and_keener() {
        let done = std::thread::spawn(|| (set_timer_slack(1), lower_priority(5))).join().expect("no panic");
        if cfg!(target_os = "linux") {
            assert_eq!(done, (true, true));
        }
        assert!(cores() >= 1);
    }
}
