//! Answers cut into reads in every way, and what is no answer.

use proptest::prelude::*;

use super::*;

/// What came of an answer.
#[derive(Debug, Default, PartialEq)]
struct Taken {
    head: Option<(u16, String, Option<u64>)>,
    body: Vec<u8>,
    /// Most bytes of a body that are wanted.
    cap: Option<usize>,
}

impl Takes for Taken {
    fn head(&mut self, head: &Head<'_>) {
        assert!(self.head.is_none(), "an answer has one head");
        self.head = Some((head.status, head.reason.to_owned(), head.length));
    }

    fn data(&mut self, data: &[u8]) -> bool {
        self.body.extend_from_slice(data);
        self.cap.is_none_or(|cap| self.body.len() <= cap)
    }
}

/// Reads `answer` in reads of the given lengths, over and over; the reader, what was taken, and what was left over.
fn read(answer: &[u8], steps: &[usize]) -> Result<(AnswerReader, Taken, Vec<u8>), Malformed> {
    let (mut reader, mut taken, mut over) = (AnswerReader::new(), Taken::default(), Vec::new());
    let mut rest = answer;
    for step in steps.iter().cycle() {
        let (bytes, behind) = rest.split_at((*step).min(rest.len()));
        over.extend_from_slice(reader.feed(bytes, &mut taken)?);
        rest = behind;
        if rest.is_empty() {
            return Ok((reader, taken, over));
        }
    }
    unreachable!("there are steps")
}

/// As `read` all at once, which must be the same as byte by byte.
fn whole(answer: &str) -> Result<(AnswerReader, Taken, Vec<u8>), Malformed> {
    let at_once = read(answer.as_bytes(), &[usize::MAX]);
    let by_byte = read(answer.as_bytes(), &[1]);
    match (&at_once, &by_byte) {
        (Ok((a, taken, over)), Ok((b, taken_b, over_b))) => {
            assert_eq!((a.part, a.keeps, taken, over), (b.part, b.keeps, taken_b, over_b), "{answer:?}");
        }
        (Err(a), Err(b)) => assert_eq!(a, b, "{answer:?}"),
        _ => panic!("{at_once:?} at once, {by_byte:?} byte by byte"),
    }
    at_once
}

/// Body, whether it is over, whether the connection is kept.
fn body(answer: &str) -> (String, bool, bool) {
    let (reader, taken, over) = whole(answer).expect("an answer");
    assert!(over.is_empty());
    let body = String::from_utf8(taken.body).expect("UTF-8");
    (body, reader.is_over(), reader.keeps_connection())
}

#[test]
fn a_body_ends_where_its_head_says() {
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", ("abc", true, true)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\ncontent-length:3\r\n\r\nab", ("ab", false, true)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ("", true, true)),
        ("HTTP/1.1 200 OK\r\n\r\nabc", ("abc", false, false)),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n", ("", true, true)),
        ("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", ("", true, true)),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", ("", true, false)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\nabc", ("abc", false, false)),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\nContent-Length: 1\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            ("ab", true, true),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 ;x=\"y\"\r\nab\r\n0A\r\n0123456789\r\n0\r\nT: u\r\n\r\n",
            ("ab0123456789", true, true),
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
            ("a", true, true),
        ),
    ] {
        let (text, over, kept) = body(answer);
        assert_eq!((text.as_str(), over, kept), expected, "{answer:?}");
    }
}

#[test]
fn the_close_ends_only_a_body_without_another_end() {
    let (mut reader, ..) = whole("HTTP/1.1 200 OK\r\n\r\nabc").expect("an answer");
    assert!(reader.close() && reader.is_over());
    for cut in ["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", "HTTP/1.1 200 OK\r\nX: y\r\n", "HTTP"] {
        let (mut reader, ..) = whole(cut).expect("the start of an answer");
        assert!(!reader.close(), "{cut:?}");
    }
}

#[test]
fn who_keeps_the_connection_says_so() {
    let with = |version: &str, connection: &str| {
        let answer = format!("HTTP/{version} 200 OK\r\n{connection}Content-Length: 0\r\n\r\n");
        body(&answer).2
    };
    assert!(with("1.1", "") && with("1.1", "Connection: Keep-Alive\r\n"));
    assert!(!with("1.1", "Connection: x, Close\r\n"));
    assert!(!with("1.1", "Connection: close\r\nConnection: keep-alive\r\n"));
    assert!(!with("1.0", "") && with("1.0", "connection : keep-alive\r\n"));
}

#[test]
fn what_is_behind_an_answer_is_given_back() {
    let (reader, taken, over) =
        whole("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 408 ").expect("an answer");
    assert!(reader.is_over());
    assert_eq!((taken.body.as_slice(), over.as_slice()), (&b"a"[..], &b"HTTP/1.1 408 "[..]));
}

#[test]
fn odd_heads_are_taken_and_their_words_kept() {
    let (_, taken, _) =
        whole("HTTP/1.1 503 \r\nX : y\r\nb@d: z\r\nFolded: a\r\n b\r\nContent-Length: 2\r\n\r\n{}")
            .expect("an answer");
    assert_eq!(taken.head, Some((503, String::new(), Some(2))));
}

#[test]
fn what_is_no_answer_is_told_apart() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let endless = format!("{chunked}{}", "1".repeat(LINE_LIMIT + 1));
    let trailers = format!("{chunked}0\r\n{}", "a: b\r\n".repeat(LINE_LIMIT / 6 + 1));
    let headers = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(HEADERS + 1));
    for (answer, is_head) in [
        ("<html>hello</html>\r\n\r\n", true),
        ("HTTP/2 200 OK\r\n\r\n", true),
        ("HTTP/1.1 OK\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", true),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true),
        (&headers, true),
        (&format!("{chunked}zz\r\nabc\r\n"), false),
        (&format!("{chunked}\r\nabc\r\n"), false),
        (&format!("{chunked}10000000000000000\r\nabc\r\n"), false),
        (&format!("{chunked}3\nabc\r\n"), false),
        (&format!("{chunked}3\r\nabcd\r\n"), false),
        (&endless, false),
        (&trailers, false),
    ] {
        let wrong = whole(answer).expect_err(&answer[..answer.len().min(80)]);
        assert_eq!(matches!(wrong, Malformed::Head(_)), is_head, "{wrong:?}");
        assert_ne!(wrong, Malformed::TooLarge);
    }
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_LIMIT));
    assert!(matches!(read(endless.as_bytes(), &[1 << 16]), Err(Malformed::Head(_))));
}

#[test]
fn who_wants_no_more_gets_no_more() {
    let mut taken = Taken { cap: Some(2), ..Taken::default() };
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc";
    assert_eq!(AnswerReader::new().feed(answer, &mut taken), Err(Malformed::TooLarge));
}

proptest! {
    #[test]
    fn chunks_come_out_as_they_went_in(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..20),
        steps in prop::collection::vec(1..50_usize, 1..20),
    ) {
        let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for chunk in &chunks {
            answer.extend(format!("{:x}\r\n", chunk.len()).bytes());
            answer.extend(chunk);
            answer.extend(b"\r\n");
        }
        answer.extend(b"0\r\n\r\n");
        let (reader, taken, over) = read(&answer, &steps).expect("an answer");
        prop_assert!(reader.is_over() && reader.keeps_connection() && over.is_empty());
        prop_assert_eq!(taken.body, chunks.concat());
        // Cut anywhere, it is not over.
        for cut in [answer.len() - 1, answer.len() / 2] {
            let (mut reader, ..) = read(&answer[..cut], &steps).expect("the start of an answer");
            prop_assert!(!reader.close());
        }
    }

    #[test]
    fn no_bytes_are_too_much(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        steps in prop::collection::vec(1..50_usize, 1..20),
        behind_a_head in any::<bool>(),
    ) {
        let mut answer = Vec::new();
        if behind_a_head {
            answer.extend(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        }
        answer.extend(bytes);
        // Whatever it says, it says the same of the whole and of its pieces, but for how much of a broken answer was read.
        let at_once = read(&answer, &[usize::MAX]).map(|(reader, taken, _)| (reader.part, taken));
        let in_pieces = read(&answer, &steps).map(|(reader, taken, _)| (reader.part, taken));
        prop_assert_eq!(at_once.is_ok(), in_pieces.is_ok());
        if at_once.is_ok() {
            prop_assert_eq!(at_once, in_pieces);
        }
    }
}
