# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints the tables of docs/results/atlas.md from the gains of its sweep: python docs/results/atlas.py gains.parquet"""

import sys

import duckdb

#: Cases by how many CPUs a last-level cache has, and how many such caches the machine has.
CASES = """
select
    split_part(policy, '=', 2) as design,
    case when llc_cpus <= 4 then 1 when llc_cpus <= 16 then 2 when llc_cpus <= 36 then 3 else 4 end as size,
    case when caches = 1 then 1 when caches <= 4 then 2 when caches <= 12 then 3 else 4 end as number,
    gain_percent as gain, marked and gain_percent > 0 as better, marked and gain_percent < 0 as worse, *
from (select *, clusters * cores * smt as llc_cpus, sockets * nodes * llcs as caches from read_parquet(?))
"""
SIZES = ["1 to 4", "5 to 16", "17 to 36", "37 to 72"]
NUMBERS = ["1", "2 to 4", "5 to 12", "13 to 24"]


def main() -> None:
    connection = duckdb.connect()
    connection.execute(f"create table cases as {CASES}", [sys.argv[1]])
    designs = [row[0] for row in connection.execute("select design from cases group by 1 order by min(rowid)").fetchall()]
    for design in designs:
        print(f"{design}: better/worse of all cases, by CPUs in a last-level cache and number of such caches")
        print(f"{'':12}" + "".join(f"{number:>16}" for number in NUMBERS))
        for size, words in enumerate(SIZES, 1):
            cells = []
            for number in range(1, len(NUMBERS) + 1):
                where = "from cases where design = ? and size = ? and number = ?"
                query = f"select sum(better::int), sum(worse::int), count(*) {where}"
                better, worse, count = connection.execute(query, [design, size, number]).fetchone() or (0, 0, 0)
                cells.append(f"{better}/{worse} of {count}" if count else "-")
            print(f"{words:12}" + "".join(f"{cell:>16}" for cell in cells))
        flips = """
            select count(*) filter (where better and worse), count(*) filter (where better), count(*) filter (where worse), count(*)
            from (select bool_or(better) as better, bool_or(worse) as worse
                  from cases where design = ? group by sockets, nodes, llcs, clusters, cores, smt)"""
        both, better, worse, shapes = connection.execute(flips, [design]).fetchone() or (0, 0, 0, 0)
        print(f"of {shapes} shapes it is better at some load on {better}, worse on {worse}, both on {both}\n")


if __name__ == "__main__":
    main()
