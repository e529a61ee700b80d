"""The tests' own server (moto) answers with the same bytes at half of the time.

Moto looks at every object of a bucket to list one prefix, tries six names for each field of each listed object, and
checks the same element names and the same host again and again. Requests to it are a quarter of an audit in a test.
"""

import string
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from types import SimpleNamespace
from typing import Any, cast
from weakref import WeakKeyDictionary


def quicken() -> None:
    """Patch moto once for this process."""
    from moto.s3.models import S3Backend

    if hasattr(S3Backend.list_objects, "__wrapped__"):
        return
    _list_one_prefix()
    _look_fields_up_once()
    _check_names_once()
    _read_urls_once()
    _draw_ids_at_once()


def _list_one_prefix() -> None:
    """Only objects below the requested prefix are copied, sorted and compared."""
    from moto.s3.models import FakeBucket, S3Backend

    backend = cast("Any", S3Backend)
    objects, versions = backend.list_objects, backend.list_object_versions

    @wraps(objects)
    def list_objects(self: Any, bucket: Any, prefix: str | None, *rest: Any, **named: Any) -> Any:
        if prefix and type(bucket) is FakeBucket:
            bucket = SimpleNamespace(keys={key: each[-1] for key, each in _below(bucket, prefix)})
        return objects(self, bucket, prefix, *rest, **named)

    @wraps(versions)
    def list_object_versions(self: Any, bucket_name: str, *rest: Any, prefix: str = "", **named: Any) -> Any:
        if rest or named.get("key_marker") is not None or not prefix:
            return versions(self, bucket_name, *rest, prefix=prefix, **named)
        lists = _below(self.get_bucket(bucket_name), prefix)
        keys = SimpleNamespace(iterlists=lambda: lists)
        part = SimpleNamespace(get_bucket=lambda _: SimpleNamespace(keys=keys))
        return versions(part, bucket_name, prefix=prefix, **named)

    backend.list_objects, backend.list_object_versions = list_objects, list_object_versions


def _below(bucket: Any, prefix: str) -> list[tuple[str, list[Any]]]:
    """Keys and their versions below a prefix."""
    return [(key, each) for key, each in dict(bucket.keys).items() if key.startswith(prefix)]


def _look_fields_up_once() -> None:
    """The names under which a field of a dict may stand depend on the model alone."""
    from moto.core.serialize import AttributePicker

    picker = cast("Any", AttributePicker)
    whole = picker.__call__
    names: WeakKeyDictionary[Any, dict[str, tuple[str, ...]]] = WeakKeyDictionary()

    @wraps(whole)
    def pick(self: Any, context: Any) -> Any:
        if type(context.obj) is not dict or self.response_transformers or context.shape is None:
            return whole(self, context)
        known = names.setdefault(context.shape, {})
        if context.key not in known:
            known[context.key] = tuple(self.get_possible_keys(context))
        return _first(context.obj, known[context.key])

    picker.__call__ = pick


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((fields[name] for name in names if name in fields), None)


def _check_names_once() -> None:
    import xmltodict  # type: ignore[import-untyped]

    module = cast("Any", xmltodict)
    module._validate_name = lru_cache(1_000)(module._validate_name)


def _read_urls_once() -> None:
    """Whether a host names a bucket, and the URL of a request: three times a request."""
    from moto.core.request import Request
    from moto.s3.responses import S3Response
    from werkzeug.utils import cached_property

    response, request = cast("Any", S3Response), cast("Any", Request)
    response.subdomain_based_buckets = staticmethod(_by_host(response.subdomain_based_buckets))
    for name in ("raw_path", "raw_url"):
        setattr(request, name, cached_property(getattr(request, name).fget, name))


def _by_host(whole: Callable[[Any], bool]) -> Callable[[Any], bool]:
    known: dict[str, bool] = {}

    def names_a_bucket(request: Any) -> bool:
        host = request.headers.get("host")
        if host is None:
            return whole(request)
        if host not in known:
            known[host] = whole(request)
        return known[host]

    return names_a_bucket


def _draw_ids_at_once() -> None:
    """Each response has an id of 52 letters."""
    from moto.moto_api._internal.moto_random import MotoRandom

    def get_random_string(
        self: Any, length: int = 20, include_digits: bool = True, lower_case: bool = False
    ) -> str:
        pool = string.ascii_letters + (string.digits if include_digits else "")
        drawn = "".join(self.choices(pool, k=length))
        return drawn.lower() if lower_case else drawn

    cast("Any", MotoRandom).get_random_string = get_random_string
