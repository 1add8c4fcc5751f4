//! `trace_data` of a record: what the wire showed of one request, stamp by stamp. Only of runs that asked for it.

use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::Disposition;
use aiperf_core::secret::shown_header;
use aiperf_core::time::ClockAnchor;

use crate::write::{self, Object};

/// What a trace is made from.
#[derive(Debug, Clone, Copy)]
pub struct Trace<'a> {
    /// What the wire showed, with headers and addresses.
    pub exchange: &'a Exchange,
    /// Turns stamps into nanoseconds since the Unix epoch.
    pub anchor: &'a ClockAnchor,
    /// Headers sent; secret ones are redacted here.
    pub headers: &'a [(String, String)],
    /// `1.1` or `2`.
    pub http_version: &'a str,
    /// When the schedule wanted it sent, monotonic.
    pub scheduled_ns: Option<u64>,
    /// The server has a name that is looked up, not an address.
    pub is_named: bool,
}

/// The object: AIPerf's keys in its order, absent where a thing did not happen, then what is ours.
pub(crate) fn write(out: &mut Vec<u8>, trace: &Trace<'_>) {
    let Trace { exchange, anchor, http_version, scheduled_ns, is_named, .. } = *trace;
    let (stamps, traffic) = (&exchange.stamps, &exchange.traffic);
    let mut o = Object::begin(out);
    let stamp = |o: &mut Object<'_>, key: &str, ns: Option<u64>| {
        if let Some(ns) = ns {
            o.int(key, anchor.wall(ns));
        }
    };
    let span = |o: &mut Object<'_>, keys: [&str; 2], span: Option<(u64, u64)>| {
        for (key, ns) in keys.into_iter().zip(span.map(<[u64; 2]>::from).into_iter().flatten()) {
            o.int(key, anchor.wall(ns));
        }
    };
    // The name of AIPerf's transport: readers tell traces of HTTP by it.
    o.plain("trace_type", "aiohttp");
    stamp(&mut o, "request_send_start_ns", stamps.send_start_ns);
    headers(o.key("request_headers"), trace.headers);
    stamp(&mut o, "request_headers_sent_ns", stamps.head_sent_ns);
    // Where it went out at once there is one piece, and its stamp is that of the end; of several only the number is known.
    let whole = stamps.send_end_ns.filter(|_| traffic.writes == 1 && traffic.body_sent > 0);
    pieces(o.key("request_chunks"), whole.map(|ns| (anchor.wall(ns), traffic.body_sent)).into_iter());
    stamp(&mut o, "request_send_end_ns", stamps.send_end_ns);
    o.int("request_chunks_count", traffic.writes.into());
    o.int("request_bytes_total", traffic.body_sent);
    if let Some(status) = exchange.status {
        o.int("response_status_code", status.into());
        o.text("response_reason", &exchange.reason);
    }
    stamp(&mut o, "response_receive_start_ns", stamps.first_byte_ns);
    headers(o.key("response_headers"), &exchange.headers);
    stamp(&mut o, "response_headers_received_ns", stamps.headers_ns);
    let mut before = 0;
    let reads = exchange.reads.iter().map(|read| {
        let size = read.body_len - before;
        before = read.body_len;
        (anchor.wall(read.at_ns), size.into())
    });
    pieces(o.key("response_chunks"), reads);
    o.int("response_chunks_count", exchange.reads.len() as u64);
    o.int("response_bytes_total", exchange.body.len() as u64);
    stamp(&mut o, "response_receive_end_ns", stamps.last_byte_ns);
    let is_whole = exchange.disposition == Disposition::Finished;
    stamp(&mut o, "error_timestamp_ns", Some(stamps.end_ns).filter(|_| !is_whole));
    span(&mut o, ["connection_pool_wait_start_ns", "connection_pool_wait_end_ns"], stamps.blocked_ns);
    let connected = stamps.tcp_ns.map(|(from, to)| (from, stamps.tls_ns.map_or(to, |(_, to)| to)));
    span(&mut o, ["tcp_connect_start_ns", "tcp_connect_end_ns"], connected);
    let taken_ns = stamps.blocked_ns.map_or(stamps.start_ns, |(_, to)| to);
    stamp(&mut o, "connection_reused_ns", Some(taken_ns).filter(|_| exchange.reused));
    match (stamps.dns_ns, stamps.tcp_ns) {
        (Some((from, _)), _) => stamp(&mut o, "dns_cache_miss_ns", Some(from)),
        (None, Some((from, _))) if is_named => stamp(&mut o, "dns_cache_hit_ns", Some(from)),
        _ => {}
    }
    span(&mut o, ["dns_lookup_start_ns", "dns_lookup_end_ns"], stamps.dns_ns);
    for (ip, port, address) in
        [("local_ip", "local_port", traffic.local), ("remote_ip", "remote_port", traffic.remote)]
    {
        if let Some(address) = address {
            o.plain(ip, address.ip());
            o.int(port, address.port().into());
        }
    }
    let length = |span: Option<(u64, u64)>| span.map(|(from, to)| to.saturating_sub(from));
    for (key, ns) in [
        ("sending_ns", stamps.sending_ns()),
        ("waiting_ns", stamps.waiting_ns()),
        ("receiving_ns", stamps.receiving_ns()),
        ("duration_ns", stamps.duration_ns()),
        ("blocked_ns", length(stamps.blocked_ns)),
        ("dns_lookup_ns", length(stamps.dns_ns)),
        ("connecting_ns", length(stamps.tcp_ns).map(|ns| ns + length(stamps.tls_ns).unwrap_or(0))),
    ] {
        if let Some(ns) = ns {
            o.int(key, ns);
        }
    }
    // Ours.
    span(&mut o, ["tls_start_ns", "tls_end_ns"], stamps.tls_ns);
    o.plain("http_version", http_version);
    stamp(&mut o, "scheduled_ns", scheduled_ns);
    o.end();
}

/// A name that comes several times has its values joined by commas, as HTTP reads them.
fn headers(out: &mut Vec<u8>, list: &[(String, String)]) {
    let mut o = Object::begin(out);
    for (at, (name, value)) in list.iter().enumerate() {
        let is_same = |(other, _): &(String, String)| other.eq_ignore_ascii_case(name);
        if list[..at].iter().any(is_same) {
            continue;
        }
        let more = list[at + 1..].iter().filter(|pair| is_same(pair)).map(|(_, value)| value.as_str());
        let joined = std::iter::once(value.as_str()).chain(more).collect::<Vec<_>>().join(", ");
        write::text(o.foreign_key(name), &shown_header(name, &joined));
    }
    o.end();
}

/// `[[t,size],…]`.
fn pieces(out: &mut Vec<u8>, pieces: impl Iterator<Item = (u64, u64)>) {
    out.push(b'[');
    for (at, (ns, size)) in pieces.enumerate() {
        out.extend_from_slice(if at > 0 { b",[" } else { b"[" });
        write::int(out, ns);
        out.push(b',');
        write::int(out, size);
        out.push(b']');
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use aiperf_core::exchange::{ReadMark, Stamps, Traffic};

    const ANCHOR: ClockAnchor = ClockAnchor { mono_ns: 0, wall_ns: 1_000_000 };

    fn exchange() -> Exchange {
        Exchange {
            stamps: Stamps {
                start_ns: 10,
                dns_ns: Some((10, 12)),
                tcp_ns: Some((12, 15)),
                tls_ns: Some((16, 20)),
                send_start_ns: Some(21),
                head_sent_ns: Some(22),
                send_end_ns: Some(22),
                headers_ns: Some(30),
                first_byte_ns: Some(31),
                last_byte_ns: Some(40),
                end_ns: 41,
                ..Stamps::default()
            },
            reused: false,
            resent: false,
            status: Some(200),
            reason: "OK".to_owned(),
            content_type: None,
            headers: [("content-type", "text/event-stream"), ("set-cookie", "a"), ("via", "x"), ("via", "y")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            body: vec![0; 9],
            reads: vec![ReadMark::read(31, 4), ReadMark::read(40, 9)],
            bytes_sent: 300,
            bytes_received: 200,
            traffic: Traffic {
                body_sent: 100,
                writes: 1,
                local: "127.0.0.1:5000".parse().ok(),
                remote: "[::1]:8000".parse().ok(),
            },
            disposition: Disposition::Finished,
        }
    }

    fn written(exchange: &Exchange, is_named: bool) -> serde_json::Value {
        let headers =
            [("Host", "h:1"), ("Authorization", "Bearer x")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        let trace = Trace {
            exchange,
            anchor: &ANCHOR,
            headers: &headers,
            http_version: "1.1",
            scheduled_ns: Some(5),
            is_named,
        };
        let mut out = Vec::new();
        write(&mut out, &trace);
        serde_json::from_slice(&out).expect("JSON")
    }

    #[test]
    fn a_fresh_connection_shows_each_step() {
        assert_eq!(
            written(&exchange(), true),
            serde_json::json!({
                "trace_type": "aiohttp",
                "request_send_start_ns": 1_000_021,
                "request_headers": {"Host": "h:1", "Authorization": "<redacted>"},
                "request_headers_sent_ns": 1_000_022,
                "request_chunks": [[1_000_022, 100]],
                "request_send_end_ns": 1_000_022,
                "request_chunks_count": 1,
                "request_bytes_total": 100,
                "response_status_code": 200,
                "response_reason": "OK",
                "response_receive_start_ns": 1_000_031,
                "response_headers": {"content-type": "text/event-stream", "set-cookie": "<redacted>", "via": "x, y"},
                "response_headers_received_ns": 1_000_030,
                "response_chunks": [[1_000_031, 4], [1_000_040, 5]],
                "response_chunks_count": 2,
                "response_bytes_total": 9,
                "response_receive_end_ns": 1_000_040,
                "tcp_connect_start_ns": 1_000_012,
                "tcp_connect_end_ns": 1_000_020,
                "dns_cache_miss_ns": 1_000_010,
                "dns_lookup_start_ns": 1_000_010,
                "dns_lookup_end_ns": 1_000_012,
                "local_ip": "127.0.0.1",
                "local_port": 5000,
                "remote_ip": "::1",
                "remote_port": 8000,
                "sending_ns": 1,
                "waiting_ns": 9,
                "receiving_ns": 9,
                "duration_ns": 19,
                "dns_lookup_ns": 2,
                "connecting_ns": 7,
                "tls_start_ns": 1_000_016,
                "tls_end_ns": 1_000_020,
                "http_version": "1.1",
                "scheduled_ns": 1_000_005,
            })
        );
    }

    #[test]
    fn what_did_not_happen_has_no_key() {
        let mut exchange = exchange();
        exchange.stamps = Stamps { start_ns: 10, tcp_ns: Some((12, 15)), end_ns: 15, ..Stamps::default() };
        exchange.status = None;
        exchange.reads.clear();
        exchange.body.clear();
        exchange.traffic = Traffic::default();
        exchange.disposition =
            Disposition::Cancelled { reason: aiperf_core::outcome::CancelReason::GraceOver, at_ns: 15 };
        let trace = written(&exchange, true);
        assert_eq!(
            (&trace["error_timestamp_ns"], &trace["dns_cache_hit_ns"]),
            (&1_000_015.into(), &1_000_012.into())
        );
        assert_eq!(
            (&trace["request_chunks"], &trace["response_chunks"]),
            (&serde_json::json!([]), &serde_json::json!([]))
        );
        for key in ["request_send_start_ns", "response_status_code", "local_ip", "waiting_ns", "tls_start_ns"]
        {
            assert!(trace.get(key).is_none(), "{key}");
        }
        assert!(written(&exchange, false).get("dns_cache_hit_ns").is_none(), "an address is not looked up");
    }

    #[test]
    fn a_kept_connection_says_when_it_was_taken() {
        let mut exchange = exchange();
        exchange.reused = true;
        (exchange.stamps.dns_ns, exchange.stamps.tcp_ns, exchange.stamps.tls_ns) = (None, None, None);
        assert_eq!(written(&exchange, true)["connection_reused_ns"], 1_000_010);
        exchange.stamps.blocked_ns = Some((10, 13));
        let trace = written(&exchange, true);
        assert_eq!((&trace["connection_reused_ns"], &trace["blocked_ns"]), (&1_000_013.into(), &3.into()));
        assert!(trace.get("connecting_ns").is_none() && trace.get("dns_cache_hit_ns").is_none());
    }
}
