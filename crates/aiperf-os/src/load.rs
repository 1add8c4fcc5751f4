//! How busy the machine is, whoever makes it so.

/// Share of the last ten seconds in which something could have run and had no core, 0 to 1 (Linux: pressure stall information);
/// `None` where the system does not tell.
pub fn cpu_pressure() -> Option<f64> {
    #[cfg(target_os = "linux")]
    {
        pressure_in(&std::fs::read_to_string("/proc/pressure/cpu").ok()?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        None
    }
}

/// Threads that run or want to, in the mean of the last minute; `None` where the system does not tell.
pub fn load_average() -> Option<f64> {
    #[cfg(target_os = "linux")]
    {
        std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        None
    }
}

/// The ten-second mean in the line for those that had to wait (`some`), which is in percent.
#[cfg(any(test, target_os = "linux"))]
fn pressure_in(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let percent: f64 = line.split_whitespace().find_map(|part| part.strip_prefix("avg10="))?.parse().ok()?;
    Some(percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_the_mean_of_those_that_waited() {
        let text =
            "full avg10=1.00 avg60=0 avg300=0 total=0\nsome avg10=12.50 avg60=3.00 avg300=0.00 total=9\n";
        assert_eq!(pressure_in(text), Some(0.125));
        assert_eq!(pressure_in("some avg60=3.00"), None);
        assert_eq!(pressure_in(""), None);
    }

    #[test]
    fn what_the_system_tells_is_in_bounds() {
        assert!(cpu_pressure().is_none_or(|share| (0.0..=1.0).contains(&share)));
        assert!(load_average().is_none_or(|load| load >= 0.0));
    }
}
