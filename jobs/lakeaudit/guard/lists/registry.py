"""The forms of delete lists, in the order in which they are tried."""

from collections.abc import Mapping

from lakeaudit.guard.lists.binary_lists import HUDI_PLAN, PARQUET
from lakeaudit.guard.lists.csv_lists import CSV, S3_BATCH
from lakeaudit.guard.lists.json_lists import JSON, JSON_LINES
from lakeaudit.guard.lists.protocol import ListForm
from lakeaudit.guard.lists.text_lists import PLAIN

FORMS: Mapping[str, ListForm] = {
    form.name: form for form in (PARQUET, HUDI_PLAN, JSON_LINES, JSON, S3_BATCH, CSV, PLAIN)
}


def form_of(sample: bytes) -> ListForm:
    """Return the first form that recognises the first bytes of a list."""
    return next((form for form in FORMS.values() if form.recognises(sample)), PLAIN)
