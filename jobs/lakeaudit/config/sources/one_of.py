"""Fields whose values are named by the registry of kinds: each is looked up when a file is read."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, get_args

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError, SchemaValidator, core_schema

from lakeaudit.config.sources.base import Source
from lakeaudit.config.sources.roles import EventsSource, ManifestSource, MetastoreSource, StorageSource
from lakeaudit.evidence import registry


def kind_of(entry: object) -> object:
    """Return the tag of an entry, as written or already built."""
    return entry.get("kind") if isinstance(entry, dict) else getattr(entry, "kind", None)


class OneOf:
    """A field that holds a source of any kind of one role; `kinds` may grow after the models were built."""

    def __init__(self, kinds: Mapping[str, Any]) -> None:
        self.kinds = kinds

    @property
    def models(self) -> dict[str, type[Source]]:
        """The model of each kind in the lake file."""
        return {name: kind.model for name, kind in self.kinds.items()}

    def __get_pydantic_core_schema__(self, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._validated)

    def _validated(self, value: object) -> Source:
        name = kind_of(value)
        if not isinstance(name, str) or name not in self.kinds:
            raise _unknown(name, tuple(self.kinds))
        source: Source = _validator_of(self.kinds[name].model).validate_python(value)
        return source

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        choices = {kind: model.__pydantic_core_schema__ for kind, model in self.models.items()}
        return handler(core_schema.tagged_union_schema(choices, discriminator=kind_of))


@cache
def _validator_of(model: type[Source]) -> SchemaValidator:
    """Return a validator of one kind, whose errors have the kind in their location, as those of a union do."""
    (kind,) = get_args(model.model_fields["kind"].annotation)
    return SchemaValidator(
        core_schema.tagged_union_schema({kind: model.__pydantic_core_schema__}, discriminator=kind_of)
    )


class OneName:
    """A field that holds one word of a vocabulary which is computed when a file is read."""

    def __init__(self, words: Callable[[], tuple[str, ...]]) -> None:
        self.words = words

    def __get_pydantic_core_schema__(self, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._validated)

    def _validated(self, value: object) -> str:
        words = self.words()
        if isinstance(value, str) and value in words:
            return value
        quoted = [f"'{word}'" for word in words]
        expected = " or ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))
        raise PydanticKnownError("literal_error", {"expected": expected})

    def __get_pydantic_json_schema__(self, _: CoreSchema, __: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"enum": list(self.words()), "type": "string"}


def _unknown(kind: object, known: tuple[str, ...]) -> PydanticKnownError:
    if kind is None:
        return PydanticKnownError("union_tag_not_found", {"discriminator": "kind_of()"})
    expected = ", ".join(f"'{name}'" for name in known)
    named = {"discriminator": "kind_of()", "tag": str(kind), "expected_tags": expected}
    return PydanticKnownError("union_tag_invalid", named)


Inventory = Annotated[StorageSource, OneOf(registry.STORAGE)]
Metastore = Annotated[MetastoreSource, OneOf(registry.METASTORES)]
Manifest = Annotated[ManifestSource, OneOf(registry.MANIFESTS)]
Requests = Annotated[EventsSource, OneOf(registry.EVENTS)]
