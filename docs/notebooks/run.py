# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the notebooks of this folder and writes their outputs into them; with --check, fails where an output is another.

A sweep, a replay and a map are the same to the byte everywhere, so that an output can be checked like any other figure.
`cargo xtask notebooks` calls this with the package of the tree.
"""

import argparse
import difflib
import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of a new kernel. The text of tables is as wide as they need."""
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(FOLDER)}}).execute()
    for cell in book.cells:
        # When a cell ran is not a result, and neither is in how many pieces its text came.
        cell.metadata.pop("execution", None)
        joined: list[nbformat.NotebookNode] = []
        for output in cell.get("outputs", []):
            if joined and output.output_type == joined[-1].output_type == "stream" and output.name == joined[-1].name:
                joined[-1].text += output.text
            else:
                joined.append(output)
        if "outputs" in cell:
            cell.outputs = joined
    book.metadata["language_info"] = {"name": "python"}
    return book


def shown(book: nbformat.NotebookNode) -> list[str]:
    """All outputs, line by line."""
    lines = []
    for number, cell in enumerate(book.cells):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            # The plain text of an object may be its address.
            text = output.get("text") or data.get("text/html") or data.get("text/plain") or ""
            lines += [f"[{number}] {line}" for line in text.splitlines()]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where an output is another")
    check = parser.parse_args().check
    os.environ.pop("COLUMNS", None)
    stale = 0
    for path in sorted(FOLDER.glob("*.ipynb")):
        before, after = nbformat.read(path, as_version=4), executed(path)
        if shown(before) == shown(after):
            print(f"notebooks: {path.name} is fresh")
            continue
        if check:
            stale += 1
            diff = list(difflib.unified_diff(shown(before), shown(after), "the notebook", "it shows now", lineterm="", n=0))
            print(f"notebooks: {path.name} is stale:", *diff[:10], sep="\n", file=sys.stderr)
        else:
            nbformat.write(after, path)
            print(f"notebooks: {path.name} has changed")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
