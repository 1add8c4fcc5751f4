//! What the wire showed: what HTTP took, traces in the records, and how even streams were.

use serde_json::Value;

use crate::support::{Done, Run, Tally, flat, scripted, sim, url};
use aiperf_sim::scripted::Reply;

fn value(record: &Value, tag: &str) -> f64 {
    record["metrics"][tag]["value"].as_f64().unwrap_or_else(|| panic!("{tag} in {record}"))
}

/// Six streams, one after the other, over a fast server.
fn six(more: &str) -> Done {
    let server = sim("ttft=0&itl=0");
    Run::profile(&url(&server)).args("--request-count 6 --concurrency 1 --streaming").args(more).run()
}

#[test]
fn each_part_of_a_request_s_time_is_in_one_metric() {
    let done = six("").expect_exit(0).ends(Tally::of(6, 0));
    let records = done.records();
    for (at, record) in records.iter().enumerate() {
        let ms = |tag: &str| value(record, tag);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        let fresh = at == 0;
        assert_eq!(record["metrics"]["http_req_connection_reused"]["value"], i32::from(!fresh));
        assert_eq!(ms("http_req_connecting") > 0.0, fresh);
        assert_eq!((ms("http_req_tls"), ms("http_req_blocked"), ms("http_req_dns_lookup")), (0.0, 0.0, 0.0));
        assert!(near(ms("http_req_tcp"), ms("http_req_connecting")));
        assert!(near(ms("http_req_connection_overhead"), ms("http_req_connecting")));
        let parts = ms("http_req_sending") + ms("http_req_waiting") + ms("http_req_receiving");
        assert!(near(parts, ms("http_req_duration")), "{record}");
        assert!(ms("http_req_connection_overhead") + ms("http_req_duration") <= ms("http_req_total") + 1e-6);
        let meta = &record["metadata"];
        let wall = meta["request_end_ns"].as_u64().zip(meta["request_start_ns"].as_u64()).expect("stamps");
        assert!(ms("http_req_total") <= (wall.0 - wall.1) as f64 / 1e6 + 1e-6, "no longer than the request");
        assert!(ms("time_to_response_headers") <= ms("time_to_first_event"));
        assert!(ms("time_to_first_event") <= ms("time_to_first_token"));
        assert_eq!(record["metrics"]["http_req_chunks_sent"]["value"], 1);
        assert_eq!(record["metrics"]["http_req_data_sent"]["unit"], "KB");
    }
    // The bodies that were sent, and with their heads.
    let bodies: f64 = done.inputs().iter().map(|body| body.to_string().len() as f64 / 1024.0).sum();
    assert!((done.stat("http_req_data_sent", "sum") - bodies).abs() < 1e-9);
    assert!(done.stat("http_wire_bytes_sent", "min") > done.stat("http_req_data_sent", "max"));
    assert!(done.stat("http_wire_bytes_received", "sum") > done.stat("http_req_data_received", "sum"));
    // Nobody asked for the rest.
    assert!(!done.stdout.contains("HTTP Trace Timing"));
    assert!(records.iter().all(|record| record.get("trace_data").is_none()));
    assert!(!done.text("profile_export.jsonl").contains("127.0.0.1"));
}

#[test]
fn the_table_of_what_http_took_is_shown_when_asked_for() {
    let done = six("--show-trace-timing").expect_exit(0).shows(&["NVIDIA AIPerf | HTTP Trace Timing"]);
    let shown = flat(&done.stdout);
    for header in [
        "HTTP Blocked (ms)",
        "HTTP Waiting (TTFB) (ms)",
        "HTTP TLS Handshake (ms)",
        "HTTP Wire Bytes Sent (KB)",
    ] {
        assert!(shown.contains(header), "{header}\n{}", done.stdout);
    }
    assert_eq!(done.summary()["input_config"]["artifacts"]["show_trace_timing"], true);
    let again = Run::new("report out --force").run_in(done).expect_exit(0);
    assert!(again.stdout.contains("HTTP Trace Timing"));
}

#[test]
fn a_trace_has_every_stamp_header_and_read() {
    let server = sim("ttft=0&itl=1");
    let done = Run::profile(&url(&server))
        .args("--request-count 4 --concurrency 1 --streaming --export-http-trace --api-key sk-not-told")
        .args("--request-rate 500")
        .run()
        .expect_exit(0)
        .ends(Tally::of(4, 0));
    let records = done.records();
    for record in &records {
        let trace = &record["trace_data"];
        let int = |key: &str| trace[key].as_u64().unwrap_or_else(|| panic!("{key} in {trace}"));
        assert_eq!((&trace["trace_type"], &trace["http_version"]), (&"aiohttp".into(), &"1.1".into()));
        let stamps = [
            "request_send_start_ns",
            "request_headers_sent_ns",
            "request_send_end_ns",
            "response_headers_received_ns",
            "response_receive_start_ns",
            "response_receive_end_ns",
        ];
        let order: Vec<u64> = stamps.iter().map(|key| int(key)).collect();
        assert!(order.is_sorted(), "{trace}");
        assert!(
            int("scheduled_ns") <= order[0]
                && order[0] >= record["metadata"]["request_start_ns"].as_u64().expect("a start")
        );
        assert_eq!(int("sending_ns"), order[2] - order[0]);
        assert_eq!(int("duration_ns"), order[5] - order[0]);
        let chunks = trace["response_chunks"].as_array().expect("a list");
        assert_eq!(chunks.len() as u64, int("response_chunks_count"));
        let sizes: u64 = chunks.iter().filter_map(|chunk| chunk[1].as_u64()).sum();
        assert_eq!(sizes, int("response_bytes_total"));
        assert_eq!((&chunks[0][0], int("response_status_code")), (&order[4].into(), 200));
        assert_eq!(trace["request_headers"]["Authorization"], "<redacted>");
        assert_eq!(trace["request_headers"]["X-Request-ID"], record["metadata"]["x_request_id"]);
        let length = int("request_bytes_total").to_string();
        assert_eq!(trace["request_headers"]["Content-Length"], length);
        assert!(
            trace["response_headers"]["content-type"]
                .as_str()
                .is_some_and(|t| t.starts_with("text/event-stream"))
        );
        assert_eq!(
            (&trace["remote_ip"], int("remote_port")),
            (&"127.0.0.1".into(), server.addr().port().into())
        );
        assert!(int("local_port") > 0);
        let fresh = trace.get("tcp_connect_start_ns").is_some();
        assert_eq!(trace.get("connection_reused_ns").is_none(), fresh, "{trace}");
    }
    let fresh = records.iter().filter(|r| r["trace_data"].get("connecting_ns").is_some()).count();
    assert!(fresh >= 1, "somebody connected");
    assert!(!done.text("profile_export.jsonl").contains("sk-not-told"));
}

#[test]
fn a_failed_request_has_a_trace_too() {
    let server = scripted(vec![Reply::new().close()]);
    let run = Run::profile(&server.url()).args("--request-count 1 --export-http-trace");
    let done = run.run().expect_exit(1);
    let trace = done.records()[0]["trace_data"].clone();
    assert!(trace["error_timestamp_ns"].is_u64() && trace["tcp_connect_end_ns"].is_u64(), "{trace}");
    assert!(trace.get("response_status_code").is_none() && trace.get("waiting_ns").is_none());
    Run::profile(&server.url())
        .args("--export-http-trace --export-level summary")
        .run()
        .expect_exit(2)
        .says(&["--export-http-trace", "--export-level"]);
}

#[test]
fn several_tokens_in_a_chunk_are_told_and_share_the_wait_for_it() {
    let server = sim("ttft=0&itl=3&tokens-per-chunk=4");
    let run = |more: &str| {
        let lengths = "--random-seed 7 --isl 8 --osl 12 --request-count 3 --streaming";
        Run::unseeded(&url(&server)).args(lengths).args(more).run()
    };
    let done = run("").expect_exit(0).ends(Tally::of(3, 0));
    for record in done.records() {
        let osl = value(&record, "output_sequence_length");
        let per_chunk = value(&record, "tokens_per_chunk");
        assert!(per_chunk > 1.5, "{record}");
        let list = |tag: &str| -> Vec<f64> {
            record["metrics"][tag]["value"].as_array().expect(tag).iter().filter_map(Value::as_f64).collect()
        };
        let (tokens, chunks) = (list("inter_token_gap"), list("inter_chunk_latency"));
        assert_eq!((osl / per_chunk).round() as usize, chunks.len() + 1);
        assert!(tokens.len() > chunks.len() && (tokens.len() as f64) < osl, "the first chunk's have none");
        let sum = |list: &[f64]| list.iter().sum::<f64>();
        assert!((sum(&tokens) - sum(&chunks)).abs() < 1e-6, "they are the same time");
        let longest = chunks.iter().copied().fold(0.0, f64::max);
        assert!((value(&record, "longest_gap") - longest).abs() < 1e-9);
    }
    assert!(done.stat("inter_token_gap", "avg") > done.stat("inter_token_latency", "avg"));
    let told =
        flat(&done.stdout).matches("tokens on average, so time_to_first_token is that of several").count();
    assert_eq!(told, 1, "{}", done.stdout);
    // One token a chunk: nothing to tell, and the two paces are one.
    let done = six("").expect_exit(0);
    assert!(!flat(&done.stdout).contains("tokens on average, so"), "{}", done.stdout);
    // The server's counts are not those of chunks.
    let done = run("--use-server-token-count").expect_exit(0);
    assert!(done.summary().get("inter_token_gap").is_none());
}

#[test]
fn latencies_are_told_without_the_measured_way_to_the_server() {
    let server = sim("ttft=5&itl=1");
    let done = Run::profile(&url(&server))
        .args(
            "--request-count 6 --streaming --network-latency-automatic --network-latency-ping-interval 0.01",
        )
        .run()
        .expect_exit(0)
        .ends(Tally::of(6, 0));
    let probes = done.lines("profile_export_network_latency.jsonl");
    assert!(probes.len() >= 5, "{}", probes.len());
    for probe in &probes {
        assert_eq!((&probe["probe_type"], &probe["success"]), (&"tcp_connect".into(), &true.into()));
        assert_eq!(
            (&probe["target_host"], &probe["target_port"]),
            (&"127.0.0.1".into(), &server.addr().port().into())
        );
        assert!(probe["rtt_ns"].as_u64().is_some_and(|ns| ns > 0) && probe["timestamp_ns"].is_u64());
    }
    let summary = done.summary();
    let rtt = done.stat("network_rtt", "avg");
    assert!(rtt > 0.0 && summary["network_rtt"].get("count").is_none());
    assert_eq!((done.stat("network_rtt", "p99"), done.stat("network_rtt", "std")), (rtt, 0.0));
    for tag in ["request_latency", "time_to_first_token", "time_to_first_output_token"] {
        let adjusted = format!("network_adjusted_{tag}");
        for stat in ["avg", "min", "p50", "max"] {
            let less = (done.stat(tag, stat) - rtt).max(0.0);
            assert!((done.stat(&adjusted, stat) - less).abs() < 1e-6, "{adjusted} {stat}: {summary}");
        }
        assert!(summary[&adjusted].get("count").is_none());
        assert!(done.records().iter().all(|record| record["metrics"].get(&adjusted).is_none()));
    }
    let block = &summary["network_latency"];
    assert_eq!((&block["source"], &block["targets"][0]["failed"]), (&"probes".into(), &0.into()));
    assert!((block["mean_ms"].as_f64().expect("a mean") - rtt).abs() < 1e-9);
    assert_eq!(summary["input_config"]["network_latency"]["enabled"], true);
    let done = done.shows(&["Network RTT (ms)", "Network Latency: "]);
    let again = Run::new("report out --force").run_in(done).expect_exit(0);
    assert!(again.stat("network_rtt", "avg") > 0.0);
}

#[test]
fn the_way_to_the_server_may_be_given() {
    let server = sim("ttft=20&itl=0");
    let run = |more: &str| Run::profile(&url(&server)).args("--request-count 3").args(more);
    let done = run("--network-latency-mean 5").run().expect_exit(0);
    let less = done.stat("request_latency", "avg") - 5.0;
    assert!((done.stat("network_adjusted_request_latency", "avg") - less).abs() < 1e-6);
    done.has("network_rtt", "avg", 5.0);
    assert!(!done.path("profile_export_network_latency.jsonl").exists());
    assert!(done.summary().get("network_adjusted_time_to_first_token").is_none(), "nothing was streamed");
    let done = Run::new("report out --force").run_in(done).expect_exit(0);
    done.has("network_rtt", "avg", 5.0);
    let both = run("--network-latency-mean 5 --network-latency-automatic").run().expect_exit(2);
    both.says(&["--network-latency-automatic and --network-latency-mean exclude each other"]);
    let lone = run("--network-latency-ping-interval 2").run().expect_exit(2);
    lone.says(&["--network-latency-ping-interval needs --network-latency-automatic"]);
    // A file says both, as AIPerf's do.
    let file = "benchmark: {networkLatency: {enabled: true, meanMs: 7, pingInterval: 1.0}}";
    let done = run("--config c.yaml").file("c.yaml", file).run().expect_exit(0);
    done.has("network_rtt", "avg", 7.0);
}
