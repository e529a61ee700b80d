"""Checks a list of files before a DAG deletes them: the operator `GuardDeletes`, which runs `lakeaudit guard`.

Copy this file into the DAG folder of another Airflow, or import it here. Airflow needs neither lakeaudit nor Spark: the
operator starts the program `lakeaudit` of the worker.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from tempfile import TemporaryFile
from typing import Any

from airflow.sdk import BaseOperator

try:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
except ImportError:  # Airflow 3.0
    from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException

FREE, NEEDED, UNKNOWN = 0, 1, 3
"""The exit codes of `lakeaudit guard` that are answers: docs/guard.md."""
RETRYABLE = (10, 13, 14, 70)
"""Exit codes after which a retry may succeed: for example, storage did not answer."""
ANSWERS = "answers"
"""Key of the XCom with the counts, the digest of the safe list, and the time until which the answers hold."""
SHOWN = 3
"""Files that the error names."""


class GuardDeletes(BaseOperator):
    """Succeeds if no table needs a file of a delete list; returns the path of the list of safe files.

    It fails at once, without a retry, if a table needs a file, or if that is unknown for a file. It is skipped, and so
    are the tasks after it, if the list names no file.

    Args:
        lake: path of the lake file.
        delete_list: path or `s3://` URI of the list; or a location that ends in /, for all objects below it.
        safe_list: path on the worker for the CSV file of the files that no table needs.
        tables: names of tables to whose locations relative paths of the list belong.
        form: form of the list, as `--as`; default: it is recognised.
        bucket: bucket of a lifecycle configuration.
        program: the program `lakeaudit`, or a command line that starts it.
        env: environment variables in addition to those of the worker.
    """

    template_fields = ("lake", "delete_list", "safe_list", "tables", "env")

    def __init__(
        self,
        *,
        lake: str,
        delete_list: str,
        safe_list: str,
        tables: Sequence[str] = (),
        form: str | None = None,
        bucket: str | None = None,
        program: str = "lakeaudit",
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.lake, self.delete_list, self.safe_list = lake, delete_list, safe_list
        self.tables, self.form, self.bucket = tables, form, bucket
        self.program, self.env = program, env
        self.process: subprocess.Popen[str] | None = None

    def execute(self, context: Any) -> str:
        """Check the list; end the task unless every file is free or absent."""
        code, printed = self._run()
        answers = _document(printed) if code in (FREE, NEEDED, UNKNOWN) else None
        if answers is None:
            error = AirflowException if code in RETRYABLE or code <= 0 else AirflowFailException
            raise error(f"guard ended with exit code {code} and without an answer: its log has the reason")
        context["ti"].xcom_push(key=ANSWERS, value=_outcome(answers))
        if code != NEEDED and answers["complete"] and not any(answers["counts"].values()):
            self.log.info("the list names no file, so the tasks after this one are skipped")
            raise AirflowSkipException("the list names no file")
        if code != FREE:
            raise AirflowFailException(words_of(answers))
        self.log.info("no table needs a file of the list; the answers hold until %s", answers["valid_until"])
        return self.safe_list

    def on_kill(self) -> None:
        """End the command."""
        if self.process is not None:
            self.process.terminate()

    def arguments(self) -> list[str]:
        """Return the command line."""
        named = [word for name in self.tables for word in ("--table", name)]
        named += ["--as", self.form] if self.form else []
        named += ["--bucket", self.bucket] if self.bucket else []
        lists = [self.lake, self.delete_list, "-o", self.safe_list, "--format", "json"]
        return [*shlex.split(self.program), "guard", *lists, *named]

    def _run(self) -> tuple[int, str]:
        """Return the exit code and the output of the command; its messages go to the log."""
        words = self.arguments()
        self.log.info("%s", shlex.join(words))
        with TemporaryFile("w+", encoding="utf-8", errors="replace") as printed:
            try:
                self.process = subprocess.Popen(  # noqa: S603 - the author of the DAG writes the command line
                    words, env={**os.environ, **(self.env or {})}, text=True, errors="replace",
                    stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.PIPE,
                )  # fmt: skip
            except OSError as error:
                what = f"{words[0]} cannot be started ({error.strerror}): set `program`"
                raise AirflowFailException(what) from None
            for line in self.process.stderr or ():
                self.log.info("%s", line.rstrip())
            code = self.process.wait()
            printed.seek(0)
            return code, printed.read()


def words_of(answers: Mapping[str, Any]) -> str:
    """Return in one line why the files must not be deleted."""
    counts = ", ".join(f"{count} {status}" for status, count in answers["counts"].items() if count)
    files = [
        f"{file['uri'] or file['text']}: {file['status']}, {file['reason']}"
        for file in answers["files"][:SHOWN]
    ]
    reasons = [answers["reason"]] if answers["reason"] else []
    return ascii("; ".join([f"delete nothing: of the files {counts}", *reasons, *files]))[1:-1]


def _document(printed: str) -> dict[str, Any] | None:
    """Return the JSON document of the command; None: it has printed none."""
    try:
        found = json.loads(printed)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "counts" in found else None


def _outcome(answers: Mapping[str, Any]) -> dict[str, Any]:
    safe = answers.get("safe_list") or {}
    fields = {name: answers.get(name) for name in ("counts", "answered_at", "valid_until", "exit_code")}
    return {**fields, "safe_list": safe.get("file"), "sha256": safe.get("sha256"), "keys": safe.get("keys")}
