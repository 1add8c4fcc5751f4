//! The rules of what HTTP took, with k6's names as in AIPerf. Each part of a request's time is in one of them: connecting is in no other.

use crate::facts::Facts;

/// AIPerf's rule: 0 where the request waited for no connection.
pub(crate) fn blocked(f: &Facts) -> Option<u64> {
    f.wire.blocked_ns
}

pub(crate) fn dns_lookup(f: &Facts) -> Option<u64> {
    f.wire.dns_ns
}

pub(crate) fn connecting(f: &Facts) -> Option<u64> {
    Some(f.wire.tcp_ns? + f.wire.tls_ns?)
}

pub(crate) fn tcp(f: &Facts) -> Option<u64> {
    f.wire.tcp_ns
}

pub(crate) fn tls(f: &Facts) -> Option<u64> {
    f.wire.tls_ns
}

/// From the first byte out, which AIPerf takes before it connects.
pub(crate) fn sending(f: &Facts) -> Option<u64> {
    f.wire.send_end_ns?.checked_sub(f.wire.send_start_ns?)
}

/// A server may begin to answer before it has the whole request: nobody waits then.
pub(crate) fn waiting(f: &Facts) -> Option<u64> {
    Some(f.wire.first_byte_ns?.saturating_sub(f.wire.send_end_ns?))
}

pub(crate) fn receiving(f: &Facts) -> Option<u64> {
    f.wire.last_byte_ns?.checked_sub(f.wire.first_byte_ns?)
}

/// Without connecting, which AIPerf's has in it.
pub(crate) fn duration(f: &Facts) -> Option<u64> {
    f.wire.last_byte_ns?.checked_sub(f.wire.send_start_ns?)
}

pub(crate) fn connection_overhead(f: &Facts) -> Option<u64> {
    Some(blocked(f)? + dns_lookup(f)? + connecting(f)?)
}

/// As a clock on the wall has it. AIPerf's sum has the connecting twice.
pub(crate) fn total(f: &Facts) -> Option<u64> {
    f.wire.last_byte_ns?.checked_sub(f.start_ns)
}

pub(crate) fn data_sent(f: &Facts) -> Option<u64> {
    f.wire.traffic.map(|t| t.body_sent)
}

pub(crate) fn data_received(f: &Facts) -> Option<u64> {
    f.wire.traffic.map(|t| t.body_received)
}

pub(crate) fn wire_sent(f: &Facts) -> Option<u64> {
    f.wire.traffic.map(|t| t.wire_sent)
}

pub(crate) fn wire_received(f: &Facts) -> Option<u64> {
    f.wire.traffic.map(|t| t.wire_received)
}

pub(crate) fn chunks_sent(f: &Facts) -> Option<u64> {
    f.wire.traffic.map(|t| t.chunks_sent)
}

pub(crate) fn chunks_received(f: &Facts) -> Option<u64> {
    f.wire.traffic.map(|t| t.chunks_received)
}

pub(crate) fn connection_reused(f: &Facts) -> Option<u64> {
    f.wire.reused.map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{TrafficFacts, WireFacts};
    use proptest::prelude::*;

    /// Taken at 1000; waits 1, looks up in 2, TCP 3, TLS 5, with a pause of 1 before the first byte out at 1012; out at 1013; headers at
    /// 1040, body from 1041 to 1100.
    fn example() -> Facts {
        Facts {
            start_ns: 1000,
            wire: WireFacts {
                send_start_ns: Some(1012),
                send_end_ns: Some(1013),
                headers_ns: Some(1040),
                first_byte_ns: Some(1041),
                last_byte_ns: Some(1100),
                blocked_ns: Some(1),
                dns_ns: Some(2),
                tcp_ns: Some(3),
                tls_ns: Some(5),
                reused: Some(false),
                traffic: Some(TrafficFacts {
                    body_sent: 100,
                    body_received: 200,
                    wire_sent: 300,
                    wire_received: 400,
                    chunks_sent: 1,
                    chunks_received: 7,
                }),
                ..WireFacts::default()
            },
            ..Facts::default()
        }
    }

    #[test]
    fn a_worked_example_of_each_rule() {
        let f = example();
        for (rule, expected) in [
            (blocked as fn(&Facts) -> Option<u64>, 1),
            (dns_lookup, 2),
            (connecting, 8),
            (tcp, 3),
            (tls, 5),
            (sending, 1),
            (waiting, 28),
            (receiving, 59),
            (duration, 88),
            (connection_overhead, 11),
            (total, 100),
            (data_sent, 100),
            (data_received, 200),
            (wire_sent, 300),
            (wire_received, 400),
            (chunks_sent, 1),
            (chunks_received, 7),
            (connection_reused, 0),
        ] {
            assert_eq!(rule(&f), Some(expected));
        }
    }

    #[test]
    fn what_never_happened_has_no_value_and_an_early_answer_no_wait() {
        let mut f = example();
        f.wire.first_byte_ns = Some(1012);
        assert_eq!(waiting(&f), Some(0));
        f.wire = WireFacts::default();
        for rule in [blocked, connecting, sending, waiting, receiving, duration, total, data_sent] {
            assert_eq!(rule(&f), None);
        }
    }

    proptest! {
        #[test]
        fn the_parts_are_the_whole_but_for_pauses_between(steps in proptest::array::uniform8(0_u64..1000), pause in 0_u64..50) {
            let [blocked_ns, dns_ns, tcp_ns, tls_ns, send, wait, head, receive] = steps;
            let send_start = 5000 + blocked_ns + dns_ns + tcp_ns + tls_ns + pause;
            let first = send_start + send + wait + head;
            let f = Facts {
                start_ns: 5000,
                wire: WireFacts {
                    send_start_ns: Some(send_start),
                    send_end_ns: Some(send_start + send),
                    first_byte_ns: Some(first),
                    last_byte_ns: Some(first + receive),
                    blocked_ns: Some(blocked_ns),
                    dns_ns: Some(dns_ns),
                    tcp_ns: Some(tcp_ns),
                    tls_ns: Some(tls_ns),
                    ..WireFacts::default()
                },
                ..Facts::default()
            };
            let sum = |rules: &[fn(&Facts) -> Option<u64>]| rules.iter().map(|rule| rule(&f)).sum::<Option<u64>>();
            prop_assert_eq!(sum(&[sending, waiting, receiving]), duration(&f));
            prop_assert_eq!(sum(&[blocked, dns_lookup, tcp, tls]), connection_overhead(&f));
            prop_assert_eq!(sum(&[connection_overhead, duration]).map(|ns| ns + pause), total(&f));
        }
    }
}
