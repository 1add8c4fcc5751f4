//! When bytes arrived, and when they were read.

use super::*;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const CHUNK: &str = "9\r\ndata: a\n\n\r\n";
/// The kernel begins to stamp a moment after the first socket on the machine asked for it.
#[cfg(target_os = "linux")]
const TRIES: usize = 200_000;
/// Two clocks cannot be read at one moment, nanoseconds.
#[cfg(target_os = "linux")]
const SLACK_NS: u64 = 2_000;

/// Keeps this thread, and with it the client, from doing anything else until `until_ns`.
#[cfg(target_os = "linux")]
fn stay_busy(until_ns: u64) {
    while mono_ns() < until_ns {
        std::hint::spin_loop();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_late_read_has_the_stamp_of_the_arrival_and_tells_how_late_it_was() {
    let late_ns = 2_000_000;
    let windows = std::cell::RefCell::new(Vec::new());
    let exchange = watched(|mut stream, socket| {
        let windows = &windows;
        async move {
            let mut sent = 0;
            send_and_see_read(&mut stream, &socket, HEAD.as_bytes(), &mut sent).await;
            for _ in 0..TRIES {
                let before = mono_ns();
                stream.write_all(CHUNK.as_bytes()).await.expect("the client reads");
                let written = mono_ns();
                stay_busy(written + late_ns);
                sent += CHUNK.len() as u64;
                while socket.bytes_in.get() < sent {
                    yield_now().await;
                }
                windows.borrow_mut().push((before, written));
                if socket.mark(0).read_lag_ns().is_some() {
                    break;
                }
            }
            send_and_see_read(&mut stream, &socket, b"0\r\n\r\n", &mut sent).await;
        }
    })
    .await;
    let (before, written) = *windows.borrow().last().expect("a chunk");
    let mark = exchange.reads.last().expect("a chunk");
    let lag_ns = u64::from(mark.read_lag_ns().expect("the kernel's stamp"));
    assert!(
        mark.at_ns + SLACK_NS >= before && mark.at_ns <= written + SLACK_NS,
        "{before} {mark:?} {written}"
    );
    assert!(lag_ns + SLACK_NS >= late_ns && mark.read_ns() >= written + late_ns, "{mark:?}");
    assert_eq!(exchange.stamps.last_byte_ns, Some(mark.at_ns));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_answer_that_was_there_before_the_write_returned_keeps_stamps_in_order() {
    let (listener, url) = listener().await;
    // The server has a thread of its own, so that it may answer while the client is still inside of its write.
    let server = std::thread::spawn(move || {
        let listener = listener.into_std().expect("a socket");
        listener.set_nonblocking(false).expect("a socket");
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.set_nodelay(true).expect("a live socket");
        let mut got = Vec::new();
        let mut part = [0; 4096];
        while let Ok(n) = std::io::Read::read(&mut stream, &mut part) {
            if n == 0 {
                return;
            }
            got.extend_from_slice(&part[..n]);
            if got.ends_with(BODY) {
                got.clear();
                std::io::Write::write_all(&mut stream, PLAIN.as_bytes()).expect("the client reads");
            }
        }
    });
    let client = client(&plan(), &url);
    let mut stamped = 0;
    for _ in 0..TRIES {
        let e = exchange(&client).await;
        check_stamps(&e);
        stamped += usize::from(e.reads[0].read_lag_ns().is_some());
        if stamped == 200 {
            break;
        }
    }
    assert_eq!(stamped, 200);
    assert_eq!(client.counters().clock_steps, 0);
    drop(client);
    server.join().expect("serves");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_comes_over_tls_is_stamped_too() {
    let (_, server) = super::tls::certificate();
    let (listener, url) = listener().await;
    let url = BaseUrl::parse(&format!("https://{}", url.authority())).expect("a URL");
    let mut plan = plan();
    plan.verify_tls = false;
    let client = client(&plan, &url);
    let requests = async {
        for _ in 0..TRIES {
            let e = exchange(&client).await;
            check_stamps(&e);
            if e.reads[0].read_lag_ns().is_some() {
                client.close_idle();
                return;
            }
        }
        panic!("no read had the kernel's stamp");
    };
    let serve = async { super::tls::tls_server(accept(&listener).await, server).await };
    tokio::join!(requests, serve);
}

#[tokio::test]
async fn without_the_kernels_stamps_a_read_is_the_arrival() {
    let mut plan = plan();
    plan.receive_stamps = false;
    let (listener, url) = listener().await;
    let client = client(&plan, &url);
    let wire = format!("{HEAD}{CHUNK}0\r\n\r\n");
    let (e, _) = tokio::join!(exchange(&client), answer_once(&listener, wire.as_bytes()));
    check_stamps(&e);
    assert!(!e.reads.is_empty());
    assert!(e.reads.iter().all(|m| m.read_lag_ns().is_none() && m.read_ns() == m.at_ns), "{:?}", e.reads);
}
