// SPDX-License-Identifier: GPL-2.0-or-later
//! Columns as a stream of Arrow, in a capsule of the Arrow PyCapsule Interface. The stream owns its buffers, which the
//! reader takes as they are.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
    UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use wakelab_report::{Column, Values};

use crate::refused;

/// Returns a capsule with the tables, one batch each. All have the same columns.
pub(crate) fn stream(py: Python<'_>, tables: Vec<Vec<Column>>) -> PyResult<Bound<'_, PyCapsule>> {
    let fields: Vec<Field> = tables.iter().take(1).flatten().map(field).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = |columns: Vec<Column>| {
        RecordBatch::try_new(
            Arc::clone(&schema),
            columns.into_iter().map(|column| array(column.values)).collect(),
        )
    };
    let batches = tables.into_iter().map(batch).collect::<Result<Vec<_>, ArrowError>>().map_err(refused)?;
    let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    let stream = FFI_ArrowArrayStream::new(Box::new(reader));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

fn field(column: &Column) -> Field {
    let kind = match column.values {
        Values::Texts(_) => DataType::Utf8,
        Values::Ints(_) => DataType::Int32,
        Values::Longs(_) => DataType::Int64,
        Values::Seeds(_) => DataType::UInt64,
        Values::Doubles(_) => DataType::Float64,
    };
    Field::new(&column.name, kind, column.optional)
}

fn array(values: Values) -> ArrayRef {
    match values {
        Values::Texts(values) => Arc::new(values.iter().map(|text| text.as_deref()).collect::<StringArray>()),
        Values::Ints(values) => {
            Arc::new(values.into_iter().map(|value| value.map(|value| value as i32)).collect::<Int32Array>())
        }
        Values::Longs(values) => {
            Arc::new(values.into_iter().map(|value| value.map(|value| value as i64)).collect::<Int64Array>())
        }
        Values::Seeds(values) => Arc::new(UInt64Array::from(values)),
        Values::Doubles(values) => Arc::new(Float64Array::from(values)),
    }
}
