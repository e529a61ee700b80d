"""The nodes of a syntax tree, in the order of the text; several times as fast as `ast.walk`."""

import ast
from collections.abc import Iterator


def nodes_of(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the node and all nodes below it."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(children_of(node))


def children_of(node: ast.AST) -> list[ast.AST]:
    """Return the nodes directly below a node, without marks of loading, storing and the like."""
    children: list[ast.AST] = []
    for value in vars(node).values():
        if isinstance(value, list):
            children += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
            children.append(value)
    return children
