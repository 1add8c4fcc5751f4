//! No bytes of a server make reading an answer panic, and an answer is good only with content.
#![no_main]

use aiperf_core::exchange::{Exchange, ReadMark, Stamps};
use aiperf_core::outcome::Disposition;
use aiperf_core::plan::{EndpointKind, EndpointPlan};
use aiperf_core::url::BaseUrl;
use aiperf_net::{Endpoint, Familiar};
use libfuzzer_sys::fuzz_target;

fn endpoint(kind: EndpointKind) -> Endpoint {
    Endpoint::new(&EndpointPlan {
        streaming: true,
        ..EndpointPlan::new(kind, BaseUrl::parse("http://127.0.0.1:1").expect("a URL"))
    })
}

fuzz_target!(|input: &[u8]| {
    let Some((flags, body)) = input.split_first() else { return };
    let content_type = if flags & 1 == 0 { "text/event-stream" } else { "application/json" };
    let kinds = [
        EndpointKind::Chat,
        EndpointKind::Completions,
        EndpointKind::Responses,
        EndpointKind::Messages,
        EndpointKind::Embeddings,
        EndpointKind::ChatEmbeddings,
        EndpointKind::CohereRankings,
        EndpointKind::HfTeiRankings,
    ];
    let kind = kinds[usize::from(flags >> 3 & 7)];
    let exchange = Exchange {
        stamps: Stamps { start_ns: 1, end_ns: 9, ..Stamps::default() },
        reused: false,
        resent: false,
        status: Some(if flags & 4 == 0 { 200 } else { 500 }),
        reason: String::new(),
        content_type: Some(content_type.to_owned()),
        headers: Vec::new(),
        body: body.to_vec(),
        reads: vec![ReadMark::read(5, body.len())],
        bytes_sent: 0,
        bytes_received: body.len() as u64,
        traffic: aiperf_core::exchange::Traffic::default(),
        disposition: Disposition::Finished,
    };
    let answer = endpoint(kind).read(&exchange);
    // What was learnt from an answer does not change what the next one means.
    let mut familiar = Familiar::new();
    for _ in 0..2 {
        assert_eq!(endpoint(kind).read_with(&exchange, &mut familiar), answer);
    }
    assert!(answer.failure.is_some() || !answer.chunks.is_empty());
    let ends = answer.chunks.last().map_or((0, 0), |c| (c.text_end, c.reasoning_end));
    let lengths = answer.choices().fold((0, 0), |sum, (text, thoughts)| (sum.0 + text.len(), sum.1 + thoughts.len()));
    assert_eq!(ends, lengths);
    for call in &answer.calls {
        // Calls lie in the text, whole and one behind the other.
        assert!(answer.text.get(call.whole()).is_some() && answer.text.get(call.name.clone()).is_some());
    }
    assert!(answer.calls.windows(2).all(|pair| pair[0].arguments.end <= pair[1].name.start));
    let mut reply = Vec::new();
    assert_eq!(endpoint(kind).encode_reply(&answer, &mut reply), !reply.is_empty());
    endpoint(kind).texts(body);
});
