"""The SQL of docs/result-tables.md and of the pages of questions, run by DuckDB over the result tables of a folder."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable

DOCS = Path(__file__).parents[2] / "docs"
_SQL = re.compile(r"```sql\n(.*?)```", re.DOTALL)

PAGES = ("questions.md", "questions-verified.md")
_TEXT = "\n".join((DOCS / page).read_text("utf-8") for page in PAGES)
NAMED = re.findall(r"^## \d+[.] .+\?$", _TEXT, re.MULTILINE)


def statements(page: str) -> list[str]:
    """All SQL of a page in its order."""
    return _SQL.findall((DOCS / page).read_text("utf-8"))


def views() -> Iterator[str]:
    """The statements of all pages that create the views."""
    for page in ("result-tables.md", *PAGES):
        yield from (each for each in statements(page) if each.startswith("CREATE VIEW"))


def naming() -> list[str]:
    """The statements that name the result tables: in DuckDB, Trino and Athena."""
    return [each for each in statements("result-tables.md") if each.startswith("--")]


def questions() -> dict[str, str]:
    """The query of each question: by its number, and `3b` for a second query of question 3."""
    found = {}
    for section in re.split(r"^## ", _TEXT, flags=re.MULTILINE):
        if number := re.match(r"\d+", section):
            for letter, sql in zip(("", "b"), _SQL.findall(section), strict=False):
                found[f"{number[0]}{letter}"] = sql
    return found


class Answers:
    """DuckDB with the result tables of a folder and the views of the documents."""

    def __init__(self, results: Path) -> None:
        self._engine = duckdb.connect()
        self._engine.execute("SET TimeZone = 'UTC'")
        for name in re.findall(r"CREATE VIEW (\w+) AS SELECT [*]", naming()[0]):
            self._engine.register(name, DeltaTable(results / name).to_pyarrow_table())
        for view in views():
            self._engine.execute(view)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query, with their columns by name."""
        found = self._engine.execute(sql)
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def to(self, question: str) -> list[tuple[Any, ...]]:
        """Return the rows of a question's query without the column `lake`."""
        return [
            tuple(value for name, value in row.items() if name != "lake")
            for row in self.rows(questions()[question])
        ]
