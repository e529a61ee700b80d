"""DeleteObjects as S3 answers it: moto ignores the conditions of its entries."""

from typing import Any

import pytest
from botocore.client import BaseClient


def each_by_its_etag(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Stands for S3: DeleteObjects refuses entries whose ETag is not their object's. The keys of each request."""
    call: Any = vars(BaseClient)["_make_api_call"]
    asked: list[list[str]] = []

    def honouring(self: Any, operation: str, given: dict[str, Any]) -> Any:
        if operation != "DeleteObjects":
            return call(self, operation, given)
        at, keep, refused = given["Bucket"], list[dict[str, str]](), list[dict[str, str]]()
        asked.append([each["Key"] for each in given["Delete"]["Objects"]])
        for each in given["Delete"]["Objects"]:
            head = call(self, "HeadObject", {"Bucket": at, "Key": each["Key"]})
            (keep if head["ETag"] == each["ETag"] else refused).append({"Key": each["Key"]})
        answer = call(self, operation, {"Bucket": at, "Delete": {"Objects": keep}}) if keep else {}
        return {**answer, "Errors": [{**each, "Code": "PreconditionFailed"} for each in refused]}

    monkeypatch.setattr(BaseClient, "_make_api_call", honouring)
    return asked
