"""Puts the marks of a source sentence into its translation, by word alignment.

Each mark comes exactly once, and what is nested stays nested. A pair of tags goes around the run of target words that
has the most links into the pair and the fewest out of it; a mark between words goes where the fewest links cross it.
"""

import re
from bisect import bisect_left
from collections.abc import Container
from dataclasses import dataclass, field
from itertools import accumulate

from qkv.documents.segment import Mark, Parts

Marks = list[tuple[int, Mark]]  # each with its offset in the text, in order
Links = list[tuple[int, int]]  # (source, target), counted from 0
TOKENS = re.compile(r"\w+(?:[-'’.,:/]\w+)*|[^\w\s]+")


@dataclass
class Node:
    """A pair of marks with what it holds, or one half of a pair, or a mark between words."""

    start: int  # in the source text
    end: int
    open: Mark | None
    close: Mark | None
    inside: list["Node"] = field(default_factory=list)
    is_point: bool = False
    low: int = 0  # in the target: from this token ...
    high: int = 0  # ... up to this one
    before: bool = False  # of a point: whether white space stood on either side
    after: bool = False


def place(source: str, target: str, marks: Marks, links: Links) -> Parts:
    """The target with the marks of the source; `links` are between words that are parted by spaces."""
    if not marks:
        return [target]
    nodes = tree(marks, source)
    sides = Sides(source, target, links)
    sides.settle(nodes, 0, len(source), 0, len(sides.target))
    writer = Writer(target, sides.target)
    writer.write(nodes, 0, len(sides.target))
    return writer.done()


def tree(marks: Marks, source: str) -> list[Node]:
    """Marks as nested nodes. A half whose other half is elsewhere reaches to that end of the text."""
    root: list[Node] = []
    stack: list[Node] = []
    for at, (offset, mark) in enumerate(marks):
        level = stack[-1].inside if stack else root
        if mark.kind == "open":
            node = Node(offset, len(source), mark, None)
            level.append(node)
            stack.append(node)
        elif mark.kind == "close" and stack and stack[-1].open and stack[-1].open.pair == mark.pair:
            stack[-1].end, stack[-1].close = offset, mark
            stack.pop()
        elif mark.kind == "close" and not stack:
            root = [Node(0, offset, None, mark, root)]
        else:
            node = Node(offset, offset, mark, None, is_point=True)
            follows = at > 0 and marks[at - 1][0] == offset
            leads = at + 1 < len(marks) and marks[at + 1][0] == offset
            node.before = mark.kind != "space" and source[offset - 1 : offset].isspace() and not follows
            node.after = mark.kind != "space" and source[offset : offset + 1].isspace() and not leads
            level.append(node)
    return root


class Sides:
    """The tokens of both sentences, and the links between them."""

    def __init__(self, source: str, target: str, links: Links) -> None:
        self.source, self.target = ([match.span() for match in TOKENS.finditer(text)] for text in (source, target))
        self.links = token_links((source, self.source), (target, self.target), links)

    def settle(self, nodes: list[Node], start: int, end: int, low: int, high: int) -> None:
        """Give each node its target tokens within low..high, and then what it holds; siblings do not overlap."""
        for node in nodes:
            node.low, node.high = self.span(node, start, end, low, high)
        edge = low
        pairs = [node for node in nodes if not node.is_point]
        for node in sorted(pairs, key=lambda n: (n.open is not None, n.close is None, n.low + n.high)):
            node.low = max(node.low, edge)
            node.high = edge = max(node.high, node.low)
        others = [(place, node) for place, node in enumerate(nodes) if not node.is_point]
        for place, node in enumerate(nodes):
            if node.is_point:
                for other_place, other in others:
                    if other.low < node.low < other.high:
                        node.low = node.high = other.low if place < other_place else other.high
            self.settle(node.inside, node.start, node.end, node.low, node.high)
        order = {id(node): place for place, node in enumerate(nodes)}
        nodes.sort(key=lambda n: (n.low + n.high, order[id(n)]))

    def span(self, node: Node, start: int, end: int, low: int, high: int) -> tuple[int, int]:
        if node.is_point:
            return (self.cut(node.start, low, high),) * 2
        if node.open is None:
            return low, self.cut(node.end, low, high)
        if node.close is None:
            return self.cut(node.start, low, high), high
        own = [i for i, (a, b) in enumerate(self.source) if node.start <= (a + b) / 2 < node.end]
        if not own and node.start < node.end:  # a part of a word; the whole of it, then
            own = [i for i, (a, b) in enumerate(self.source) if a < node.end and b > node.start]
        if not own:
            return (self.cut(node.start, low, high),) * 2
        parents = [i for i, (a, b) in enumerate(self.source) if start <= (a + b) / 2 < end]
        if len(own) == len(parents):
            return low, high
        found = self.best_run(set(own), low, high)
        if found is None:
            first, last = self.cut(node.start, low, high), self.cut(node.end, low, high)
            found = (min(first, max(low, high - 1)), max(last, min(first + 1, high)))
        return found

    def votes(self, own: Container[int]) -> list[int]:
        """Of each target token, the links to `own` source tokens less those to others."""
        found = [0] * len(self.target)
        for i, j in self.links:
            found[j] += 1 if i in own else -1
        return found

    def best_run(self, own: set[int], low: int, high: int) -> tuple[int, int] | None:
        """The run of target tokens with the largest sum of votes for `own` (Kadane)."""
        votes = self.votes(own)
        best, found = 0, None
        total, begin = 0, low
        for j in range(low, high):
            if total <= 0:
                total, begin = 0, j
            total += votes[j]
            if total > best:
                best, found = total, (begin, j + 1)
        return found

    def cut(self, offset: int, low: int, high: int) -> int:
        """The border of target tokens that the fewest links cross, when the source is cut at this offset."""
        before = bisect_left([(a + b) / 2 for a, b in self.source], offset)
        if before == 0:
            return low
        if before == len(self.source):
            return high
        votes = self.votes(range(before, len(self.source)))
        crossing = list(accumulate(votes[low:high], initial=0))  # how many more, as the border moves to the right
        return low + crossing.index(min(crossing))


def token_links(
    source: tuple[str, list[tuple[int, int]]], target: tuple[str, list[tuple[int, int]]], links: Links
) -> Links:
    """Links between words -> links between their tokens: words to words, a punctuation mark to its like."""
    sides = [by_word(*source), by_word(*target)]
    found = []
    for i, j in links:
        if i < len(sides[0]) and j < len(sides[1]):
            for a in sides[0][i]:
                for b in sides[1][j]:
                    ours, theirs = (text[slice(*spans[n])] for (text, spans), n in ((source, a), (target, b)))
                    if ours == theirs or (ours[0].isalnum() and theirs[0].isalnum()):
                        found.append((a, b))
    return found


def by_word(text: str, tokens: list[tuple[int, int]]) -> list[list[int]]:
    """The numbers of the tokens in each word."""
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    words: list[list[int]] = [[] for _ in ends]
    for number, (start, _) in enumerate(tokens):
        words[bisect_left(ends, start + 1)].append(number)
    return words


def in_proportion(source: str, target: str) -> Links:
    """Links for a translator that has no attention to read them from: word i of n to word i m / n of m."""
    n, m = len(source.split()), len(target.split())
    return sorted({(i, i * m // n) for i in range(n) if m} | {(j * n // m, j) for j in range(m) if n})


class Writer:
    """Target text and marks as parts; white space stays outside of pairs."""

    def __init__(self, text: str, tokens: list[tuple[int, int]]) -> None:
        self.text, self.tokens = text, tokens
        self.parts: Parts = []
        self.at = 0  # what is before this offset of the text is written

    def write(self, nodes: list[Node], low: int, high: int) -> None:
        """Nodes in the order of the target, and the tokens between them up to `high`."""
        for node in nodes:
            self.until(node.low)
            if node.is_point:
                self.point(node)
                continue
            if node.low < node.high and node.open:
                self.copy(self.tokens[node.low][0])  # the space before the first word
            self.mark(node.open)
            self.write(node.inside, node.low, node.high)
            self.until(node.high)
            self.mark(node.close)
        self.until(high)

    def until(self, token: int) -> None:
        if token:
            self.copy(self.tokens[token - 1][1])

    def copy(self, end: int) -> None:
        if end > self.at:
            self.parts.append(self.text[self.at : end])
            self.at = end

    def mark(self, mark: Mark | None) -> None:
        if mark:
            self.parts.append(mark)

    def point(self, node: Node) -> None:
        """With white space on the sides that had it in the source, if there is more text on that side."""
        following = self.text[self.at :]
        gap = following[: len(following) - len(following.lstrip())]
        glued = node.open is not None and node.open.kind == "space"
        if self.at and (node.before or not (node.after or glued)):
            self.parts.append(gap or " " * node.before)
        self.mark(node.open)
        if node.after and following:
            self.parts.append(gap or " ")
        self.at += len(gap)

    def done(self) -> Parts:
        self.copy(len(self.text))
        return [part for part in self.parts if part != ""]
