//! What rows have to hold for requests of each kind: a query where passages are ranked, media that an API has a form for. What is taken otherwise than it stands
//! there is told once.

use std::collections::HashSet;
use std::path::Path;

use aiperf_core::conversation::{Media, MediaKind, PASSAGES, Turn, is_query};
use aiperf_core::plan::EndpointKind;
use aiperf_core::text::for_terminal;

use super::media::{Files, bad, is_address};
use super::row::Row;
use crate::error::RowProblem;

/// Rows of one kind: how many, and the line of the first.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Seen {
    pub(super) rows: u64,
    first: u64,
}

impl Seen {
    pub(super) fn add(&mut self, line: u64) {
        self.rows += 1;
        if self.rows == 1 {
            self.first = line;
        }
    }

    /// `3 rows (line 7 is the first)`, if there are any.
    pub(super) fn words(self) -> Option<String> {
        match self.rows {
            0 => None,
            1 => Some(format!("the row in line {}", self.first)),
            rows => Some(format!("{rows} rows (line {} is the first)", self.first)),
        }
    }
}

/// How many texts and images of a row there are to make vectors of.
pub(super) fn inputs(row: &Row) -> (usize, usize) {
    let images = row.media.iter().filter(|media| media.kind == MediaKind::Image);
    let images = images.flat_map(|media| &media.contents).filter(|content| !content.is_empty()).count();
    (row.texts.iter().filter(|text| !text.is_empty()).count(), images)
}

/// Looks at every row of a file.
#[derive(Debug)]
pub(super) struct Fitness {
    api: EndpointKind,
    no_passages: Seen,
    more_queries: Seen,
    /// Rows with texts that are neither, and the name of the first of them.
    strangers: Seen,
    stranger: String,
    limits: Seen,
    /// Rows with media of which the API has no form; it sends their texts.
    unseen: Seen,
    /// Rows with ids of images.
    named_images: Seen,
    files: Files,
    known_files: HashSet<String>,
    /// Each row is sent together with others.
    is_part: bool,
}

impl Fitness {
    /// For requests to `api` of the rows of a file, each of them alone or a part of one.
    pub(super) fn new(api: EndpointKind, path: &Path, is_part: bool) -> Self {
        let none = Seen::default();
        Self {
            api,
            no_passages: none,
            more_queries: none,
            strangers: none,
            stranger: String::new(),
            limits: none,
            unseen: none,
            named_images: none,
            files: Files::of(path),
            known_files: HashSet::new(),
            is_part,
        }
    }

    /// Whether the media of the row in `line` can be sent.
    pub(super) fn media(&mut self, row: &Row, line: u64) -> Result<(), RowProblem> {
        let api = self.api.name();
        let has = |kind: MediaKind| row.media.iter().any(|media| media.kind == kind);
        let (able, known): (&str, &[MediaKind]) = match self.api {
            EndpointKind::Chat | EndpointKind::ChatEmbeddings | EndpointKind::Template => {
                ("", &MediaKind::ALL)
            }
            EndpointKind::Responses => ("chat", &[MediaKind::Image, MediaKind::Audio]),
            EndpointKind::Messages => ("chat", &[MediaKind::Image]),
            EndpointKind::NimEmbeddings => ("chat_embeddings", &[MediaKind::Image]),
            _ => {
                // As in AIPerf, the texts of such a row are sent.
                if row.texts.is_empty() {
                    let kind = row.media[0].kind.names();
                    return Err(RowProblem::NoMedia { api, kind, able: "chat, responses and messages" });
                }
                self.unseen.add(line);
                return Ok(());
            }
        };
        if let Some(kind) = MediaKind::ALL.into_iter().find(|kind| has(*kind) && !known.contains(kind)) {
            return Err(RowProblem::NoMedia { api, kind: kind.names(), able });
        }
        for media in &row.media {
            self.files.check(media, &mut self.known_files)?;
            self.sound(media)?;
        }
        let images = || row.media.iter().filter(|media| media.kind == MediaKind::Image);
        let has_ids = images().any(|media| !media.uuids.is_empty());
        if has_ids
            && !matches!(self.api, EndpointKind::Chat | EndpointKind::ChatEmbeddings | EndpointKind::Template)
        {
            let is_sent = images().flat_map(|media| &media.contents).any(|content| !content.is_empty());
            if !is_sent && row.texts.is_empty() {
                let problem =
                    format!("ids of images alone, which requests of type '{api}' do not have; chat does");
                return Err(RowProblem::Uuids { problem });
            }
            self.named_images.add(line);
        }
        if self.api == EndpointKind::NimEmbeddings && !self.is_part {
            let (texts, images) = inputs(row);
            if texts > 0 && images > 0 && texts != images {
                return Err(RowProblem::Unpaired { texts, images });
            }
        }
        Ok(())
    }

    /// Audio is part of a request, whose servers fetch none.
    fn sound(&self, media: &Media) -> Result<(), RowProblem> {
        let is_far = |content: &&String| is_address(media.kind, content);
        let far = media.contents.iter().find(is_far).filter(|_| media.kind == MediaKind::Audio);
        match far.filter(|_| self.api != EndpointKind::Template) {
            Some(content) => Err(bad(
                media.kind,
                content,
                "is an address, and audio travels in the request: give a file, or wav, or mp3, and base64",
            )),
            None => Ok(()),
        }
    }

    /// Whether a request can be made of the row in `line`.
    pub(super) fn check(&mut self, row: &Row, line: u64) -> Result<(), RowProblem> {
        if row.output_length.is_some() && !self.api.traits().produces_tokens {
            self.limits.add(line);
        }
        if !row.media.is_empty() {
            self.media(row, line)?;
        }
        if !self.api.is_ranking() {
            return Ok(());
        }
        let turn = Turn { texts: row.texts.clone(), groups: row.groups.clone(), ..Turn::default() };
        let (mut queries, mut passages, mut stranger) = (0, 0, None);
        for (name, texts) in turn.named() {
            match name {
                _ if is_query(name) => queries += texts.len(),
                PASSAGES => passages += texts.len(),
                _ => stranger = stranger.or(Some(name)),
            }
        }
        if queries == 0 {
            return Err(RowProblem::NoQuery { api: self.api.name() });
        }
        if queries > 1 {
            self.more_queries.add(line);
        }
        if passages == 0 {
            self.no_passages.add(line);
        }
        if let Some(name) = stranger {
            if self.strangers.rows == 0 {
                self.stranger = for_terminal(name, 40);
            }
            self.strangers.add(line);
        }
        Ok(())
    }

    /// What is taken otherwise than it stands in `path`.
    pub(super) fn notes(&self, path: &Path) -> Vec<String> {
        let (file, api, name) = (path.display(), self.api.name(), &self.stranger);
        let note = |seen: Seen, what: &str| seen.words().map(|rows| format!("{file}: {rows} {what}"));
        [
            note(
                self.no_passages,
                "with a query and no text named 'passages': nothing is there to be ranked",
            ),
            note(self.more_queries, "with several queries: the first is sent, the others are not"),
            note(
                self.strangers,
                &format!(
                    "with texts that are neither 'query' nor 'passages', such as '{name}', which are not sent"
                ),
            ),
            note(
                self.limits,
                &format!("with an output_length, which is not sent: {api} has no output limit"),
            ),
            note(
                self.unseen,
                &format!(
                    "with images, audio or video, which are not sent: requests of type {api} hold texts alone"
                ),
            ),
            note(
                self.named_images,
                &format!("with ids of images, which are not sent: requests of type {api} have none"),
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
