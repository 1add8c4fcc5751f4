//! What the system says of itself, before anything is measured.

use std::future::poll_fn;
use std::io;

use aiperf_os::arrival::ArrivalClock;
use aiperf_os::receive::{poll_receive, stamp_arrivals};
use aiperf_os::{clock, limits, load, mono_ns, sched};
use tokio::io::{AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::figures::{Descriptors, Machine, Ports};

/// So long a stamp is looked for: the kernel begins to stamp a moment after it was first asked to.
const PATIENCE_NS: u64 = 100_000_000;

/// Asks the system. The soft limit of open files is raised to the hard one.
pub(super) fn look() -> Machine {
    // First, before anything of ours makes the machine busy.
    let (pressure, load_average) = (load::cpu_pressure(), load::load_average());
    let found = limits::descriptor_limit();
    let raised = limits::raise_descriptor_limit();
    let slack = std::thread::spawn(|| sched::set_timer_slack(1));
    Machine {
        cores: sched::cores(),
        clock_source: clock::source(),
        clock_step_ns: clock::smallest_step_ns(),
        timer_slack_granted: slack.join().unwrap_or(false),
        descriptors: found.zip(raised).map(|((soft, hard), (used, _))| Descriptors { soft, hard, used }),
        ports: limits::local_ports().map(|(first, last)| Ports {
            first,
            last,
            connections: u32::from(last - first) + 1,
        }),
        receive_stamps: receive_stamps().unwrap_or(false),
        cpu_pressure_percent: pressure.map(|share| share * 100.0),
        load_average,
    }
}

/// Whether the kernel says when it received what a connection to ourselves brings.
fn receive_stamps() -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let mut near = TcpStream::connect(listener.local_addr()?).await?;
        let (mut far, _) = listener.accept().await?;
        if !stamp_arrivals(&near) {
            return Ok(false);
        }
        let clock = ArrivalClock::new();
        let start_ns = mono_ns();
        let mut floor_ns = start_ns;
        while floor_ns - start_ns < PATIENCE_NS {
            far.write_all(b"x").await?;
            let mut bytes = [0];
            let mut buf = ReadBuf::new(&mut bytes);
            let arrival = poll_fn(|cx| poll_receive(&mut near, &clock, floor_ns, cx, &mut buf)).await?;
            if arrival.kernel_ns.is_some() {
                return Ok(true);
            }
            floor_ns = mono_ns();
        }
        Ok(false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_known() {
        let machine = look();
        assert!(machine.cores >= 1);
        assert!(machine.descriptors.is_none_or(|d| d.used >= d.soft && d.used <= d.hard));
        assert!(machine.ports.is_none_or(|p| p.connections == u32::from(p.last - p.first) + 1));
        if cfg!(target_os = "linux") {
            assert!(machine.timer_slack_granted && machine.descriptors.is_some());
        }
    }
}
