//! CSV and Parquet, row after row: of Parquet a page of each column that is read is in memory.

use std::io::{BufReader, Read, Seek as _, SeekFrom};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use aiperf_core::text::for_terminal;
use aiperf_files::Input;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::TreeBuilder;
use parquet::schema::types::{SchemaDescriptor, Type};
use serde_json::{Map, Number, Value};

use super::rows::{Take, reading};
use super::{Entry, zstd};
use crate::error::{DataError, RowProblem};

const BUFFER: usize = 1 << 20;
/// Bytes of a Parquet file's columns that are read ahead, where a row has less, and most rows.
const AHEAD: i64 = 1 << 20;
const MOST_AHEAD: i64 = 1024;

/// The names of a CSV file's columns.
pub(super) fn csv_columns(input: &Input, between: u8) -> Result<Entry, DataError> {
    let mut reader = csv_reader(input, between)?;
    let header = reader.headers().map_err(|error| csv_error(input, &error))?;
    // Such a name looks like another one.
    if let Some((at, name)) = header.iter().enumerate().find(|(_, name)| name.contains(char::is_control)) {
        let reason = format!("the name of column {} has a character that is not seen: {name:?}", at + 1);
        return Err(DataError::Unreadable { path: input.name.clone(), form: "CSV", reason });
    }
    Ok(header.iter().map(|name| (name.to_owned(), Value::Null)).collect())
}

/// Goes through the rows of a CSV file.
pub(super) fn csv(input: &Input, between: u8, columns: &[&str], take: Take<'_>) -> Result<(), DataError> {
    let text = text_bytes(input)?;
    let mut reader = csv_reader(input, between)?;
    let header = reader.headers().map_err(|error| csv_error(input, &error))?;
    if let Some(name) = columns.iter().find(|name| header.iter().filter(|known| known == *name).count() > 1) {
        let reason = format!("two columns are called '{}'", for_terminal(name, 40));
        return Err(DataError::Unreadable { path: input.name.clone(), form: "CSV", reason });
    }
    let wanted: Vec<(usize, String)> = columns
        .iter()
        .filter_map(|name| Some((header.iter().position(|known| known == *name)?, (*name).to_owned())))
        .collect();
    let mut row = csv::StringRecord::new();
    let mut number = 0;
    loop {
        let entry = match reader.read_record(&mut row) {
            Ok(false) => return Ok(()),
            Ok(true) if reader.position().byte() >= text && ends_in_quotes(input, &row)? => {
                let reason =
                    format!("row {}: the file ends between the quotes of a cell; is it cut off?", number + 1);
                Err(DataError::Unreadable { path: input.name.clone(), form: "CSV", reason })
            }
            Ok(true) => {
                let cell = |at: usize| Value::from(row.get(at).unwrap_or_default());
                Ok(wanted.iter().map(|(at, name)| (name.clone(), cell(*at))).collect())
            }
            Err(error) if error.is_io_error() => return Err(csv_error(input, &error)),
            // A row with other cells than the first: the reader goes on behind it.
            Err(error) => Err(csv_error(input, &error)),
        };
        number += 1;
        if take(number, entry)?.is_break() {
            return Ok(());
        }
    }
}

fn csv_reader(input: &Input, between: u8) -> Result<csv::Reader<impl Read>, DataError> {
    input.to_text().map_err(|error| reading(input, error))?;
    let from = BufReader::with_capacity(BUFFER, &input.file);
    Ok(csv::ReaderBuilder::new().delimiter(between).from_reader(from))
}

/// How long the text of a file is, bytes.
fn text_bytes(input: &Input) -> Result<u64, DataError> {
    let start = input.to_text().map_err(|error| reading(input, error))?;
    let all = input.file.metadata().map_err(|error| reading(input, error))?.len();
    Ok(all.saturating_sub(start))
}

/// Whether the last cell of the file's last row begins with a quote that nothing closes: behind that quote the file ends as the cell does.
fn ends_in_quotes(input: &Input, last: &csv::StringRecord) -> Result<bool, DataError> {
    let cell = last.iter().next_back().unwrap_or_default().replace('"', "\"\"");
    let mut file = input.file.try_clone().map_err(|error| reading(input, error))?;
    let tail = |file: &mut std::fs::File| {
        let place = file.stream_position()?;
        let all = file.seek(SeekFrom::End(0))?;
        let mut tail = vec![0; all.min(cell.len() as u64 + 2) as usize];
        file.seek(SeekFrom::Start(all - tail.len() as u64))?;
        file.read_exact(&mut tail)?;
        file.seek(SeekFrom::Start(place))?;
        Ok(tail)
    };
    let tail = tail(&mut file).map_err(|error| reading(input, error))?;
    let opened = format!("\"{cell}");
    Ok(tail.ends_with(opened.as_bytes()) && !(cell.is_empty() && tail.ends_with(b"\"\"")))
}

fn csv_error(input: &Input, error: &csv::Error) -> DataError {
    DataError::Unreadable { path: input.name.clone(), form: "CSV", reason: error.to_string() }
}

/// The names of a Parquet file's columns.
pub(super) fn parquet_columns(input: &Input) -> Result<Entry, DataError> {
    let reader = parquet_reader(input)?;
    let fields = reader.metadata().file_metadata().schema().get_fields();
    // A list is one, so that a column of messages is known.
    let form = |field: &Type| if field.is_group() { Value::Array(Vec::new()) } else { Value::Null };
    Ok(fields.iter().map(|field| (field.name().to_owned(), form(field))).collect())
}

/// Goes through the rows of a Parquet file.
pub(super) fn parquet(input: &Input, columns: &[&str], take: Take<'_>) -> Result<(), DataError> {
    let failed = |error: ParquetError| parquet_error(input, &error);
    let reader = parquet_reader(input)?;
    let schema = reader.metadata().file_metadata().schema();
    let fields: Vec<Arc<Type>> =
        schema.get_fields().iter().filter(|field| columns.contains(&field.name())).cloned().collect();
    let wanted = Type::group_type_builder(schema.name()).with_fields(fields).build().map_err(failed)?;
    let wanted = Arc::new(SchemaDescriptor::new(Arc::new(wanted)));
    let chunks = Arc::new(
        input.file.try_clone().map_err(|source| DataError::Read { path: input.name.clone(), source })?,
    );
    let mut number = 0;
    for group in 0..reader.num_row_groups() {
        let group = zstd::Group { inner: reader.get_row_group(group).map_err(failed)?, file: &chunks };
        let rows = group.metadata().num_rows();
        let mut bytes = 0;
        for chunk in group.metadata().columns() {
            if !chunk.column_path().parts().first().is_some_and(|name| columns.contains(&&**name)) {
                continue;
            }
            bytes += chunk.uncompressed_size();
            let packing = chunk.compression();
            let unread = match packing {
                Compression::BROTLI(_) => Some("Brotli"),
                Compression::LZO => Some("LZO"),
                _ => None,
            };
            if let Some(packing) = unread {
                return Err(DataError::Unreadable {
                    path: input.name.clone(),
                    form: "Parquet",
                    reason: format!(
                        "column '{}' is packed with {packing}, which is not read; Snappy, gzip, LZ4 and zstd are",
                        chunk.column_path()
                    ),
                });
            }
        }
        // Values are read some rows ahead, and their pages stay in memory.
        let ahead = AHEAD / (bytes / rows.max(1)).max(1);
        let builder = TreeBuilder::new().with_batch_size(ahead.clamp(1, MOST_AHEAD) as usize);
        let mut rows = guarded(input, || builder.as_iter(wanted.clone(), &group))?;
        while let Some(row) = guarded(input, || rows.next().transpose())? {
            number += 1;
            let cell = |(name, field): (String, Field)| match value(field) {
                Ok(value) => Ok((name, value)),
                Err(problem) => {
                    let place = format!("row {number}, column '{}'", for_terminal(&name, 40));
                    Err(DataError::Entry { path: input.name.clone(), place, problem })
                }
            };
            let entry = row.into_columns().into_iter().map(cell).collect::<Result<Entry, _>>();
            if take(number, entry)? == ControlFlow::Break(()) {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn parquet_reader(input: &Input) -> Result<SerializedFileReader<std::fs::File>, DataError> {
    let file =
        input.file.try_clone().map_err(|source| DataError::Read { path: input.name.clone(), source })?;
    guarded(input, || SerializedFileReader::new(file))
}

/// The reader of Parquet panics at some damages.
fn guarded<T>(input: &Input, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, DataError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|error| parquet_error(input, &error)),
        Err(_) => Err(parquet_error(input, &ParquetError::General("it is damaged".to_owned()))),
    }
}

fn parquet_error(input: &Input, error: &ParquetError) -> DataError {
    DataError::Unreadable { path: input.name.clone(), form: "Parquet", reason: error.to_string() }
}

/// A cell as JSON; moments are milliseconds since 1970, and decimals no text that anybody sends.
fn value(field: Field) -> Result<Value, RowProblem> {
    Ok(match field {
        Field::Bool(v) => v.into(),
        Field::Byte(v) => v.into(),
        Field::Short(v) => v.into(),
        Field::Int(v) => v.into(),
        Field::Long(v) => v.into(),
        Field::UByte(v) => v.into(),
        Field::UShort(v) => v.into(),
        Field::UInt(v) => v.into(),
        Field::ULong(v) => v.into(),
        Field::Float(v) => Number::from_f64(v.into()).map_or(Value::Null, Value::Number),
        Field::Double(v) => Number::from_f64(v).map_or(Value::Null, Value::Number),
        Field::TimestampMillis(ms) => ms.into(),
        Field::TimestampMicros(us) => Number::from_f64(us as f64 / 1e3).map_or(Value::Null, Value::Number),
        Field::Str(text) => text.into(),
        Field::Bytes(bytes) => bytes.as_utf8().map_err(|_| RowProblem::NotUtf8)?.into(),
        Field::Group(row) => {
            let fields = row.into_columns().into_iter().map(|(name, field)| {
                let value = match field {
                    // What a file holds, in the hub's form.
                    Field::Bytes(bytes) if name == "bytes" => BASE64_STANDARD.encode(bytes.data()).into(),
                    other => value(other)?,
                };
                Ok((name, value))
            });
            Value::Object(fields.collect::<Result<Map<_, _>, RowProblem>>()?)
        }
        Field::ListInternal(list) => {
            Value::Array(list.elements().iter().cloned().map(value).collect::<Result<_, _>>()?)
        }
        Field::MapInternal(map) => {
            let name = |key: &Field| match key {
                Field::Str(text) => text.clone(),
                other => other.to_string(),
            };
            let entry = |(key, field): &(Field, Field)| Ok((name(key), value(field.clone())?));
            Value::Object(map.entries().iter().map(entry).collect::<Result<_, RowProblem>>()?)
        }
        _ => Value::Null,
    })
}
