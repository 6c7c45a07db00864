"""Fast looks at the syntax of many modules: ``ast.walk`` takes twice as long, and rules look at few kinds of nodes."""

import ast
import itertools
from collections.abc import Iterator
from typing import Any, TypeVar

LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
"""Nodes in which no other nodes are. They are half of all, and left out."""
N = TypeVar("N", bound=ast.AST)


class Nodes:
    """The nodes of some kinds, by kind, in no order."""

    def __init__(self, tree: ast.AST, *kinds: type[ast.AST]) -> None:
        self._by_kind: dict[type[ast.AST], list[Any]] = {kind: [] for kind in kinds}
        left = [tree]
        while left:
            node = left.pop()
            its = self._by_kind.get(type(node))
            if its is not None:
                its.append(node)
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    left += [each for each in value if isinstance(each, ast.AST) and not isinstance(each, LEAVES)]
                elif isinstance(value, ast.AST) and not isinstance(value, LEAVES):
                    left.append(value)

    def of(self, kind: type[N]) -> list[N]:
        return self._by_kind[kind]

    def all(self) -> Iterator[ast.AST]:
        return itertools.chain.from_iterable(self._by_kind.values())
