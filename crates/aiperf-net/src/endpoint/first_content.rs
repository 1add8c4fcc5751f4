//! When a stream's first content is there: text, reasoning or part of a tool call. Told while the stream still runs, by the same
//! reader that reads the whole answer behind the run, so that both mean the same event.

use std::sync::Arc;

use aiperf_core::plan::EndpointKind;

use super::answer::Reader;
use super::detect::Extraction;
use crate::sse::SseScanner;

/// Looks for the first event with content in a body that grows.
pub(crate) struct FirstContent {
    scanner: SseScanner,
    /// Never given a frame, so it borrows nothing of the body.
    reader: Reader<'static>,
}

impl FirstContent {
    /// Nothing looked at yet.
    pub(crate) fn new(kind: EndpointKind, rule: Option<Arc<Extraction>>) -> Self {
        Self { scanner: SseScanner::new(), reader: Reader::new(kind, rule) }
    }

    /// Reads the events that became whole since the last call; `body` is all that came so far. Whether there is content.
    pub(crate) fn is_in(&mut self, body: &[u8]) -> bool {
        while let Some(event) = self.scanner.next(body, false) {
            if let Some(data) = self.reader.data(&event) {
                self.reader.unframed(&event, &data, 0);
            }
            if self.reader.has_content() {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes of `stream` have to come, one by one, until content is seen.
    fn seen_at(kind: EndpointKind, stream: &str) -> Option<usize> {
        let mut first = FirstContent::new(kind, None);
        (1..=stream.len()).find(|n| first.is_in(&stream.as_bytes()[..*n]))
    }

    #[test]
    fn roles_usage_comments_and_errors_are_no_content() {
        let silent = concat!(
            ": hello\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            "data: {\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\n",
            "data: not json\n\n",
            "data: {\"error\":{\"message\":\"x\"}}\n\n",
            "data: [DONE]\n\n",
        );
        assert_eq!(seen_at(EndpointKind::Chat, silent), None);
        for delta in [
            r#""content":"a""#,
            r#""reasoning_content":"a""#,
            r#""tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]"#,
        ] {
            let loud = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{{delta}}}}}]}}\n\n");
            let stream = format!("{silent}{loud}{loud}");
            assert_eq!(seen_at(EndpointKind::Chat, &stream), Some(silent.len() + loud.len()), "{delta}");
        }
    }

    #[test]
    fn every_api_has_its_own_first_content() {
        let completion = "data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n";
        assert_eq!(seen_at(EndpointKind::Completions, completion), Some(completion.len()));
        let opening = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n";
        let delta = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
                     \"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n";
        let stream = format!("{opening}{delta}");
        assert_eq!(seen_at(EndpointKind::Messages, &stream), Some(stream.len()));
        let created = "data: {\"type\":\"response.created\",\"response\":{\"output\":[]}}\n\n";
        let delta = "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\
                     \"delta\":\"a\"}\n\n";
        let stream = format!("{created}{delta}");
        assert_eq!(seen_at(EndpointKind::Responses, &stream), Some(stream.len()));
    }
}
