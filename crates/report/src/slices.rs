// SPDX-License-Identifier: GPL-2.0-or-later
//! The slices of runs as a table in Parquet, each with the wake-up that led to it.
//!
//! Columns have the names and meanings of Perfetto's trace processor where it has them: `ts` and `dur` in nanoseconds,
//! `cpu`, `tid` (the place of the task in the workload, from 1), `thread_name`, `end_state` (R: it gave way, S: it
//! waits, X: it ended, null: the run ended), `priority`. Beside them are the machine, the policy and the seed of the
//! run, `wait` before the slice, and of the wake-up `waker_tid`, `waker_cpu` and the `reason` of the placement, null
//! where there is none.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, GzipLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use wakelab_lab::{Slice, Timeline, Wake, Waker};
use wakelab_trace::kernel_events::{Left, Named};

use crate::comparison::Comparison;

const SCHEMA: &str = "message slices {
    REQUIRED BYTE_ARRAY machine (UTF8);
    REQUIRED BYTE_ARRAY policy (UTF8);
    REQUIRED INT64 seed (INTEGER(64,false));
    REQUIRED INT64 ts;
    REQUIRED INT64 dur;
    REQUIRED INT32 cpu;
    REQUIRED INT32 tid;
    REQUIRED BYTE_ARRAY thread_name (UTF8);
    REQUIRED INT32 priority;
    OPTIONAL BYTE_ARRAY end_state (UTF8);
    REQUIRED INT64 wait;
    OPTIONAL INT32 waker_tid;
    OPTIONAL INT32 waker_cpu;
    OPTIONAL BYTE_ARRAY reason (UTF8);
}";

/// A slice of a run, with what its columns are made of.
struct Row<'a> {
    slice: &'a Slice,
    wake: Option<&'a Wake>,
    task: &'a Named,
}

impl Comparison<'_> {
    /// Writes the slices of all runs with the first seed to `out`; `timelines` are those runs.
    ///
    /// # Errors
    /// A write that fails.
    pub fn write_slices(&self, timelines: &[Timeline], out: impl Write + Send) -> std::io::Result<()> {
        self.slices(timelines, out).map_err(std::io::Error::other)
    }

    fn slices(&self, timelines: &[Timeline], out: impl Write + Send) -> Result<()> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let packed = Compression::GZIP(GzipLevel::default());
        let properties = WriterProperties::builder().set_compression(packed).build();
        let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
        for ((scenario, policy), timeline) in self.scenarios.iter().zip(&self.policies).zip(timelines) {
            let tasks = Named::all(&scenario.workload);
            let rows: Vec<Row<'_>> =
                timeline.slices.iter().map(|slice| row(slice, timeline, &tasks)).collect();
            let run = (scenario.machine.name.as_str(), policy.name.as_str(), self.seeds[0]);
            let mut group = writer.next_row_group()?;
            for values in columns(run, &rows) {
                let mut column = group.next_column()?.expect("the schema has as many columns");
                values.write(&mut column)?;
                column.close()?;
            }
            group.close()?;
        }
        writer.close().map(drop)
    }
}

fn row<'a>(slice: &'a Slice, timeline: &'a Timeline, tasks: &'a [Named]) -> Row<'a> {
    let wake = slice.wake.map(|wake| &timeline.wakes[wake as usize]);
    Row { slice, wake, task: &tasks[slice.task as usize] }
}

/// The values of a column.
enum Values<'a> {
    Texts(Vec<Option<&'a str>>),
    Ints(Vec<Option<u32>>),
    Longs(Vec<u64>),
}

impl Values<'_> {
    fn write(self, column: &mut SerializedColumnWriter<'_>) -> Result<()> {
        /// What an optional column needs to know: 1 where there is a value.
        fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
            values.iter().map(|value| i16::from(value.is_some())).collect()
        }
        match self {
            Values::Texts(values) => {
                let there: Vec<ByteArray> =
                    values.iter().flatten().map(|text| ByteArray::from(*text)).collect();
                column.typed::<ByteArrayType>().write_batch(&there, Some(&levels(&values)), None)?;
            }
            Values::Ints(values) => {
                let there: Vec<i32> = values.iter().flatten().map(|number| *number as i32).collect();
                column.typed::<Int32Type>().write_batch(&there, Some(&levels(&values)), None)?;
            }
            Values::Longs(values) => {
                let there: Vec<i64> = values.iter().map(|number| *number as i64).collect();
                column.typed::<Int64Type>().write_batch(&there, None, None)?;
            }
        }
        Ok(())
    }
}

/// Returns the columns of a run in the order of the schema.
fn columns<'a>((machine, policy, seed): (&'a str, &'a str, u64), rows: &[Row<'a>]) -> Vec<Values<'a>> {
    let texts = |of: &dyn Fn(&Row<'a>) -> Option<&'a str>| Values::Texts(rows.iter().map(of).collect());
    let ints = |of: &dyn Fn(&Row<'a>) -> Option<u32>| Values::Ints(rows.iter().map(of).collect());
    let longs = |of: &dyn Fn(&Row<'a>) -> u64| Values::Longs(rows.iter().map(of).collect());
    vec![
        texts(&|_| Some(machine)),
        texts(&|_| Some(policy)),
        longs(&|_| seed),
        longs(&|row| row.slice.begin_ns),
        longs(&|row| row.slice.end_ns - row.slice.begin_ns),
        ints(&|row| Some(row.slice.cpu)),
        ints(&|row| Some(row.slice.task + 1)),
        texts(&|row| Some(&row.task.comm)),
        ints(&|row| Some(row.task.prio as u32)),
        texts(&|row| {
            row.slice.left.map(|left| match left {
                Left::Runnable => "R",
                Left::Blocked => "S",
                Left::Exited => "X",
            })
        }),
        longs(&|row| row.slice.wait_ns),
        ints(&|row| match row.wake?.by {
            Waker::Task(task) | Waker::Parent(task) => Some(task + 1),
            Waker::Interrupt(_) | Waker::Idle => None,
        }),
        ints(&|row| row.wake.map(|wake| wake.cpu)),
        texts(&|row| row.wake.map(|wake| wake.reason).filter(|reason| !reason.is_empty())),
    ]
}
