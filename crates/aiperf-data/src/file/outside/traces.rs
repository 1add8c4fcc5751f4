//! Traces that are tables: rows of Parquet, or of a JSON list, become lines for the reader of their form.

use std::io::{BufWriter, Read as _, Write as _};
use std::ops::ControlFlow;

use aiperf_core::plan::{BadRows, FileFormat, FilePlan};
use aiperf_core::text::for_terminal;
use aiperf_files::Input;

use super::columns::names;
use super::rows::{self, Kind, Rows, reading};
use crate::error::DataError;
use crate::file::baseten::{FORM, Fields, NEEDED};

/// A trace whose rows are lines now.
pub(in crate::file) struct Trace {
    pub(in crate::file) input: Input,
    pub(in crate::file) fields: Fields,
    pub(in crate::file) notes: Vec<String>,
}

/// Converts `input` if it is a table of recorded completions, as the user says it or its columns show it.
pub(in crate::file) fn trace(set: &FilePlan, input: Input) -> Result<Result<Trace, Input>, DataError> {
    if matches!(set.format, FileFormat::Baseten | FileFormat::Detect | FileFormat::Chat) {
        refuse_arrow(&input)?;
    }
    let is_named = match set.format {
        FileFormat::Baseten => true,
        FileFormat::Detect => false,
        _ => return Ok(Err(input)),
    };
    let kind = match rows::kind_of(&input, is_named)? {
        None | Some(Kind::Lines) => return Ok(Err(input)),
        Some(kind) => kind,
    };
    let (rows, skips) = (Rows::new(&input, kind), set.bad_rows == BadRows::Skip);
    let first = match rows.look(skips) {
        // Who reads it as something else says what is wrong.
        Err(_) if !is_named => return Ok(Err(input)),
        first => first?,
    };
    let missing = NEEDED.into_iter().find(|name| !first.contains_key(*name));
    if missing.is_some() && !is_named {
        return Ok(Err(input));
    }
    let path = || input.name.clone();
    if let Some(column) = missing {
        return Err(DataError::TraceColumn { path: path(), column, form: FORM, columns: names(&first) });
    }
    if let Kind::Csv(_) = kind {
        return Err(DataError::CsvTrace { path: path(), form: FORM });
    }
    let file = input.name.display();
    let fields = match kind {
        Kind::Parquet => Fields::of(set.completions, |name| first.contains_key(name)),
        _ => Fields::of_lines(set.completions),
    };
    let mut notes = Vec::new();
    if !is_named {
        notes.push(format!(
            "{file}: read as {FORM}, for there are {} in {}; --custom-dataset-type says otherwise",
            NEEDED.map(|name| format!("'{name}'")).join(", "),
            kind.words()
        ));
    }
    let read = fields.names();
    let unread: Vec<String> = first
        .keys()
        .filter(|name| kind == Kind::Parquet && !read.contains(&name.as_str()))
        .map(|name| format!("'{}'", for_terminal(name, 40)))
        .collect();
    if !unread.is_empty() {
        notes.push(format!("{file}: columns that are not read: {}", unread.join(", ")));
    }
    let failed = |error| aiperf_files::InputError::spool(&input.name, error);
    let mut out = BufWriter::with_capacity(1 << 18, aiperf_files::spool(&input.name)?);
    // Errors name the line, which is the number of the row.
    rows.each(&read, &mut |_, entry| {
        match entry {
            Ok(entry) => serde_json::to_writer(&mut out, &entry).map_err(|error| failed(error.into()))?,
            // The reader of the lines counts it.
            Err(_) if skips => out.write_all(b"null").map_err(failed)?,
            Err(error) => return Err(error),
        }
        out.write_all(b"\n").map_err(failed)?;
        Ok(ControlFlow::Continue(()))
    })?;
    let spool = out.into_inner().map_err(|error| failed(error.into_error()))?;
    Ok(Ok(Trace { input: Input { file: spool, name: input.name, is_spooled: true }, fields, notes }))
}

/// A file of another kind of columns, which is known by its first bytes.
fn refuse_arrow(input: &Input) -> Result<(), DataError> {
    let mut start = Vec::new();
    rows::rewound(input, 0)?.take(6).read_to_end(&mut start).map_err(|error| reading(input, error))?;
    if start == b"ARROW1" { Err(DataError::Arrow { path: input.name.clone() }) } else { Ok(()) }
}
