"""The lake file's entry of a catalog that is read over HTTP, and what a client needs to know of any such source."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from lakeaudit.config.field_types import EnvName, Text, Url
from lakeaudit.config.sources import CatalogSource
from lakeaudit.config.sources.base import EntryProblem


@dataclass(frozen=True)
class HttpAccess:
    """The name of a source over HTTP in messages, and the variables that hold its secrets, see `HttpCatalog`.

    A source sends a token (`bearer_env`), or exchanges the secret of a client for tokens (`credential_env`), or has no
    secret. `noun` is what messages call it.
    """

    name: str
    bearer_env: str | None = None
    credential_env: str | None = None
    oauth2_uri: str | None = None
    scope: str = "catalog"
    audience: str | None = None
    resource: str | None = None
    noun: str = "the catalog"


class HttpCatalog(CatalogSource):
    """A catalog at a URL. Secrets are in environment variables, which the lake file names.

    `bearer_env`: a token, sent unchanged. `credential_env`: `id:secret` of a client, exchanged for tokens at
    `oauth2_uri` (OAuth2, client credentials), and again whenever a token has expired; `scope`, `audience` and
    `resource` are sent with it as they are written.
    """

    uri: Url
    bearer_env: EnvName | None = None
    credential_env: EnvName | None = None
    oauth2_uri: Url | None = None
    scope: Text = "catalog"
    audience: Text | None = None
    resource: Text | None = None

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.word

    @property
    def access(self) -> HttpAccess:
        """What a client needs to know of it."""
        names = (each.name for each in fields(HttpAccess) if each.name != "noun")
        return HttpAccess(**{name: getattr(self, name) for name in names})

    @classmethod
    def problems(cls, entry: Mapping[str, object]) -> Iterator[EntryProblem]:
        if "bearer_env" in entry and "credential_env" in entry:
            yield ("bearer_env",), "a second way to authenticate", "keep one of the two"
