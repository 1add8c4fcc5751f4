//! The rules of what the schedule and the wire showed beside the answer: how late a request left, and what of its times is not the server's.

use crate::facts::Facts;
use crate::formulas::time_to_first_token;
use crate::http::connection_overhead;

/// The first content as somebody saw it who was to be served at the scheduled time.
pub(crate) fn scheduled_time_to_first_token(f: &Facts) -> Option<u64> {
    f.chunks.first()?.at_ns.checked_sub(f.scheduled_ns?)
}

/// Never below zero: a schedule is kept from its instant on.
pub(crate) fn queue_wait(f: &Facts) -> Option<u64> {
    Some(f.wire.dispatched_ns?.saturating_sub(f.scheduled_ns?))
}

pub(crate) fn send_lag(f: &Facts) -> Option<u64> {
    Some(f.wire.send_start_ns?.saturating_sub(f.scheduled_ns?))
}

/// AIPerf's rule, negative values clamped as there.
pub(crate) fn credit_to_start_latency(f: &Facts) -> Option<u64> {
    Some(f.start_ns.saturating_sub(f.wire.dispatched_ns?))
}

/// AIPerf's rule: up to the end of the request, trailing usage and end markers included.
pub(crate) fn effective_latency(f: &Facts) -> Option<u64> {
    Some(f.end_ns.saturating_sub(f.wire.dispatched_ns?))
}

pub(crate) fn stream_setup_latency(f: &Facts) -> Option<u64> {
    f.wire.headers_ns?.checked_sub(f.start_ns)
}

/// Who waited for a connection that another request made waited for the connecting all the same.
pub(crate) fn connection_free_time_to_first_token(f: &Facts) -> Option<u64> {
    time_to_first_token(f)?.checked_sub(connection_overhead(f)?)
}

pub(crate) fn read_lag(f: &Facts) -> Option<u64> {
    f.wire.read_lag_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{ChunkFact, WireFacts};
    use aiperf_core::exchange::{Exchange, ReadMark, Stamps};
    use aiperf_core::outcome::{Disposition, Outcome};
    use aiperf_core::ticket::{Ticket, Uuid};

    const MS: u64 = 1_000_000;

    /// Wanted at 1000 ms, had its place at 1030, taken by the transport at 1031; name 2 ms, TCP 3, TLS 5, first byte out at 1042, last
    /// at 1043; headers at 1060, content at 1091 and 1111 (read 2 and 1 ms later), the end at 1112.
    fn ticket_and_exchange() -> (Ticket, Exchange) {
        let ticket = Ticket {
            phase: 0,
            session: 0,
            entry: 0,
            turn: 0,
            shard: 0,
            target: 0,
            request_id: Uuid::from_random(1),
            correlation_id: Uuid::from_random(2).into(),
            scheduled_ns: Some(1000 * MS),
            dispatched_ns: 1030 * MS,
            abandoned_turns: 0,
        };
        let span = |from: u64, to: u64| Some((from * MS, to * MS));
        let stamps = Stamps {
            start_ns: 1031 * MS,
            blocked_ns: None,
            dns_ns: span(1031, 1033),
            tcp_ns: span(1033, 1036),
            tls_ns: span(1037, 1042),
            send_start_ns: Some(1042 * MS),
            head_sent_ns: Some(1043 * MS),
            send_end_ns: Some(1043 * MS),
            headers_ns: Some(1060 * MS),
            first_byte_ns: Some(1061 * MS),
            last_byte_ns: Some(1111 * MS),
            end_ns: 1112 * MS,
        };
        let exchange = Exchange {
            stamps,
            reused: false,
            resent: false,
            status: Some(200),
            reason: String::new(),
            content_type: None,
            headers: Vec::new(),
            body: vec![0; 9],
            reads: vec![
                ReadMark::read(1061 * MS, 2),
                ReadMark::received(1091 * MS, 1093 * MS, 5),
                ReadMark::received(1111 * MS, 1112 * MS, 9),
            ],
            bytes_sent: 0,
            bytes_received: 0,
            traffic: aiperf_core::exchange::Traffic::default(),
            disposition: Disposition::Finished,
        };
        (ticket, exchange)
    }

    fn facts(ticket: &Ticket, exchange: &Exchange) -> Facts {
        let at = |ms: u64| ChunkFact { at_ns: ms * MS, answer: true };
        Facts {
            outcome: Outcome::Completed,
            start_ns: exchange.stamps.start_ns,
            end_ns: exchange.stamps.end_ns,
            scheduled_ns: ticket.scheduled_ns,
            chunks: vec![at(1091), at(1111)],
            isl: None,
            asked_isl: None,
            output_tokens: None,
            reasoning_tokens: None,
            requested_osl: None,
            usage: None,
            wire: WireFacts::of(ticket, exchange),
            ..Facts::default()
        }
    }

    #[test]
    fn a_worked_example_of_each_rule() {
        let (ticket, exchange) = ticket_and_exchange();
        let f = facts(&ticket, &exchange);
        assert_eq!(queue_wait(&f), Some(30 * MS));
        assert_eq!(send_lag(&f), Some(42 * MS));
        assert_eq!(scheduled_time_to_first_token(&f), Some(91 * MS));
        assert_eq!(credit_to_start_latency(&f), Some(MS));
        assert_eq!(effective_latency(&f), Some(82 * MS), "1112 − 1030");
        assert_eq!(stream_setup_latency(&f), Some(29 * MS), "1060 − 1031");
        assert_eq!(time_to_first_token(&f), Some(60 * MS));
        assert_eq!(crate::formulas::stream_prefill_latency(&f), Some(31 * MS), "60 − 29");
        assert_eq!(connection_free_time_to_first_token(&f), Some(50 * MS), "60 − (2 + 3 + 5)");
        assert_eq!(read_lag(&f), Some(2 * MS), "of 2 and 1; the first read carried no stamp");
    }

    #[test]
    fn a_kept_connection_took_no_time_to_make() {
        let (ticket, mut exchange) = ticket_and_exchange();
        exchange.reused = true;
        (exchange.stamps.dns_ns, exchange.stamps.tcp_ns, exchange.stamps.tls_ns) = (None, None, None);
        let f = facts(&ticket, &exchange);
        assert_eq!(connection_free_time_to_first_token(&f), time_to_first_token(&f));
    }

    #[test]
    fn what_is_missing_makes_no_value() {
        let (mut ticket, mut exchange) = ticket_and_exchange();
        ticket.scheduled_ns = None;
        let closed_loop = facts(&ticket, &exchange);
        assert_eq!(
            [queue_wait(&closed_loop), send_lag(&closed_loop), scheduled_time_to_first_token(&closed_loop)],
            [None; 3]
        );
        ticket.scheduled_ns = Some(1000 * MS);
        (exchange.stamps.send_start_ns, exchange.stamps.headers_ns) = (None, None);
        let unanswered = facts(&ticket, &exchange);
        assert_eq!([send_lag(&unanswered), stream_setup_latency(&unanswered)], [None; 2]);
        assert_eq!(queue_wait(&unanswered), Some(30 * MS));
        let bare = Facts { wire: WireFacts::default(), ..unanswered };
        for rule in
            [queue_wait, credit_to_start_latency, effective_latency, connection_free_time_to_first_token]
        {
            assert_eq!(rule(&bare), None);
        }
    }

    #[test]
    fn early_is_not_late() {
        let (mut ticket, exchange) = ticket_and_exchange();
        ticket.scheduled_ns = Some(2000 * MS);
        ticket.dispatched_ns = 1999 * MS;
        let f = facts(&ticket, &exchange);
        assert_eq!((queue_wait(&f), send_lag(&f), credit_to_start_latency(&f)), (Some(0), Some(0), Some(0)));
    }
}
