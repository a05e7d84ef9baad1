"""Puts the marks of a source sentence into its translation, by word alignment.

Each mark comes exactly once, and what is nested stays nested. A pair of tags goes around the run of target words that
has the most links into the pair and the fewest out of it; a mark between words goes where the fewest links cross it.
"""

import re
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from qkv.documents.segment import Mark, Parts, replaced

Marks = list[tuple[int, Mark]]  # each with its offset in the text, in order
Links = list[tuple[int, int]]  # (source, target), counted from 0
MOST = 10**7  # marks times what each is compared with, in one sentence: some seconds
EVENLY = "has too many tags to look for the words of each: they are spread over it evenly, in their order"
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
    sides = Sides(source, target, links)
    if sides.have_too_many(marks):
        return replaced(target, sides.evenly(marks))
    nodes = tree(marks, source)
    sides.settle(nodes, 0, len(source), 0, len(sides.target))
    return replaced(target, written(sides.in_order(nodes), target))


def is_even(source: str, target: str, marks: Marks, links: Links) -> bool:
    """Whether there are too many marks to look for the words of each, which is to be said."""
    return Sides(source, target, links).have_too_many(marks)


def tree(marks: Marks, source: str) -> list[Node]:
    """Marks as nested nodes. A half whose other half is elsewhere reaches to that end of the text."""
    root: list[Node] = []
    stack: list[Node] = []
    for at, (offset, mark) in enumerate(marks):
        level = stack[-1].inside if stack else root
        if mark.kind == "open":
            level.append(Node(offset, len(source), mark, None))
            stack.append(level[-1])
        elif mark.kind == "close" and stack and stack[-1].open and stack[-1].open.pair == mark.pair:
            stack[-1].end, stack[-1].close = offset, mark
            stack.pop()
        elif mark.kind == "close" and not stack:
            root = [Node(0, offset, None, mark, root)]
        else:
            follows = at > 0 and marks[at - 1][0] == offset
            leads = at + 1 < len(marks) and marks[at + 1][0] == offset
            before = mark.kind != "space" and source[offset - 1 : offset].isspace() and not follows
            after = mark.kind != "space" and source[offset : offset + 1].isspace() and not leads
            level.append(Node(offset, offset, mark, None, is_point=True, before=before, after=after))
    return root


Level = tuple[list[Node], int, int, int, int]  # nodes side by side, and where they stand in source and target


class Sides:
    """The tokens of both sentences, and the links between them."""

    def __init__(self, source: str, target: str, links: Links) -> None:
        self.source, self.target = ([match.span() for match in TOKENS.finditer(text)] for text in (source, target))
        self.middles = [(start + end) / 2 for start, end in self.source]
        self.ends = [0, *(end for _, end in self.target)]  # by how many target tokens are before
        words, others = by_word(source, self.source), by_word(target, self.target)
        self.texts = source, target
        self.linked = [(words[i], others[j]) for i, j in links if i < len(words) and j < len(others)]

    def have_too_many(self, marks: Marks) -> bool:
        """Whether marks, and tokens of the words that are linked, are more than can be compared one by one."""
        pairs = sum(len(ours) * len(theirs) for ours, theirs in self.linked)
        return len(marks) * (len(marks) + pairs + len(self.source) + len(self.target)) > MOST

    @cached_property
    def links(self) -> Links:
        """Between tokens."""
        source, target = self.texts
        return [
            (a, b)
            for ours, theirs in self.linked for a in ours for b in theirs
            if are_alike(source[slice(*self.source[a])], target[slice(*self.target[b])])
        ]  # fmt: skip

    def settle(self, nodes: list[Node], start: int, end: int, low: int, high: int) -> None:
        """Give each node its target tokens within low..high, and then what it holds; siblings do not overlap."""
        todo = [(nodes, start, end, low, high)]
        while todo:  # not by recursion: tags may be nested as deep as anybody likes
            todo += self.settle_level(*todo.pop())

    def settle_level(self, nodes: list[Node], start: int, end: int, low: int, high: int) -> list[Level]:
        """Nodes that stand side by side; what there is to settle inside of them."""
        for node in nodes:
            node.low, node.high = self.span(node, start, end, low, high)
        edge = low
        pairs = [(place, node) for place, node in enumerate(nodes) if not node.is_point]
        for _, node in sorted(pairs, key=lambda p: (p[1].open is not None, p[1].close is None, p[1].low + p[1].high)):
            node.low = max(node.low, edge)
            node.high = edge = max(node.high, node.low)
        for place, node in enumerate(nodes):
            for other_place, other in pairs if node.is_point else ():
                if other.low < node.low < other.high:
                    node.low = node.high = other.low if place < other_place else other.high
        nodes.sort(key=lambda node: node.low + node.high)
        return [(node.inside, node.start, node.end, node.low, node.high) for node in nodes if node.inside]

    def span(self, node: Node, start: int, end: int, low: int, high: int) -> tuple[int, int]:
        own: Sequence[int] = range(self.before(node.start), self.before(node.end))
        if not own and node.start < node.end:  # a part of a word; the whole of it, then
            own = [i for i, (a, b) in enumerate(self.source) if a < node.end and b > node.start]
        if node.open is None:
            return low, self.cut(node.end, low, high)
        if node.close is None and not node.is_point:
            return self.cut(node.start, low, high), high
        if not own:
            return (self.cut(node.start, low, high),) * 2
        if len(own) == self.before(end) - self.before(start):
            return low, high
        if found := self.best_run(own, low, high):
            return found
        first, last = self.cut(node.start, low, high), self.cut(node.end, low, high)
        return min(first, max(low, high - 1)), max(last, min(first + 1, high))

    def before(self, offset: int) -> int:
        """How many of the source's tokens are before this offset, at least by half."""
        return bisect_left(self.middles, offset)

    def votes(self, own: Container[int]) -> list[int]:
        """Of each target token, the links to `own` source tokens less those to others."""
        found = [0] * len(self.target)
        for i, j in self.links:
            found[j] += 1 if i in own else -1
        return found

    def best_run(self, own: Container[int], low: int, high: int) -> tuple[int, int] | None:
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
        before = self.before(offset)
        if before in (0, len(self.source)):
            return low if before == 0 else high
        votes = self.votes(range(before, len(self.source)))
        crossing = list(accumulate(votes[low:high], initial=0))  # how many more, as the border moves to the right
        return low + crossing.index(min(crossing))

    def in_order(self, nodes: list[Node]) -> Iterator[tuple[int, Node, Mark]]:
        """The marks in the order of the target, each with the offset that it stands at, or after."""
        todo: list[Node | tuple[int, Node, Mark]] = [*reversed(nodes)]
        while todo:
            node = todo.pop()
            if isinstance(node, tuple):
                yield node
                continue
            if node.open:  # of words, after the space before the first
                yield self.target[node.low][0] if node.low < node.high else self.ends[node.low], node, node.open
            if node.close:
                todo.append((self.ends[node.high], node, node.close))
            todo += node.inside[::-1]

    def evenly(self, marks: Marks) -> Iterator[tuple[int, int, Mark]]:
        """Marks that are too many to vote on every token: in their order, each after as large a part of the words."""
        at = 0
        for offset, mark in marks:
            border = self.before(offset) * len(self.target) // max(1, len(self.source))
            is_before_word = mark.kind == "open" and border < len(self.target)
            at = max(at, self.target[border][0] if is_before_word else self.ends[border])
            yield at, at, mark


def by_word(text: str, tokens: list[tuple[int, int]]) -> list[list[int]]:
    """The numbers of the tokens in each word."""
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    words: list[list[int]] = [[] for _ in ends]
    for number, (start, _) in enumerate(tokens):
        words[bisect_left(ends, start + 1)].append(number)
    return words


def are_alike(ours: str, theirs: str) -> bool:
    """Links between words are links between tokens of theirs: words to words, a punctuation mark to its like."""
    return ours == theirs or (ours[0].isalnum() and theirs[0].isalnum())


def in_proportion(source: str, target: str) -> Links:
    """Links for a translator that has no attention to read them from: word i of n to word i m / n of m."""
    n, m = len(source.split()), len(target.split())
    return sorted({(i, i * m // n) for i in range(n) if m} | {(j * n // m, j) for j in range(m) if n})


def written(marks: Iterable[tuple[int, Node, Mark]], target: str) -> Iterator[tuple[int, int, str | Mark]]:
    """What comes into the target, from where to where; white space stays outside of pairs."""
    at = 0
    for offset, node, mark in marks:
        at = max(at, offset)
        if not node.is_point:
            yield at, at, mark
            continue
        # With white space on the sides that had it in the source, if there is more text on that side.
        following = target[at:]
        gap = following[: len(following) - len(following.lstrip())]
        if at and (node.before or not (node.after or mark.kind == "space")):
            yield at, at, gap or " " * node.before
        yield at, at + len(gap), mark
        at += len(gap)
        if node.after and following:
            yield at, at, gap or " "
