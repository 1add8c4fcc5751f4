//! The files of results by slices of time, made when all requests are back.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;

use aiperf_core::time::ClockAnchor;
use aiperf_metrics::{Recorder, TooManySlices};
use aiperf_report::timeslices::{CsvWriter, JsonWriter};
use serde_json::Value;

use crate::artifacts::{Document, Folder};
use crate::error::RunError;

/// Writes both files and returns them with their labels; none without a request.
pub(crate) fn write(
    folder: &Folder,
    recorder: &Recorder,
    slice_ns: u64,
    anchor: ClockAnchor,
    input_config: &Value,
) -> Result<Vec<(&'static str, PathBuf)>, RunError> {
    let slices = recorder
        .slices(slice_ns)
        .map_err(|TooManySlices { slices }| RunError::TooManySlices { slice_ns, slices })?;
    let Some(slices) = slices else { return Ok(Vec::new()) };
    let (mut json, mut csv) = (JsonWriter::new(anchor), CsvWriter::new(anchor));
    let mut json_file = Document::create(folder.timeslices_json())?;
    let mut csv_file = match Document::create(folder.timeslices_csv()) {
        Ok(file) => file,
        Err(error) => {
            json_file.discard();
            return Err(error);
        }
    };
    json_file.append(|out| json.begin(out));
    csv_file.append(|out| csv.begin(out));
    let is_whole = slices.for_each(|slice| {
        json_file.append(|out| json.slice(out, &slice));
        csv_file.append(|out| csv.slice(out, &slice));
        Ok::<(), Infallible>(())
    });
    if is_whole != Ok(true) {
        json_file.discard();
        csv_file.discard();
        let source = io::Error::other("slices of time could not be made of them");
        let path = folder.dir().to_owned();
        return Err(RunError::Artifact { action: "read back measured values in", path, source });
    }
    json_file.append(|out| json.end(out, input_config));
    // Both are ended before one of them is told of: what is not whole goes away.
    let (json, csv) = (json_file.finish(), csv_file.finish());
    Ok(vec![("Timeslice CSV Export", csv?), ("Timeslice JSON Export", json?)])
}
