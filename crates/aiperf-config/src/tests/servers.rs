//! Several servers, and what carries the bytes to them.

use aiperf_core::plan::{ClientCertificate, ConnectionReuse, EndpointPlan, HttpVersion, UrlStrategy};
use serde_json::json;

use super::{File, good, run_in, wrong};

fn endpoint(line: &str) -> EndpointPlan {
    good(&format!("-m m {line}")).plan.endpoint
}

fn servers(plan: &EndpointPlan) -> Vec<(String, f64)> {
    plan.targets.iter().map(|target| (target.url.to_string(), target.weight)).collect()
}

#[test]
fn several_servers_are_listed_and_weighed() {
    let plan = endpoint("--url a:1,b:2 --url http://c:3");
    assert_eq!(
        servers(&plan),
        [("http://a:1".into(), 1.0), ("http://b:2".into(), 1.0), ("http://c:3".into(), 1.0)]
    );
    assert_eq!(plan.url_strategy, UrlStrategy::RoundRobin);
    let plan = endpoint("--url a,b --url-weights 3,1");
    assert_eq!(servers(&plan), [("http://a".into(), 3.0), ("http://b".into(), 1.0)]);
    assert_eq!(plan.url_strategy, UrlStrategy::Weighted);
    for (word, strategy) in [
        ("round-robin", UrlStrategy::RoundRobin),
        ("random", UrlStrategy::Random),
        ("least_in_flight", UrlStrategy::LeastInFlight),
    ] {
        assert_eq!(endpoint(&format!("--url a,b --url-strategy {word}")).url_strategy, strategy);
    }
    let file = File::new(
        "benchmark: {model: m, endpoint: {urls: [{url: 'a:1', weight: 2.5}, 'b:2', {url: 'c:3'}]}}",
    );
    let plan = file.run("").expect("sound").plan;
    assert_eq!(
        servers(&plan.endpoint),
        [("http://a:1".into(), 2.5), ("http://b:2".into(), 1.0), ("http://c:3".into(), 1.0)]
    );
    assert_eq!(plan.endpoint.url_strategy, UrlStrategy::Weighted);
    assert_eq!(
        plan.input_config["endpoint"],
        json!({"urls": ["http://a:1", "http://b:2", "http://c:3"], "url_weights": [2.5, 1.0, 1.0]})
    );
    // Weights are those of the servers that they were written for.
    let plan = file.run("--url d").expect("sound").plan;
    assert_eq!(
        (servers(&plan.endpoint), plan.endpoint.url_strategy),
        (vec![("http://d".into(), 1.0)], UrlStrategy::RoundRobin)
    );
    let plan = file.run("--url-weights 1,1,8").expect("sound").plan;
    assert_eq!(servers(&plan.endpoint)[2], ("http://c:3".into(), 8.0));
    // The higher layer decides between weights and another strategy.
    assert_eq!(plan.endpoint.url_strategy, UrlStrategy::Weighted);
    let plan = file.run("--url-strategy random").expect("sound").plan;
    assert_eq!(plan.endpoint.url_strategy, UrlStrategy::Random);
    let turns = File::new("benchmark: {model: m, endpoint: {urls: [a, b], url_strategy: round_robin}}");
    let plan = turns.run("--url-weights 2,1").expect("sound").plan;
    assert_eq!(plan.endpoint.url_strategy, UrlStrategy::Weighted);
    let config =
        good("-m m --url a,b --url-strategy round-robin --connection-reuse-strategy sticky-user-sessions")
            .plan
            .input_config;
    assert_eq!(
        config["endpoint"],
        json!({"urls": ["http://a", "http://b"], "url_strategy": "round_robin", "connection_reuse": "sticky-user-sessions"})
    );
}

#[test]
fn no_servers_password_is_told() {
    let urls = "http://u:s3cret@a,http://u:s3cret@b";
    let resolved = run_in(&["-m", "m"], &[("AIPERF_URL", urls)]).expect("sound");
    let file = File::new(
        "benchmark: {model: m, endpoint: {urls: [{url: 'http://u:s3cret@a', weight: 2}, 'http://u:s3cret@b']}}",
    );
    let expanded = crate::expand_file(file.path(), &|_| None, crate::ExpandFormat::Json).expect("sound");
    let broken = wrong(&format!("-m m --url {urls},"));
    let plan = good(&format!("-m m --url {urls}")).plan;
    let told = [
        format!("{:?}", resolved.notes),
        resolved.plan.input_config.to_string(),
        expanded,
        broken.join("\n"),
        plan.cli_command,
        file.run("").expect("sound").plan.input_config.to_string(),
    ];
    for text in told {
        assert!(!text.contains("s3cret") && text.contains("<redacted>"), "{text}");
    }
}

#[test]
fn what_is_wrong_with_servers_is_told() {
    for (line, expected) in [
        ("--url a,ftp://u:p@h", "--url: found 'ftp://<redacted>@h', which has the scheme 'ftp'"),
        (
            "--url a,b --url-weights 1",
            "--url-weights: found 1 weights; allowed: one for each of the 2 servers",
        ),
        ("--url a,b --url-weights 1,0", "--url-weights: found '1,0'; allowed: numbers above 0, such as 3,1"),
        ("--url a,b --url-weights 1,x", "--url-weights: found '1,x'"),
        ("--url a,b --url-strategy weighted", "--url-strategy needs --url-weights: they say which share"),
        (
            "--url a,b --url-weights 1,2 --url-strategy random",
            "--url-weights and --url-strategy exclude each other",
        ),
        (
            "--url a,b --url-strategy least",
            "--url-strategy: found 'least'; allowed: round_robin, random, weighted, least_in_flight",
        ),
        ("--url sim://,http://b", "--url: found sim:// beside other servers; allowed: sim:// alone"),
        ("--url sim://,sim://", "--url: found sim:// beside other servers; allowed: sim:// alone"),
        (
            "--url sim:// --unix-socket s",
            "--unix-socket and --url exclude each other: sim:// is reached inside this process",
        ),
        ("--url sim:// --proxy-from-env", "--proxy-from-env and --url exclude each other: sim://"),
        ("--url sim:// --http-version 2", "--http-version and --url exclude each other: sim://"),
        (
            "--unix-socket s --proxy-from-env",
            "--unix-socket and --proxy-from-env exclude each other: a Unix socket leads",
        ),
        ("--http-version 3", "--http-version: found '3'; allowed: 1.1, 2"),
        ("--ca-file none.pem", "--ca-file: the file none.pem does not exist"),
        ("--client-cert .", "--client-cert: the file . is a folder; a PEM file is expected"),
        ("--client-key Cargo.toml", "--client-key needs --client-cert: it is the key of that certificate"),
        (
            "--first-token-timeout-seconds 3",
            "--first-token-timeout-seconds needs --streaming: without a stream",
        ),
        ("--idle-timeout-seconds 0", "--idle-timeout-seconds: found '0'; allowed: seconds above 0"),
        ("--connect-timeout-seconds inf", "--connect-timeout-seconds: found 'inf'; allowed: seconds above 0"),
    ] {
        let errors = wrong(&format!("-m m {line}"));
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{line}: {errors:?}");
    }
    for (urls, expected) in [
        ("[{url: a, weight: -1}, b]", "urls[0].weight: found the number -1; expected a number above 0"),
        ("[{weight: 1}]", "urls[0]: found a mapping; expected a URL, or a mapping with url and weight"),
        (
            "[{url: a, wieght: 1}]",
            "there is no key 'wieght' here; allowed: url, weight; did you mean 'weight'?",
        ),
        ("[{url: a}, null]", "urls[1]: found nothing; expected a URL"),
    ] {
        let errors = File::new(&format!("benchmark: {{model: m, endpoint: {{urls: {urls}}}}}")).wrong("");
        assert!(errors.len() == 1 && errors[0].contains(expected), "{urls}: {errors:?}");
    }
}

#[test]
fn connections_are_as_they_are_asked_for() {
    let plain = endpoint("");
    assert_eq!(
        (plain.http, plain.reuse, plain.resend, plain.proxy_from_env),
        (HttpVersion::One, ConnectionReuse::Pooled, true, false)
    );
    assert!(
        plain.connect_timeout_ns.is_none()
            && plain.first_token_timeout_ns.is_none()
            && plain.idle_timeout_ns.is_none()
    );
    let plan = endpoint(
        "--http-version 2 --connection-reuse-strategy sticky-user-sessions --no-resend --connect-timeout-seconds 2 --streaming \
         --first-token-timeout-seconds 30s --idle-timeout-seconds 1.5 --unix-socket /run/s --ca-file Cargo.toml \
         --client-cert Cargo.toml",
    );
    assert_eq!((plan.http, plan.reuse, plan.resend), (HttpVersion::Two, ConnectionReuse::Sticky, false));
    assert_eq!(
        (plan.connect_timeout_ns, plan.first_token_timeout_ns, plan.idle_timeout_ns),
        (Some(2_000_000_000), Some(30_000_000_000), Some(1_500_000_000))
    );
    assert_eq!(plan.unix_socket, Some("/run/s".into()));
    assert_eq!(plan.ca, Some("Cargo.toml".into()));
    // One file may hold both.
    let one = ClientCertificate { certificate: "Cargo.toml".into(), key: "Cargo.toml".into() };
    assert_eq!(plan.client_certificate, Some(one));
    let file =
        File::new("benchmark: {model: m, endpoint: {http_version: 2, resend: false, connectTimeout: 2s}}");
    let plan = file.run("").expect("sound").plan.endpoint;
    assert_eq!(
        (plan.http, plan.resend, plan.connect_timeout_ns),
        (HttpVersion::Two, false, Some(2_000_000_000))
    );
    assert_eq!(file.run("--http-version 1.1 --resend").expect("sound").plan.endpoint.http, HttpVersion::One);
}

#[test]
fn proxies_are_taken_from_the_environment_when_that_is_asked_for() {
    let asked = |words: &[&str], vars: &[(&str, &str)]| {
        let resolved = run_in(words, vars).expect("sound");
        (resolved.plan.endpoint.proxy_from_env, resolved.notes)
    };
    // A proxy that is merely there is not used.
    assert_eq!(asked(&["-m", "m"], &[("HTTP_PROXY", "http://p:1")]), (false, vec![]));
    assert_eq!(asked(&["-m", "m", "--proxy-from-env"], &[]), (true, vec![]));
    let note = "AIPERF_HTTP_TRUST_ENV=true in the environment takes proxies from the environment".to_owned();
    let trust = [("AIPERF_HTTP_TRUST_ENV", "1")];
    assert_eq!(asked(&["-m", "m"], &trust), (true, vec![note]));
    assert_eq!(asked(&["-m", "m", "--no-proxy-from-env"], &trust), (false, vec![]));
    // A socket and the server in this process are reached without one.
    assert_eq!(asked(&["-m", "m", "--unix-socket", "s"], &trust), (false, vec![]));
    assert_eq!(asked(&["-m", "m", "-u", "sim://"], &trust), (false, vec![]));
    assert!(run_in(&["-m", "m"], &[("AIPERF_HTTP_TRUST_ENV", "perhaps")]).is_err());
}

#[test]
fn a_list_in_the_query_of_the_simulated_server_stays_in_it() {
    let plan = good("-m m --url sim://?faults=500:every=7,cut:every=11").plan;
    assert_eq!(plan.endpoint.targets.len(), 1);
    let beside = wrong("-m m --url sim://?faults=500:every=7,cut:every=11,http://h");
    assert!(beside[0].contains("sim:// beside other servers"), "{beside:?}");
}
