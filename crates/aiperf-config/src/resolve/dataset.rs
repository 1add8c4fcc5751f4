//! What is asked: prompts made here, or the user's own.

use std::path::{Path, PathBuf};

use aiperf_core::plan::{DatasetPlan, FileFormat, FilePlan, LengthPlan, SyntheticPlan};

use super::{Resolver, how};
use crate::error::ConfigError;
use crate::options::Id;

/// Different prompts when neither their number nor a number of requests is given; AIPerf's.
const DEFAULT_ENTRIES: u64 = 100;

impl Resolver<'_> {
    pub(super) fn dataset(&mut self) -> Option<DatasetPlan> {
        let osl = self.osl();
        let declared = self.structure.dataset_type.clone();
        let Some(path) = self.settings.text(Id::InputFile).map(PathBuf::from) else {
            if let Some(("file", _)) = declared {
                self.errors.push(ConfigError::Missing {
                    what: "the path of the file with prompts",
                    how: how(Id::InputFile),
                });
            }
            self.needs(Id::DatasetFormat, "--input-file", "it says what form the file has");
            let entries = self
                .settings
                .int(Id::Entries)
                .or_else(|| self.settings.int(Id::RequestCount))
                .unwrap_or(DEFAULT_ENTRIES);
            return Some(DatasetPlan::Synthetic(SyntheticPlan {
                entries: usize::try_from(entries).unwrap_or(usize::MAX),
                isl: LengthPlan {
                    mean: self.settings.int_or_default(Id::Isl) as f64,
                    stddev: self.settings.float_or_default(Id::IslStddev),
                },
                osl,
            }));
        };
        if let (Some(("synthetic", first)), Some(second)) = (declared, self.place(Id::InputFile)) {
            self.errors.push(ConfigError::Conflict {
                first,
                second,
                why: "prompts come from the file or are made here; change the type or drop the file",
            });
        }
        for id in [Id::Isl, Id::IslStddev, Id::Corpus] {
            self.exclude(
                id,
                Id::InputFile,
                "the prompts of a file are sent as they are; drop one of the two",
            );
        }
        self.check_file(&path)?;
        Some(DatasetPlan::File(FilePlan {
            path,
            format: FileFormat::SingleTurn,
            osl,
            entries: self.settings.int(Id::Entries).map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            ignore_timestamps: self.settings.is_on(Id::NoFixedSchedule),
        }))
    }

    fn check_file(&mut self, path: &Path) -> Option<()> {
        let problem = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => "is a folder; single_turn reads one file".to_owned(),
            Ok(_) => return Some(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "does not exist".to_owned(),
            Err(error) => format!("cannot be read: {error}"),
        };
        let place = self.place(Id::InputFile)?;
        self.errors.push(ConfigError::File { place, path: path.to_owned(), problem });
        None
    }

    /// The output length; a mean of 0 sends no limit, and a deviation needs a mean to deviate from.
    fn osl(&mut self) -> Option<LengthPlan> {
        match self.settings.int(Id::Osl) {
            Some(mean) if mean > 0 => {
                Some(LengthPlan { mean: mean as f64, stddev: self.settings.float_or_default(Id::OslStddev) })
            }
            _ => {
                if self.settings.float(Id::OslStddev).is_some_and(|s| s > 0.0) || !self.settings.has(Id::Osl)
                {
                    self.needs(
                        Id::OslStddev,
                        "--osl",
                        "a standard deviation needs its mean; without --osl no output length is asked for",
                    );
                }
                None
            }
        }
    }
}
