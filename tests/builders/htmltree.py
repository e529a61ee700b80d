"""A page as a tree that a test can ask: strict about what is left open, and about attributes given twice."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "input", "br", "hr", "base", "source", "embed", "area", "col", "track", "wbr"}


@dataclass
class Node:
    tag: str
    attrs: dict[str, str] = field(default_factory=dict)
    children: list["Node | str"] = field(default_factory=list)

    def walk(self) -> Iterator["Node"]:
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.walk()

    def all(self, tag: str = "", **attrs: str) -> list["Node"]:
        """The nodes below with that tag and those attributes; `cls` is one of the classes."""
        return [node for node in self.walk() if (not tag or node.tag == tag) and node.fits(attrs)]

    def one(self, tag: str = "", **attrs: str) -> "Node":
        found = self.all(tag, **attrs)
        assert len(found) == 1, f"{len(found)} of <{tag} {attrs}>"
        return found[0]

    def fits(self, attrs: dict[str, str]) -> bool:
        given = {**self.attrs, "cls": ""}
        return all(
            value in self.attrs.get("class", "").split() if name == "cls" else given.get(name) == value
            for name, value in attrs.items()
        )

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def full_text(self) -> str:
        """The text with white space folded, as a reader sees it."""
        return " ".join(self.text.split())


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("#root")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute twice in <{tag} {attrs}>"
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(html: str) -> Node:
    builder = _Builder()
    builder.feed(html)
    builder.close()
    assert builder.open == [builder.root], f"left open: {[node.tag for node in builder.open]}"
    return builder.root
