"""Finds the operation for a method and a path, in a tree of path segments. A literal segment wins over a parameter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kith.api.operations import Operation
from kith.core.errors import MethodNotAllowed, NotFound


class _Node:
    """The operations of one path, and the segments that may follow."""

    __slots__ = ("literals", "operations", "parameter")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.operations: dict[str, Operation] = {}


class Routes:
    """The operations, found by path."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root = _Node()
        for operation in operations:
            node = self._root
            for segment in operation.path.split("/")[1:]:
                if segment.startswith("{"):
                    node.parameter = node.parameter or _Node()
                    node = node.parameter
                else:
                    node = node.literals.setdefault(segment, _Node())
            if operation.spec.method in node.operations:
                raise TypeError(f"{operation.spec.method} {operation.path} stands in the table twice")
            node.operations[operation.spec.method] = operation

    def find(self, method: str, path: str) -> tuple[Operation, list[str]]:
        """The operation, and the path segments that are its parameters. NotFound; MethodNotAllowed."""
        node, values = self._match(path)
        operation = node.operations.get("GET" if method == "HEAD" else method)
        if operation is None or (method == "HEAD" and operation.spec.streams):
            allow = ", ".join(self._methods(node))
            raise MethodNotAllowed(f"{path} takes {allow}; see /docs", allow=allow)
        return operation, values

    def methods(self, path: str) -> list[str]:
        """The methods of a path, including HEAD and OPTIONS. NotFound."""
        return self._methods(self._match(path)[0])

    def _methods(self, node: _Node) -> list[str]:
        read = node.operations.get("GET")
        head = () if read is None or read.spec.streams else ("HEAD",)
        return sorted({*node.operations, *head, "OPTIONS"})

    def _match(self, path: str) -> tuple[_Node, list[str]]:
        segments = path.rstrip("/").split("/")[1:]
        matched = _match_simple(self._root, segments)
        if matched is None:
            values: list[str] = []
            node = _match_backtracking(self._root, segments, 0, values)
            if node is None:
                raise NotFound(f"there is nothing at {path}; the API is under /api/v1, see /docs")
            matched = node, values
        return matched


def _match_simple(node: _Node, segments: Sequence[str]) -> tuple[_Node, list[str]] | None:
    """Match without backtracking, which is right for nearly every path."""
    values = []
    for segment in segments:
        following = node.literals.get(segment)
        if following is None:
            following = node.parameter
            if following is None or not segment:
                return None
            values.append(segment)
        node = following
    return (node, values) if node.operations else None


def _match_backtracking(node: _Node, segments: Sequence[str], index: int, values: list[str]) -> _Node | None:
    """The node for the segments from `index` on, with backtracking; collects parameters in `values`."""
    if index == len(segments):
        return node if node.operations else None
    literal = node.literals.get(segments[index])
    if literal is not None and (matched := _match_backtracking(literal, segments, index + 1, values)) is not None:
        return matched
    if node.parameter is None or not segments[index]:
        return None
    values.append(segments[index])
    matched = _match_backtracking(node.parameter, segments, index + 1, values)
    if matched is None:
        values.pop()
    return matched
