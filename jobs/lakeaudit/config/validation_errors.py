"""Convert the models' validation errors to problems of the lake file."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lakeaudit.config.file import LakeFile
from lakeaudit.config.problems import ConfigProblem, Path, quoted, suggest
from lakeaudit.config.secrets import without_query
from lakeaudit.config.sources.one_of import OneOf
from lakeaudit.config.yaml_document import Document
from lakeaudit.kinds import KINDS

SHAPES: Mapping[str, tuple[str, str]] = {
    "tuple_type": ("must be a list", "write [one, two], or one entry a line, each after a dash"),
    "dict_type": ("must be a mapping", "write {key: value}, or one key: value a line"),
    "model_type": ("must be a mapping", "write {key: value}, or one key: value a line"),
    "model_attributes_type": ("must be a mapping", "write {key: value}, or one key: value a line"),
    "too_short": ("names nothing", "give at least one entry"),
}

BOUNDS = {
    "greater_than": "more than",
    "greater_than_equal": "at least",
    "less_than": "less than",
    "less_than_equal": "at most",
}


def refusals(error: ValidationError, document: Document) -> list[ConfigProblem]:
    """Return one problem for each error of a model."""
    details = error.errors(include_url=False)
    return [_problem_of(detail, document) for detail in details if not _echo(detail)]


def _echo(detail: ErrorDetails) -> bool:
    """Return whether a list is reported as too short only because pydantic refused its entries."""
    return detail["type"] == "too_short" and bool(detail["input"])


def _problem_of(detail: ErrorDetails, document: Document) -> ConfigProblem:
    path = _path(detail["loc"], document.data)
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return ConfigProblem((*path, detail["loc"][-1]), "is missing", "every entry of this kind needs it")
    if kind == "extra_forbidden":
        return ConfigProblem(path, "unknown key", suggest(path[-1], keys_at(detail["loc"][:-1])))
    if kind in SHAPES:
        return ConfigProblem(path, *SHAPES[kind])
    if kind == "literal_error":
        return _outside(path, detail, document)
    if kind == "lake_value":
        return _value(path, detail, document)
    if kind in BOUNDS:
        return ConfigProblem(
            path, f"out of bounds{_quoted_value(path, document)}", f"{BOUNDS[kind]} {_bound(context)}"
        )
    return ConfigProblem(path, f"not allowed{_quoted_value(path, document)}", _lower(detail["msg"]))


def _path(loc: Path, data: object) -> Path:
    """Return the path in the data of a model's error location, without the tags of unions."""
    path: list[str | int] = []
    for part in loc:
        inside = isinstance(data, dict) and part in data
        if inside or (isinstance(data, list) and isinstance(part, int) and part < len(data)):
            path.append(part)
            data = data[part]  # type: ignore[index]
    return tuple(path)


def _outside(path: Path, detail: ErrorDetails, document: Document) -> ConfigProblem:
    """Return the problem of a word outside its vocabulary."""
    word = document.written.get(path, "")
    expected = detail.get("ctx", {}).get("expected", "")
    words = [part.strip(" '") for part in expected.replace(" or ", ",").split(",")]
    return ConfigProblem(path, f"must not be {quoted(word)}", suggest(word, words))


def _value(path: Path, detail: ErrorDetails, document: Document) -> ConfigProblem:
    context: dict[str, Any] = detail.get("ctx", {})
    if detail["loc"][-1] == "[key]":
        return ConfigProblem(path, context["what"], suggest(path[-1], tuple(KINDS)))
    shown = "" if context["quiet"] else _quoted_value(path, document)
    hint = context["hint"] or suggest(document.written.get(path, ""), tuple(KINDS))
    return ConfigProblem(path, f"{context['what']}{shown}", hint)


def _quoted_value(path: Path, document: Document) -> str:
    return f": {quoted(without_query(document.written[path]))}" if path in document.written else ""


def _bound(context: Mapping[str, Any]) -> str:
    return next((f"{context[name]:g}" for name in ("gt", "ge", "lt", "le") if name in context), "")


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def keys_at(loc: Path) -> list[str]:
    """Return the keys of the block at a model's location."""
    models: list[type[BaseModel]] = [LakeFile]
    for part in loc:
        tagged = [model for model in models if part in _tags(model)]
        if tagged:
            models = tagged
        elif isinstance(part, str):
            models = [inner for model in models for inner in _inside(model, part)] or models
    return sorted({name for model in models for name in keys_of(model)})


def keys_of(model: type[BaseModel]) -> dict[str, object]:
    """Return the keys of a block as written, each with its annotation."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the blocks that an annotation can hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    parts = get_args(annotation)
    for choice in (part for part in parts if isinstance(part, OneOf)):
        yield from choice.models.values()
        return
    for inner in parts:
        yield from models_in(inner)


def _inside(model: type[BaseModel], key: str) -> Iterator[type[BaseModel]]:
    return models_in(keys_of(model).get(key))


def _tags(model: type[BaseModel]) -> tuple[object, ...]:
    field = model.model_fields.get("kind")
    return get_args(field.annotation) if field else ()
