//! `profile_export.parquet`: the records as columns, one row for each line, made from the lines after the run.
//!
//! The lines are read twice: [`Columns`] learns which columns there are and of what type, then [`RowWriter`] fills them, group by
//! group of rows, so that memory is bounded for any number of records. A column is there if any line has it, null in the others.

mod cell;

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, PrimitiveTypeBuilder, Type, TypePtr};
use serde_json::{Map, Value};

pub use parquet::errors::ParquetError;

use cell::{Cell, Line};

/// Most rows of a group.
const GROUP_ROWS: usize = 1 << 15;
/// A group ends when its lists have so many values.
const GROUP_VALUES: usize = 1 << 20;
/// The key in the file's metadata under which the units of metrics stand, as a JSON object of names and units.
pub const UNITS_KEY: &str = "aiperf.units";

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bool,
    Int,
    Real,
    Text,
    /// Numbers, as reals.
    List,
}

impl Kind {
    fn of(cell: &Cell<'_>) -> Option<Self> {
        Some(match cell {
            Cell::Bool(_) => Self::Bool,
            Cell::Int(_) => Self::Int,
            Cell::Real(_) => Self::Real,
            Cell::Text(_) => Self::Text,
            Cell::List(_) => Self::List,
            Cell::Null | Cell::Nested => return None,
        })
    }

    /// What holds values of both.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Int, Self::Real) | (Self::Real, Self::Int) => Self::Real,
            _ => Self::Text,
        }
    }
}

#[derive(Debug)]
struct Shape {
    key: String,
    /// `None` as long as nothing but null was seen.
    kind: Option<Kind>,
    unit: Option<String>,
}

/// The keys of one object of the lines, in an order that agrees with that of every line as far as they agree.
#[derive(Debug, Default)]
struct Section(Vec<Shape>);

impl Section {
    /// Position of `key`, which is `next` if lines are alike.
    fn find(&self, key: &str, next: usize) -> Option<usize> {
        match self.0.get(next) {
            Some(shape) if shape.key == key => Some(next),
            _ => self.0.iter().position(|shape| shape.key == key),
        }
    }

    /// Notes a cell; its position is where the next one is expected behind.
    fn add(&mut self, key: &str, next: usize, cell: &Cell<'_>, unit: Option<&str>) -> usize {
        let at = self.find(key, next).unwrap_or_else(|| {
            let at = next.min(self.0.len());
            self.0.insert(at, Shape { key: key.to_owned(), kind: None, unit: unit.map(str::to_owned) });
            at
        });
        if let Some(kind) = Kind::of(cell) {
            let shape = &mut self.0[at];
            shape.kind = Some(shape.kind.map_or(kind, |known| known.with(kind)));
        }
        at
    }
}

/// Which columns there are: `metadata` and `metrics` of a record under their own names, `error` under `error_…`.
#[derive(Debug, Default)]
pub struct Columns {
    sections: [Section; 3],
    rows: u64,
}

impl Columns {
    /// Learns from a line; `false` if it is no record.
    pub fn learn(&mut self, line: &[u8]) -> bool {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else { return false };
        self.rows += 1;
        each(line, |section, next, key, cell, unit| self.sections[section].add(key, next, &cell, unit));
        true
    }

    /// Records that were learnt from.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

/// Visits the cells of a line: the number of its section, where the cell before it was and one more, and what stands there.
fn each(line: Line<'_>, mut visit: impl FnMut(usize, usize, &str, Cell<'_>, Option<&str>) -> usize) {
    let mut next = 0;
    for (key, cell) in line.metadata.0 {
        next = visit(0, next, &key.0, cell, None) + 1;
    }
    next = 0;
    for (key, metric) in line.metrics.0 {
        next = visit(1, next, &key.0, metric.value, metric.unit.as_ref().map(|unit| &*unit.0)) + 1;
    }
    next = 0;
    for (key, cell) in line.error.into_iter().flat_map(|error| error.0) {
        next = visit(2, next, &key.0, cell, None) + 1;
    }
}

/// The values of a column in the group that is being filled.
#[derive(Debug)]
enum Values {
    Bool(Vec<bool>),
    Int(Vec<i64>),
    Real(Vec<f64>),
    Text(Vec<ByteArray>),
    List(Vec<f64>),
}

#[derive(Debug)]
struct Column {
    values: Values,
    /// Of each row, and in a list of each value, how much of it is there (definition levels).
    defined: Vec<i16>,
    /// Of a list: 0 begins a row, 1 goes on (repetition levels).
    repeated: Vec<i16>,
    /// Rows told of.
    rows: usize,
}

impl Column {
    fn new(kind: Kind) -> Self {
        let values = match kind {
            Kind::Bool => Values::Bool(Vec::new()),
            Kind::Int => Values::Int(Vec::new()),
            Kind::Real => Values::Real(Vec::new()),
            Kind::Text => Values::Text(Vec::new()),
            Kind::List => Values::List(Vec::new()),
        };
        Self { values, defined: Vec::new(), repeated: Vec::new(), rows: 0 }
    }

    /// Rows up to `rows` that said nothing are null.
    fn fill(&mut self, rows: usize) {
        let missing = rows.saturating_sub(self.rows);
        self.defined.extend(std::iter::repeat_n(0, missing));
        if matches!(self.values, Values::List(_)) {
            self.repeated.extend(std::iter::repeat_n(0, missing));
        }
        self.rows = self.rows.max(rows);
    }

    /// Adds the cell of row `row`; how many values of a list that were.
    fn push(&mut self, row: usize, cell: Cell<'_>) -> usize {
        // A key that stands twice in an object counts once.
        if self.rows > row || matches!(cell, Cell::Null | Cell::Nested) {
            return 0;
        }
        self.fill(row);
        self.rows += 1;
        match (&mut self.values, cell) {
            (Values::List(values), Cell::List(list)) => {
                self.repeated.push(0);
                if list.is_empty() {
                    self.defined.push(1);
                } else {
                    self.defined.extend(std::iter::repeat_n(2, list.len()));
                    self.repeated.extend(std::iter::repeat_n(1, list.len() - 1));
                }
                values.extend_from_slice(&list);
                return list.len();
            }
            (Values::Bool(values), Cell::Bool(v)) => values.push(v),
            (Values::Int(values), Cell::Int(v)) => values.push(v),
            (Values::Real(values), Cell::Int(v)) => values.push(v as f64),
            (Values::Real(values), Cell::Real(v)) => values.push(v),
            (Values::Text(values), cell) => values.push(ByteArray::from(text(cell).into_bytes())),
            // The first reading saw every cell, so its kind holds them all.
            _ => {
                self.rows -= 1;
                return 0;
            }
        }
        self.defined.push(1);
        0
    }

    /// Hands the group's values to the file and starts anew.
    fn write(&mut self, out: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let (defined, repeated) = (std::mem::take(&mut self.defined), std::mem::take(&mut self.repeated));
        self.rows = 0;
        let levels = Some(&defined[..]);
        match &mut self.values {
            Values::Bool(v) => out.typed::<BoolType>().write_batch(&std::mem::take(v), levels, None),
            Values::Int(v) => out.typed::<Int64Type>().write_batch(&std::mem::take(v), levels, None),
            Values::Real(v) => out.typed::<DoubleType>().write_batch(&std::mem::take(v), levels, None),
            Values::Text(v) => out.typed::<ByteArrayType>().write_batch(&std::mem::take(v), levels, None),
            Values::List(v) => {
                out.typed::<DoubleType>().write_batch(&std::mem::take(v), levels, Some(&repeated))
            }
        }?;
        Ok(())
    }
}

/// A cell of a column whose cells are of several kinds.
fn text(cell: Cell<'_>) -> String {
    match cell {
        Cell::Text(text) => text.into_owned(),
        Cell::Bool(v) => v.to_string(),
        Cell::Int(v) => v.to_string(),
        Cell::Real(v) => Value::from(v).to_string(),
        Cell::List(list) => Value::from(list).to_string(),
        Cell::Null | Cell::Nested => String::new(),
    }
}

/// Writes rows.
pub struct RowWriter<W: Write + Send> {
    out: SerializedFileWriter<W>,
    shapes: Columns,
    /// Of each key of each section its column, if it has one.
    slots: [Vec<Option<usize>>; 3],
    columns: Vec<Column>,
    /// Rows of the group being filled, and values of its lists.
    rows: usize,
    values: usize,
}

impl<W: Write + Send> RowWriter<W> {
    /// For lines that `columns` were learnt from.
    pub fn new(columns: Columns, out: W) -> Result<Self, ParquetError> {
        let mut names: Vec<String> = Vec::new();
        let mut fields: Vec<TypePtr> = Vec::new();
        let mut filled = Vec::new();
        let mut units = Map::new();
        let mut slots = [const { Vec::new() }; 3];
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("aiperf version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_dictionary_enabled(false);
        for (at, section) in columns.sections.iter().enumerate() {
            for shape in &section.0 {
                let Some(kind) = shape.kind else {
                    slots[at].push(None);
                    continue;
                };
                let mut name = if at == 2 { format!("error_{}", shape.key) } else { shape.key.clone() };
                while names.contains(&name) {
                    name.push('_');
                }
                if kind == Kind::Text {
                    properties =
                        properties.set_column_dictionary_enabled(ColumnPath::new(vec![name.clone()]), true);
                }
                if let Some(unit) = &shape.unit {
                    units.insert(name.clone(), unit.as_str().into());
                }
                slots[at].push(Some(filled.len()));
                fields.push(Arc::new(field(&name, kind)?));
                filled.push(Column::new(kind));
                names.push(name);
            }
        }
        let units = KeyValue::new(UNITS_KEY.to_owned(), Value::Object(units).to_string());
        let properties = properties.set_key_value_metadata(Some(vec![units])).build();
        let schema = Type::group_type_builder("records").with_fields(fields).build()?;
        Ok(Self {
            out: SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?,
            shapes: columns,
            slots,
            columns: filled,
            rows: 0,
            values: 0,
        })
    }

    /// Adds a line; one that is no record is left out.
    pub fn add(&mut self, line: &[u8]) -> Result<(), ParquetError> {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else { return Ok(()) };
        let Self { shapes, slots, columns, rows, values, .. } = self;
        each(line, |section, next, key, cell, _| {
            let Some(at) = shapes.sections[section].find(key, next) else { return next };
            if let Some(column) = slots[section][at] {
                *values += columns[column].push(*rows, cell);
            }
            at
        });
        self.rows += 1;
        if self.rows == GROUP_ROWS || self.values >= GROUP_VALUES { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let (rows, _) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.values));
        if rows == 0 {
            return Ok(());
        }
        let mut group = self.out.next_row_group()?;
        for column in &mut self.columns {
            column.fill(rows);
            if let Some(mut out) = group.next_column()? {
                column.write(&mut out)?;
                out.close()?;
            }
        }
        group.close().map(drop)
    }

    /// Writes the rest; the file is whole then.
    pub fn finish(mut self) -> Result<(), ParquetError> {
        self.write_group()?;
        self.out.close().map(drop)
    }
}

fn plain(name: &str, physical: Physical, repetition: Repetition) -> PrimitiveTypeBuilder<'_> {
    Type::primitive_type_builder(name, physical).with_repetition(repetition)
}

/// The column's entry in the schema; each may be null.
fn field(name: &str, kind: Kind) -> Result<Type, ParquetError> {
    let optional = Repetition::OPTIONAL;
    match kind {
        Kind::Bool => plain(name, Physical::BOOLEAN, optional).build(),
        Kind::Int => plain(name, Physical::INT64, optional).build(),
        Kind::Real => plain(name, Physical::DOUBLE, optional).build(),
        Kind::Text => {
            plain(name, Physical::BYTE_ARRAY, optional).with_logical_type(Some(LogicalType::String)).build()
        }
        Kind::List => {
            let element = plain("element", Physical::DOUBLE, Repetition::REQUIRED).build()?;
            let list = Type::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![Arc::new(element)])
                .build()?;
            Type::group_type_builder(name)
                .with_repetition(optional)
                .with_logical_type(Some(LogicalType::List))
                .with_fields(vec![Arc::new(list)])
                .build()
        }
    }
}

#[cfg(test)]
mod tests;
