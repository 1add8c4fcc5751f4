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

/// Asks the fair scheduler for turns of `ns` in place of the usual 3 ms for this thread (Linux 6.12 and later; 0.1 ms is the least).
/// Who asks for short turns comes on as soon as it wakes; otherwise a thread that runs, be it of the lowest priority, keeps the core
/// until its own turn is over. A thread of another class than the usual one stays as it is. Returns whether it was granted.
pub fn shorten_turns(ns: u64) -> bool {
    #[cfg(target_os = "linux")]
    {
        /// The kernel's `struct sched_attr`, as far as the first version of it goes.
        #[repr(C)]
        #[derive(Default)]
        struct Attributes {
            size: u32,
            policy: u32,
            flags: u64,
            nice: i32,
            priority: u32,
            runtime: u64,
            deadline: u64,
            period: u64,
        }
        let size = size_of::<Attributes>() as u32;
        let mut attributes = Attributes::default();
        // SAFETY: both calls get a block of the size that is told with it and that outlives the call; 0 means the calling thread.
        unsafe {
            let got = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0);
            if got != 0 || attributes.policy != libc::SCHED_OTHER as u32 {
                return false;
            }
            attributes.runtime = ns;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = ns;
        false
    }
}

/// Lowers the priority of this thread (Linux: nice value raised by `steps`), so that reading behind the run never
/// takes a core from the run. A real-time class that the whole process was started in is left to the threads that keep time: of
/// equal rank in it, a reader would hold a core for a tenth of a second while a request is due. Returns whether it was granted.
pub fn lower_priority(steps: i32) -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: plain integers, and a parameter block that outlives the call; 0 means the calling thread, since Linux keeps
        // classes and nice values per thread.
        unsafe {
            if matches!(libc::sched_getscheduler(0), libc::SCHED_FIFO | libc::SCHED_RR) {
                let usual = libc::sched_param { sched_priority: 0 };
                if libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const usual) != 0 {
                    return false;
                }
            }
            // From where the process is: a run that was given a high priority gives its readers some of it.
            let nice = libc::getpriority(libc::PRIO_PROCESS, 0);
            libc::setpriority(libc::PRIO_PROCESS, 0, nice + steps) == 0
        }
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
        let keen = || (set_timer_slack(1), shorten_turns(100_000), lower_priority(5));
        let done = std::thread::spawn(keen).join().expect("no panic");
        if cfg!(target_os = "linux") {
            // Kernels before 6.12 take the length of a turn and do not use it.
            assert_eq!(done, (true, true, true));
        }
        assert!(cores() >= 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn steps_are_counted_from_where_the_thread_is() {
        let nice = || {
            // SAFETY: integers in, an integer out.
            unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
        };
        let done = std::thread::spawn(move || {
            let before = nice();
            let granted = [lower_priority(2), lower_priority(3)];
            // The kernel has no nicer value than this.
            (granted, nice(), (before + 5).min(19))
        });
        let (granted, after, expected) = done.join().expect("no panic");
        assert_eq!((granted, after), ([true, true], expected));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_behind_the_run_leaves_the_real_time_class() {
        let class = || {
            // SAFETY: an integer in, an integer out.
            unsafe { libc::sched_getscheduler(0) }
        };
        let done = std::thread::spawn(move || {
            let keen = libc::sched_param { sched_priority: 1 };
            // SAFETY: as in `lower_priority`.
            let is_granted = unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const keen) == 0 };
            // Without the right to it there is no such class to leave.
            let before = if is_granted { libc::SCHED_RR } else { libc::SCHED_OTHER };
            assert_eq!(class(), before);
            lower_priority(5) && class() == libc::SCHED_OTHER
        });
        assert!(done.join().expect("no panic"));
    }
}
