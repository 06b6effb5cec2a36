// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables as plain columns: what is written as Parquet, and what Python hands on as Arrow. A table has one definition
//! for both.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, GzipLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

/// The values of a column, one for each row. Whole numbers are never negative.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Texts, of which equal ones may be shared.
    Texts(Vec<Option<Arc<str>>>),
    /// Numbers of CPUs and tasks: 32 bits, signed.
    Ints(Vec<Option<u32>>),
    /// Times in nanoseconds, and counts: 64 bits, signed.
    Longs(Vec<Option<u64>>),
    /// Seeds: 64 bits, unsigned.
    Seeds(Vec<u64>),
    /// Rates, shares and means.
    Doubles(Vec<Option<f64>>),
}

/// A column with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The name, with the unit last.
    pub name: String,
    /// The values.
    pub values: Values,
    /// Whether a value may be missing.
    pub optional: bool,
}

impl Column {
    /// A column without missing values.
    pub fn required(name: impl Into<String>, values: Values) -> Column {
        Column { name: name.into(), values, optional: false }
    }

    /// A column whose values may be missing.
    pub fn optional(name: impl Into<String>, values: Values) -> Column {
        Column { name: name.into(), values, optional: true }
    }

    fn schema(&self) -> String {
        let word = if self.optional { "OPTIONAL" } else { "REQUIRED" };
        let (kind, of) = match self.values {
            Values::Texts(_) => ("BYTE_ARRAY", " (UTF8)"),
            Values::Ints(_) => ("INT32", ""),
            Values::Longs(_) => ("INT64", ""),
            Values::Seeds(_) => ("INT64", " (INTEGER(64,false))"),
            Values::Doubles(_) => ("DOUBLE", ""),
        };
        format!("    {word} {kind} {}{of};\n", self.name)
    }

    fn write(&self, column: &mut SerializedColumnWriter<'_>) -> Result<()> {
        let optional = self.optional;
        /// What an optional column needs to know: 1 where there is a value.
        fn levels<T>(values: &[Option<T>], optional: bool) -> Option<Vec<i16>> {
            optional.then(|| values.iter().map(|value| i16::from(value.is_some())).collect())
        }
        match &self.values {
            Values::Texts(values) => {
                let there: Vec<ByteArray> =
                    values.iter().flatten().map(|text| ByteArray::from(&**text)).collect();
                let levels = levels(values, optional);
                column.typed::<ByteArrayType>().write_batch(&there, levels.as_deref(), None)?;
            }
            Values::Ints(values) => {
                let there: Vec<i32> = values.iter().flatten().map(|number| *number as i32).collect();
                let levels = levels(values, optional);
                column.typed::<Int32Type>().write_batch(&there, levels.as_deref(), None)?;
            }
            Values::Longs(values) => {
                let there: Vec<i64> = values.iter().flatten().map(|number| *number as i64).collect();
                let levels = levels(values, optional);
                column.typed::<Int64Type>().write_batch(&there, levels.as_deref(), None)?;
            }
            Values::Seeds(values) => {
                let there: Vec<i64> = values.iter().map(|number| *number as i64).collect();
                column.typed::<Int64Type>().write_batch(&there, None, None)?;
            }
            Values::Doubles(values) => {
                let there: Vec<f64> = values.iter().flatten().copied().collect();
                let levels = levels(values, optional);
                column.typed::<DoubleType>().write_batch(&there, levels.as_deref(), None)?;
            }
        }
        Ok(())
    }
}

/// Writes tables of the same columns as one Parquet file, each as a group of rows.
///
/// # Errors
/// A write that fails.
pub fn write_parquet(
    name: &str,
    tables: impl IntoIterator<Item = Vec<Column>>,
    out: impl Write + Send,
) -> std::io::Result<()> {
    write(name, tables, out).map_err(std::io::Error::other)
}

fn write(name: &str, tables: impl IntoIterator<Item = Vec<Column>>, out: impl Write + Send) -> Result<()> {
    let mut tables = tables.into_iter().peekable();
    let fields: String = tables.peek().into_iter().flatten().map(Column::schema).collect();
    let schema = Arc::new(parse_message_type(&format!("message {name} {{\n{fields}}}"))?);
    let packed = Compression::GZIP(GzipLevel::default());
    let properties = WriterProperties::builder().set_compression(packed).build();
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    for table in tables {
        let mut group = writer.next_row_group()?;
        for values in &table {
            let mut column = group.next_column()?.expect("the schema has as many columns");
            values.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
    }
    writer.close().map(drop)
}
