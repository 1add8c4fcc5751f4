//! Scripted servers do what their script says.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use aiperf_sim::scripted::{Reply, Script, ScriptedServer, SeenRequest, Signal, Step};

use crate::client::{Client, End};

fn connect(server: &ScriptedServer) -> TcpStream {
    TcpStream::connect(server.addr()).expect("it listens")
}

#[test]
fn replies_come_in_order_and_requests_are_kept() {
    let server = ScriptedServer::start(vec![Reply::chat("hi", 3, 1), Reply::no_choices()]).expect("a port");
    let mut client = Client::connect(server.addr());
    client.send("POST", "/v1/chat/completions?x=1", "X-Test: Yes\r\n", "{\"a\":1}");
    let first = client.read().expect("an answer").json();
    assert_eq!(first["usage"]["total_tokens"], 4);
    for _ in 0..2 {
        client.send("GET", "/again", "", "");
        assert_eq!(client.read().expect("an answer").json()["choices"], serde_json::json!([]));
    }
    let seen = server.wait_requests(3);
    assert_eq!((seen[0].method.as_str(), seen[0].path.as_str()), ("POST", "/v1/chat/completions?x=1"));
    assert_eq!((seen[0].header("x-test"), &seen[0].body[..]), (Some("Yes"), &b"{\"a\":1}"[..]));
    assert!(seen[0].first_byte_ns <= seen[0].whole_ns);
    assert_eq!(seen.iter().map(|r| (r.index, r.connection)).collect::<Vec<_>>(), [(0, 0), (1, 0), (2, 0)]);
}

#[test]
fn a_cycle_starts_again_and_chunked_requests_are_read() {
    let server =
        Script::new(vec![Reply::json(200, "1"), Reply::json(200, "2")]).cycle().start().expect("a port");
    let mut stream = connect(&server);
    for _ in 0..3 {
        stream
            .write_all(
                b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
            )
            .expect("sent");
    }
    let seen = server.wait_requests(3);
    assert!(seen.iter().all(|r| r.body == b"abcde"), "{seen:?}");
}

#[test]
fn replies_are_chosen_by_what_is_asked() {
    let choose = |request: &SeenRequest| match request.path.as_str() {
        "/a" => Reply::json(200, "1"),
        _ => Reply::json(404, &request.index.to_string()),
    };
    let server = Script::by_request(choose).start().expect("a port");
    let mut client = Client::connect(server.addr());
    for (path, answer) in [("/b", 0), ("/a", 1), ("/b", 2)] {
        client.send("GET", path, "", "");
        assert_eq!(client.read().expect("an answer").json(), answer, "{path}");
    }
}

#[test]
fn streams_whole_and_half() {
    let server = ScriptedServer::start(vec![Reply::chat_stream(&["a", "b"]), Reply::half_event(&["a"])])
        .expect("a port");
    let mut client = Client::connect(server.addr());
    client.send("GET", "/", "", "");
    assert_eq!(client.read().expect("an answer").joined("content"), "ab");
    client.send("GET", "/", "", "");
    let half = client.read().expect("an answer");
    assert_eq!(half.end, End::Whole);
    assert!(!half.text().ends_with("\n\n"));
}

#[test]
fn endings_of_connections() {
    for (reply, end) in [
        (Reply::close_before_answer(), End::Closed),
        (Reply::new().reset(), End::Reset),
        (Reply::new().half_close(), End::Closed),
    ] {
        let server = ScriptedServer::start(vec![reply]).expect("a port");
        let mut client = Client::connect(server.addr());
        client.send("GET", "/", "", "");
        assert_eq!(client.read().expect_err("no answer"), end);
    }
    let server = Script::new(Vec::new()).on_connect(Reply::new().close()).start().expect("a port");
    let mut got = Vec::new();
    assert_eq!(connect(&server).read_to_end(&mut got).expect("an end"), 0);
    let server = ScriptedServer::start(vec![Reply::garbage()]).expect("a port");
    let mut stream = connect(&server);
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    stream.read_to_end(&mut got).expect("an end");
    assert_eq!(got[0], 0x16);
}

#[test]
fn a_script_waits_for_the_test_and_the_test_for_the_script() {
    let (go, here) = (Signal::new(), Signal::new());
    let reply = Reply::sse_head().chat_event("a").raise(&here).wait_for(&go).chat_event("b").end_chunks();
    let server = ScriptedServer::start(vec![reply]).expect("a port");
    let mut client = Client::connect(server.addr());
    client.send("GET", "/", "", "");
    here.wait();
    assert!(here.is_raised() && !go.is_raised());
    go.raise();
    assert_eq!(client.read().expect("an answer").joined("content"), "ab");
}

#[test]
fn splits_lose_no_byte() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    for at in [vec![], vec![1], vec![0, 3, 3, 9, 99], (0..text.len()).collect()] {
        let reply = Reply::new().send_split(text, &at, Duration::ZERO);
        let sent: Vec<u8> = reply
            .steps()
            .iter()
            .filter_map(|s| if let Step::Send(bytes) = s { Some(bytes.to_vec()) } else { None })
            .flatten()
            .collect();
        assert_eq!(sent, text.as_bytes());
    }
    let server =
        ScriptedServer::start(vec![Reply::new().send_bytewise(text, Duration::ZERO)]).expect("a port");
    let mut client = Client::connect(server.addr());
    client.send("GET", "/", "", "");
    assert_eq!(client.read().expect("an answer").text(), "hello");
}

#[test]
fn a_stall_ends_with_the_server() {
    let here = Signal::new();
    let server = ScriptedServer::start(vec![Reply::new().raise(&here).stall()]).expect("a port");
    let mut client = Client::connect(server.addr());
    client.send("GET", "/", "", "");
    here.wait();
    drop(server);
    assert!(client.read().is_err());
}
