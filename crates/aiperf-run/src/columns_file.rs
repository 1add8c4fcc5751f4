//! `profile_export.parquet`, made from `profile_export.jsonl` when that is whole: after a run, or by `aiperf report`.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use aiperf_report::columns::{Columns, ParquetError, RowWriter};

use crate::artifacts::{Folder, beside};
use crate::error::RunError;
use crate::rebuild::prefix;

/// Records that are columns now.
#[derive(Debug)]
pub struct AsColumns {
    /// The file.
    pub path: PathBuf,
    /// Its rows.
    pub rows: u64,
    /// Lines that are no records.
    pub skipped: u64,
}

/// Writes the records of `folder` as columns; `None` if it has no record.
pub(crate) fn write(folder: &Folder) -> Result<Option<AsColumns>, RunError> {
    let (records, path) = (folder.records_jsonl(), folder.records_parquet());
    let reading = |e| RunError::Artifact { action: "read", path: records.clone(), source: e };
    let mut columns = Columns::default();
    let mut skipped = 0;
    each_line(&records, |line| {
        skipped += u64::from(!columns.learn(line));
        Ok(())
    })
    .map_err(reading)?;
    let rows = columns.rows();
    if rows == 0 {
        return Ok(None);
    }
    let beside = beside(&path);
    let made = File::create(&beside)
        .and_then(|file| {
            let mut writer = RowWriter::new(columns, file).map_err(as_io)?;
            each_line(&records, |line| writer.add(line).map_err(as_io))?;
            writer.finish().map_err(as_io)
        })
        .and_then(|()| fs::rename(&beside, &path));
    match made {
        Ok(()) => Ok(Some(AsColumns { path, rows, skipped })),
        Err(source) => {
            // Best effort: what could not be written must not look like a result.
            let _ = fs::remove_file(&beside);
            Err(RunError::Artifact { action: "write", path, source })
        }
    }
}

/// Writes the records in `dir` as columns, over a file that is there already only if `force` allows it. They may be AIPerf's.
pub fn records_as_columns(dir: &Path, force: bool) -> Result<AsColumns, RunError> {
    let prefix = match prefix(dir) {
        Err(RunError::NoRun { several: false, .. }) if dir.join("profile_export.jsonl").exists() => None,
        found => found?,
    };
    let folder = Folder::open(dir, prefix)?;
    let path = folder.records_parquet();
    if !force && path.exists() {
        return Err(RunError::SummaryExists { path });
    }
    write(&folder)?.ok_or_else(|| RunError::Artifact {
        action: "read",
        path: folder.records_jsonl(),
        source: io::Error::new(io::ErrorKind::InvalidData, "no line of it is a record"),
    })
}

/// Shows every line but a last one that is not whole.
fn each_line(path: &Path, mut show: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        lines.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok(());
        }
        show(&line)?;
    }
}

fn as_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::other(other),
    }
}
