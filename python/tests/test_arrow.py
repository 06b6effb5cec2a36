# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables through the Arrow C stream: readers get the values of the CSV, with whole nanoseconds."""

import csv
import io

import pytest
import wakelab

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def answer():
    return wakelab.compare("demo", "smp-8", ["linux-4.15", "linux-6.12"], seeds=2)


def test_tidy_is_the_csv(answer):
    table = pa.table(answer)
    rows = list(csv.DictReader(io.StringIO(answer.to_csv())))
    assert table.column_names == ["machine", "policy", "seed", "task", "metric", "unit", "value_ns", "value"]
    assert table.num_rows == len(rows) > 100
    for row, own in zip(rows, table.to_pylist()):
        assert own["value"] == float(row["value"])
        assert (own["value_ns"] is not None) == (row["unit"] == "ns")
        for name in ["machine", "policy", "task", "metric", "unit"]:
            assert own[name] == row[name]
        assert own["seed"] == int(row["seed"])
    assert table.schema.field("value_ns").type == pa.int64()
    assert table.schema.field("seed").type == pa.uint64()


def test_a_stream_can_be_read_twice(answer):
    assert pa.table(answer).equals(pa.table(answer.tidy))


def test_slices_are_those_of_parquet(answer, command, tmp_path):
    import pyarrow.parquet as pq

    file = tmp_path / "slices.parquet"
    policies = ["--policy", "linux-4.15", "--policy", "linux-6.12"]
    command("compare", "demo", "-m", "smp-8", *policies, "--seeds", "2", "--parquet", str(file))
    table = pa.table(answer.slices())
    assert table.equals(pq.read_table(file))
    assert {"ts", "dur", "cpu", "thread_name", "end_state", "priority"} <= set(table.column_names)
    answer.slices().to_parquet(tmp_path / "own.parquet")
    assert (tmp_path / "own.parquet").read_bytes() == file.read_bytes()


def test_pandas_polars_and_duckdb_take_it(answer):
    rows = pa.table(answer).num_rows
    pandas = pytest.importorskip("pandas", minversion="3")
    assert len(pandas.DataFrame.from_arrow(answer)) == rows
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(answer).height == rows
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql("select count(*) from answer").fetchall() == [(rows,)]
