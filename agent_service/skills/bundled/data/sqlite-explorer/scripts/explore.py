"""Shows schemas of SQLite databases and answers queries read-only; loads CSV files into a new one."""

from __future__ import annotations

import argparse
import csv
import json
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any, Iterable, List, Optional, Sequence

USAGE = """\
examples:
  explore.py schema shop.db
  explore.py query shop.db "select city, count(*) from people group by 1" --csv
  explore.py load new.db people.csv orders.csv
"""
SHOWN = 60
_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def opened(path: Path) -> sqlite3.Connection:
    """The database, which cannot be changed through this."""
    if not path.is_file():
        sys.exit(f"explore: there is no file {path}")
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def schema(path: Path) -> None:
    """Print what is in the database."""
    connection = opened(path)
    tables = connection.execute(
        "select name, type from sqlite_master where type in ('table', 'view') "
        "and name not like 'sqlite_%' order by type, name"
    ).fetchall()
    for name, kind in tables:
        count = connection.execute(f"select count(*) from {quoted(name)}").fetchone()[0]
        print(f"{kind} {name}: {count} rows")
        for column in connection.execute(f"pragma table_info({quoted(name)})"):
            marks = [column[2] or "any", *["not null"] * column[3], *["key"] * bool(column[5])]
            print(f"  {column[1]}  {', '.join(marks)}")
        for key in connection.execute(f"pragma foreign_key_list({quoted(name)})"):
            print(f"  {key[3]} -> {key[2]}.{key[4] or 'its key'}")
        for index in connection.execute(f"pragma index_list({quoted(name)})"):
            parts = connection.execute(f"pragma index_info({quoted(index[1])})")
            listed = ", ".join(str(part[2]) for part in parts)
            print(f"  {'unique ' if index[2] else ''}index on {listed}")
    if not tables:
        print("The database has no tables.")


def query(path: Path, text: str, options: argparse.Namespace) -> None:
    """Print what a query answers."""
    cursor = opened(path).execute(text)
    if cursor.description is None:
        sys.exit("explore: that statement answers nothing; only queries are of use here")
    head = [str(column[0]) for column in cursor.description]
    rows: List[Sequence[Any]] = cursor.fetchmany(options.most) if options.most else cursor.fetchall()
    if options.json:
        shown = [dict(zip(head, map(plain, row))) for row in rows]
        print(json.dumps(shown, ensure_ascii=False, indent=1))
    elif options.csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([head, *rows])
    else:
        table(head, rows)
    if options.most and cursor.fetchone() is not None:
        print(f"(only the first {options.most} rows; --most 0 gives all)", file=sys.stderr)


def plain(value: Any) -> Any:
    """A value that JSON can have."""
    return f"({len(value)} bytes)" if isinstance(value, bytes) else value


def table(head: List[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print aligned columns."""
    cells = [head]
    for row in rows:
        texts = ["null" if value is None else str(plain(value)) for value in row]
        cells.append([" ".join(text.split())[:SHOWN] for text in texts])
    widths = [max(map(len, column)) for column in zip(*cells)]
    for line in cells:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())
    print(f"({len(cells) - 1} rows)")


def value_of(text: str) -> Optional[object]:
    """A cell of a CSV file: nothing, a number where it surely is one, else the text."""
    if not text.strip():
        return None
    if _NUMBER.fullmatch(text):
        return float(text) if re.search(r"[.eE]", text) else int(text)
    return text


def load(path: Path, sources: List[Path]) -> None:
    """Make a table of each CSV file, in a database that is new or has none of that name."""
    connection = sqlite3.connect(path)
    with connection:
        for source in sources:
            with source.open(encoding="utf-8-sig", newline="") as stream:
                first = stream.readline()
                stream.seek(0)
                reader = csv.reader(stream, delimiter=max(",;\t|", key=first.count))
                head = next(reader, None)
                if not head:
                    sys.exit(f"explore: {source} is empty")
                name = re.sub(r"\W+", "_", source.stem)
                columns = ", ".join(quoted(column.strip() or "column") for column in head)
                connection.execute(f"create table {quoted(name)} ({columns})")
                marks = ", ".join("?" * len(head))
                lines = ([*map(value_of, line), *[None] * len(head)][: len(head)] for line in reader)
                done = connection.executemany(f"insert into {quoted(name)} values ({marks})", lines)
                print(f"{name}: {max(done.rowcount, 0)} rows of {len(head)} columns")


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("schema", "query", "load"))
    parser.add_argument("database", type=Path)
    parser.add_argument("rest", nargs="*", help="the query, or the CSV files")
    parser.add_argument("--most", type=int, default=100, help="rows to show (default 100, 0 is all)")
    parser.add_argument("--csv", action="store_true", help="answer as CSV")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    options = parser.parse_args()
    try:
        if options.what == "schema":
            schema(options.database)
        elif options.what == "query":
            if len(options.rest) != 1:
                parser.error("query needs the SQL as one argument, in quotes")
            query(options.database, options.rest[0], options)
        else:
            load(options.database, [Path(text) for text in options.rest])
    except (sqlite3.Error, sqlite3.Warning) as error:
        sys.exit(f"explore: {error}")
    except OSError as error:
        sys.exit(f"explore: cannot read {error.filename}: {error.strerror}")
    except (UnicodeDecodeError, csv.Error) as error:
        sys.exit(f"explore: a file is no CSV in UTF-8: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
