"""Parse the text of a lake file into plain data, with the line of every value and the problems of its YAML.

Only mappings with text keys, lists, text, numbers, true, false and dates are valid. Variables are expanded and secrets
refused here, so that no later step can repeat a secret.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from lakeaudit.config.problems import ConfigProblem, Path, quoted
from lakeaudit.config.secrets import NO_SECRETS, Unexpanded, expand, has_user_info, names_a_secret

MOST_VALUES = 200_000
DEEPEST = 32
TOP_BLOCKS = (
    *(
        "s3",
        "buckets",
        "dynamodb",
        "inventories",
        "metastores",
        "events",
        "tables",
        "defaults",
        "severity",
        "ignore",
        "watch",
        "maps",
        "replicas",
    ),
    *("ceiling", "ledger", "alerts", "airflow", "profiles", "include", "expect", "owners"),
)
INNER_BLOCKS = ("s3", "aliases", "manifests", "shares", "severity", "confirm")
"""Blocks that may be empty, as when all their entries are commented out."""

PLAIN = {f"tag:yaml.org,2002:{tag}" for tag in ("str", "int", "float", "bool", "null", "timestamp")}


class Unreadable(Exception):
    """The text is not valid YAML; the exception has the one problem."""

    def __init__(self, line: int | None, what: str, hint: str) -> None:
        super().__init__(what)
        self.line, self.what, self.hint = line, what, hint


@dataclass
class Document:
    """The plain data of a lake file, with the line of each path and each scalar as written in the file."""

    data: dict[str, object] = field(default_factory=dict)
    lines: dict[Path, int] = field(default_factory=dict)
    written: dict[Path, str] = field(default_factory=dict)
    found: list[ConfigProblem] = field(default_factory=list)
    files: dict[Path, str] = field(default_factory=dict)
    """Entries of included files, each with its file."""

    def file(self, path: Path, own: str) -> str:
        """Return the file of a value; `own` is the lake file."""
        return self.files.get(path[:2], own)

    def line(self, path: Path) -> int:
        """Return the line of a value, or of the nearest block around it."""
        return next(
            (self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), 1
        )


def read_document(text: bytes, env: Mapping[str, str], list_at: Path = ()) -> Document:
    """Parse the text; raises `Unreadable` if it is not YAML.

    With `list_at`, the path of the first entry, the text is a list of entries.
    """
    loader: yaml.SafeLoader | None = None
    try:
        loader = yaml.SafeLoader(text)
        walk = _Walk(loader, env)
        return walk.entries(list_at) if list_at else walk.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(
            mark.line + 1 if mark else None, f"not YAML: {error.problem}", "mind the indent"
        ) from None
    except (yaml.YAMLError, UnicodeError):
        raise Unreadable(None, "not YAML: not plain UTF-8 text", "save it as UTF-8") from None
    except RecursionError:
        raise Unreadable(None, "nested too deep", "a lake file is a few levels deep") from None
    finally:
        if loader is not None:
            loader.dispose()


class _Walk:
    """One pass over the node tree."""

    def __init__(self, loader: yaml.SafeLoader, env: Mapping[str, str]) -> None:
        self.loader = loader
        self.env = env
        self.seen = 0
        self.doc = Document()

    def document(self) -> Document:
        node = self.loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            what = "the file is empty" if node is None else "the file is not a mapping"
            raise Unreadable(1, what, "begin with version: 1, lake: and results:")
        self.doc.data = self.mapping(node, ())
        return self.doc

    def entries(self, first: Path) -> Document:
        node = self.loader.get_single_node()
        if not isinstance(node, yaml.SequenceNode):
            raise Unreadable(1, "the file is not a list", "begin each entry with a dash, as below `tables`")
        begin = int(first[-1])
        for index, item in enumerate(node.value, begin):
            path = (*first[:-1], index)
            self.doc.lines[path] = item.start_mark.line + 1
            self.doc.data[str(index)] = self.value(item, path)
        return self.doc

    def value(self, node: yaml.Node, path: Path) -> object:
        self.count(node, path)
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag.endswith(":seq"):
            return self.sequence(node, path)
        if isinstance(node, yaml.MappingNode) and node.tag.endswith(":map"):
            return self.mapping(node, path)
        return self.problem(path, f"the tag {quoted(node.tag)} is not allowed", "leave the tag out")

    def count(self, node: yaml.Node, path: Path) -> None:
        """Limit the number and depth of values: YAML aliases can make a huge or endless tree from a short text."""
        self.seen += 1
        if self.seen > MOST_VALUES:
            line = self.doc.line(path)
            raise Unreadable(line, f"more than {MOST_VALUES:,} values", "mind anchors that repeat themselves")
        if len(path) > DEEPEST:
            raise Unreadable(node.start_mark.line + 1, "nested too deep", "mind anchors that hold themselves")

    def sequence(self, node: yaml.SequenceNode, path: Path) -> list[object]:
        for index, item in enumerate(node.value):
            self.doc.lines[(*path, index)] = item.start_mark.line + 1
        return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        data: dict[str, object] = {}
        for key, item, line in self.pairs(node, path):
            here = (*path, key)
            if key in data:
                first = self.doc.lines[here]
                self.doc.lines[here] = line
                self.problem(here, f"duplicate key, first on line {first}", "keep one of them")
                continue
            self.doc.lines[here] = line
            if names_a_secret(key):
                self.problem(here, "a secret does not belong in the lake file", NO_SECRETS)
            elif not _stands_empty(item, key, path):
                data[key] = self.value(item, here)
        return data

    def pairs(self, node: yaml.MappingNode, path: Path) -> Iterator[tuple[str, yaml.Node, int]]:
        """Yield the entries with a valid key: the mapping's own, then those merged by `<<` that it does not have."""
        self.seen += len(node.value)
        own = [(key, item) for key, item in node.value if key.tag != "tag:yaml.org,2002:merge"]
        for key, item in own:
            if (name := self.key(key, path)) is not None:
                yield name, item, key.start_mark.line + 1
        names = {key.value for key, _ in own if isinstance(key, yaml.ScalarNode)}
        for key, item in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                yield from self.merge(item, (*path, "<<"), names)

    def merge(self, node: yaml.Node, path: Path, names: set[str]) -> Iterator[tuple[str, yaml.Node, int]]:
        self.count(node, path)
        listed = node.value if isinstance(node, yaml.SequenceNode) else [node]
        blocks = [block for block in listed if isinstance(block, yaml.MappingNode)]
        if len(blocks) < len(listed):
            self.doc.lines[path] = node.start_mark.line + 1
            self.problem(path, "only mappings can be merged", "write <<: *anchor")
            return
        for block in blocks:
            for entry in self.pairs(block, path):
                if entry[0] not in names:
                    names.add(entry[0])
                    yield entry

    def key(self, node: yaml.Node, path: Path) -> str | None:
        """Return the text of a key; None for an invalid key, whose text may hold a secret and is not repeated."""
        here = (*path, "?")
        if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:str":
            self.problem(here, "a key must be text", "quote it")
        elif has_user_info(node.value):
            self.problem(here, "a key holds a URL with user info", NO_SECRETS)
        else:
            return str(node.value)
        self.doc.lines.setdefault(here, node.start_mark.line + 1)
        return None

    def scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        self.doc.written[path] = node.value
        if has_user_info(node.value):
            return self.problem(path, "a URL with user info holds a secret", NO_SECRETS)
        if node.tag not in PLAIN:
            return self.problem(path, f"the tag {quoted(node.tag)} is not allowed", "leave the tag out")
        try:
            value = self.loader.construct_object(node)
        except (ValueError, KeyError, IndexError, AttributeError, OverflowError, yaml.YAMLError):
            return self.problem(path, f"not a value: {quoted(node.value)}", "quote it if it is text")
        if value is None:
            return self.problem(path, "has no value", "give it one, or leave the key out")
        return self.expanded(value, path) if isinstance(value, str) else value

    def expanded(self, text: str, path: Path) -> object:
        try:
            value = expand(text, self.env)
        except Unexpanded as error:
            return self.problem(path, error.what, error.hint)
        if has_user_info(value):
            return self.problem(path, "expands to a URL with user info, which holds a secret", NO_SECRETS)
        return value

    def problem(self, path: Path, what: str, hint: str) -> str:
        """Record a problem, and return an empty text in place of the value."""
        self.doc.found.append(ConfigProblem(path, what, hint))
        return ""


def _stands_empty(node: yaml.Node, key: str, path: Path) -> bool:
    nothing = isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"
    return nothing and key in (INNER_BLOCKS if path else TOP_BLOCKS)
