//! Which files the wanted rows of a data set are, kept beside them once the hub was asked: a run that needs only the first ones
//! fetches no others, and a later one knows what is missing.
//!
//! It is `.aiperf/ROWS.json` (or `PART.ROWS.json`) in the data set's folder of the cache; the hub's own tools pass over it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::choose::{Wanted, is_inside};
use crate::draft::Announced;
use crate::error::HubError;
use crate::hub::{Listed, escaped, is_name};
use crate::store::note;

/// Files in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listing {
    /// Where the files were listed.
    pub(super) revision: String,
    /// Their commit.
    pub(super) commit: String,
    pub(super) files: Vec<Listed>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    revision: String,
    commit: String,
    files: Vec<WrittenFile>,
}

#[derive(Serialize, Deserialize)]
struct WrittenFile {
    path: String,
    size: Option<u64>,
    #[serde(default)]
    sha256: Option<String>,
}

/// Where it is kept.
pub(super) fn place(folder: &Path, wanted: Wanted<'_>) -> PathBuf {
    let part = wanted.part().map(|part| format!("{}.", escaped(part))).unwrap_or_default();
    folder.join(".aiperf").join(format!("{part}{}.json", wanted.split()))
}

/// What was kept; `None` also for what nobody could have kept.
pub(super) fn read(folder: &Path, wanted: Wanted<'_>) -> Option<Listing> {
    let bytes = std::fs::read(place(folder, wanted)).ok()?;
    let Written { revision, commit, files } = serde_json::from_slice(&bytes).ok()?;
    let is_sound = is_name(&commit) && !files.is_empty() && files.iter().all(|file| is_inside(&file.path));
    let listed = |file: WrittenFile| {
        let about = Announced { size: file.size, sha256: file.sha256 };
        Listed { path: file.path, about }
    };
    let files = files.into_iter().map(listed).collect();
    is_sound.then_some(Listing { revision, commit, files })
}

/// Keeps it.
pub(super) fn write(place: &Path, listing: &Listing) -> Result<(), HubError> {
    let files = listing.files.iter().map(|file| WrittenFile {
        path: file.path.clone(),
        size: file.about.size,
        sha256: file.about.sha256.clone(),
    });
    let written = Written {
        revision: listing.revision.clone(),
        commit: listing.commit.clone(),
        files: files.collect(),
    };
    let text = serde_json::to_vec_pretty(&written).unwrap_or_default();
    note(place, &text)
}
