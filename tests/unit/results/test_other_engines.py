"""The grammar, functions and names of the documents' SQL in Trino and Athena, which no test runs.

sqlglot parses both dialects, but accepts the functions of all engines. So this file lists those that Trino documents.
Athena has the functions of Trino: https://docs.aws.amazon.com/athena/latest/ug/functions-env3.html
"""

from itertools import pairwise

import pytest
import sqlglot
from sqlglot import ErrorLevel, TokenType, exp

from tests.builders.questions import naming, questions, views

ENGINES = ("trino", "athena")
STATEMENTS = {sql.split(" AS", 1)[0]: sql for sql in views()} | {
    f"question {number}": sql for number, sql in questions().items()
}

FUNCTIONS = {"avg", "cardinality", "cast", "coalesce", "count", "date_diff", "max", "max_by", "min", "min_by", "nullif",
             "row_number", "sum"}  # fmt: skip
"""The functions in the documents. All of them are in https://trino.io/docs/current/functions/list.html"""

BEFORE_BRACKETS = {"and", "filter", "from", "in", "join", "over"}
"""Words before an opening bracket that are not functions."""

_RESERVED = """
ALTER AND AS AUTO BETWEEN BY CASE CAST CONSTRAINT CREATE CROSS CUBE CURRENT_CATALOG CURRENT_DATE CURRENT_PATH
CURRENT_ROLE CURRENT_SCHEMA CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DEALLOCATE DELETE DESCRIBE DISTINCT DROP
ELSE END ESCAPE EXCEPT EXECUTE EXISTS EXTRACT FALSE FIRST FOR FROM FULL GROUP GROUPING HAVING IN INNER INSERT
INTERSECT INTO IS JOIN JSON_ARRAY JSON_EXISTS JSON_OBJECT JSON_QUERY JSON_TABLE JSON_VALUE LAST LEFT LIKE LISTAGG
LOCALTIME LOCALTIMESTAMP NATURAL NORMALIZE NOT NULL OF ON OR ORDER OUTER PREPARE PRIMARY RECURSIVE RIGHT ROLLUP
SELECT SKIP TABLE THEN TRIM TRUE UESCAPE UNION UNNEST USING VALUES WHEN WHERE WITH
"""
RESERVED = frozenset(_RESERVED.split())
"""Words that are names only in quotes: in Trino (https://trino.io/docs/current/language/reserved.html), or in the
queries and views of Athena (https://docs.aws.amazon.com/athena/latest/ug/reserved-words.html)."""

OPTIONAL = {"AS", "NULLS", "LAST", ";"}
"""Words that sqlglot adds before an alias, and leaves out where they state the default."""


def parsed(sql: str, engine: str) -> exp.Query | exp.Create:
    """Return a statement. sqlglot returns an unknown one as a Command."""
    tree = sqlglot.parse_one(sql, read=engine, error_level=ErrorLevel.RAISE)
    assert isinstance(tree, exp.Query | exp.Create), sql
    return tree


def tokens_of(sql: str, engine: str) -> list[str]:
    """Return the tokens of a statement in the order of the alphabet, without the optional ones."""
    texts = (token.text.upper() for token in sqlglot.tokenize(sql, read=engine))
    return sorted(text for text in texts if text not in OPTIONAL)


def functions(sql: str, engine: str) -> set[str]:
    """Return the names before an opening bracket, as they are written."""
    tokens = sqlglot.tokenize(sql, read=engine)
    names = {
        token.text.lower()
        for token, following in pairwise(tokens)
        if following.token_type is TokenType.L_PAREN and token.text.isidentifier()
    }
    return names - BEFORE_BRACKETS


def unquoted_names(sql: str, engine: str) -> set[str]:
    """Return the names of tables, columns and aliases that are not in quotes."""
    return {
        name.name.upper()
        for name in parsed(sql, engine).find_all(exp.Identifier)
        if not name.args.get("quoted")
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_is_valid_in_the_dialect(statement: str, engine: str) -> None:
    sql = STATEMENTS[statement]
    assert tokens_of(parsed(sql, engine).sql(engine), engine) == tokens_of(sql, engine)
    assert functions(sql, engine) <= FUNCTIONS
    assert unquoted_names(sql, engine) & RESERVED == set()


def test_the_list_of_functions_has_only_those_of_the_documents() -> None:
    assert set().union(*(functions(sql, "trino") for sql in STATEMENTS.values())) == FUNCTIONS


def test_athena_creates_the_tables_of_the_results() -> None:
    (ddl,) = [text for text in naming() if text.startswith("-- Athena")]
    for tree in sqlglot.parse(ddl, read="athena", error_level=ErrorLevel.RAISE):
        assert isinstance(tree, exp.Create)
        table = tree.this.name
        assert tree.find(exp.ExternalProperty)
        location = tree.find(exp.LocationProperty)
        assert location
        assert location.this.name == f"s3://audit-results/shop/{table}/"


FAULTS = [
    # a statement of DuckDB, the check that refuses it
    ("SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY b) = 1", "grammar"),
    ("SELECT a::int FROM t", "tokens"),
    ("SELECT median(a) FROM t", "tokens"),
    ("SELECT arg_max(a, b) FROM t", "tokens"),
    ("SELECT * EXCLUDE (a) FROM t", "tokens"),
    ("SELECT strftime(a, '%Y') FROM t", "functions"),
    ("SELECT quantile_cont(a, 0.5) FROM t", "functions"),
    ("SELECT left(a, 2) FROM t", "functions"),
    ("SELECT last.a FROM t last", "names"),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("sql", "check"), FAULTS)
def test_other_statements_of_duckdb_are_refused(sql: str, check: str, engine: str) -> None:
    if check == "grammar":
        with pytest.raises(sqlglot.ParseError):
            parsed(sql, engine)
    elif check == "tokens":
        assert tokens_of(parsed(sql, engine).sql(engine), engine) != tokens_of(sql, engine)
    elif check == "functions":
        assert not functions(sql, engine) <= FUNCTIONS
    else:
        assert unquoted_names(sql, engine) & RESERVED == {"LAST"}
