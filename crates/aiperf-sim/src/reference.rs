//! The reference page of options, made from the table.

use std::fmt::Write as _;

use crate::table::OPTIONS;

/// The page `docs/reference/simulator.md`.
pub fn reference_markdown() -> String {
    let mut out = String::from(
        "# Simulated server\n\n\
         Made from the table of options; do not edit. Each option is a flag of `aiperf sim` (`--ttft 50 --itl 8`) and a key in the \
         query of a `sim://` address (`--url 'sim://?ttft=50&itl=8'`), which starts the server inside `aiperf profile`. In a query `%XX` \
         is understood, `_` stands for `-`, and a switch without a value is on.\n\n\
         It answers `POST /v1/chat/completions`, `/v1/completions`, `/v1/responses`, `/v1/messages` (Anthropic's), `/generate` and \
         `/generate_stream` (Hugging Face's TGI; a body with `text` in place of `inputs` is SGLang's) and `/rag/api/prompt` (Solido's), streamed or \
         whole; vectors and scores from `POST /v1/embeddings` (texts, token ids or chat messages), `/v1/rerank` and `/v2/rerank` (Cohere's), \
         `/rerank` (TEI's) and `/v1/ranking` (NIM's); `POST /tokenize` and `/detokenize`; `GET /v1/models`, `/health` and `/metrics`. A conversation is counted through the \
         tokenizer's chat template, or as the sum of its contents when there is none; `instructions` and `system` are its system message. \
         A response asked for with `store:true` is kept, and `previous_response_id` goes on from it: what was said before counts to the prompt. The last 256 MB \
         of conversations are kept, and one that is gone is answered with 404. \
         Completions with several prompts make as many sequences, whose choices are streamed in turns and whose counts are summed, and `n` makes as many \
         of each prompt (chat and completions, up to 128), which counts once. So do \
         several inputs of embeddings; of a ranking each passage is a sequence with the query before it. Vectors and scores are made of the \
         seed and the text, so that the same text has the same ones.\n\n\
         | option | allowed | default | |\n|---|---|---|---|\n",
    );
    for option in OPTIONS {
        let default = if option.default.is_empty() { String::new() } else { format!("`{}`", option.default) };
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| `{}` | {} | {default} | {} |",
            option.key,
            escaped(option.range),
            escaped(option.doc)
        );
    }
    out
}

/// A bar would end the cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_a_row_of_four_cells() {
        let page = reference_markdown();
        let rows: Vec<&str> = page.lines().filter(|l| l.starts_with("| `")).collect();
        assert_eq!(rows.len(), OPTIONS.len());
        for (row, option) in rows.iter().zip(OPTIONS) {
            assert!(row.starts_with(&format!("| `{}` |", option.key)), "{row}");
            assert_eq!(row.replace("\\|", "").matches('|').count(), 5, "{row}");
        }
    }
}
