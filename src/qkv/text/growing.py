"""Growing a vocabulary: tokens of new text are added, and every old one keeps its id."""

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

import tokenizers

from qkv.text.kinds import BPE, BYTES, LONGEST_PIECE, ByteBPE, Tree, by_id, count_words, numbered, ranked

TokenPair = tuple[str, str]
LEAST = 2  # a letter or a pair that occurs once is no token


def grow(tree: Tree, kind: BPE | ByteBPE, texts: Iterable[str], size: int) -> Tree:
    """A tokenizer.json with at most `size` tokens: the most frequent pairs of tokens in the new text are merged, by
    merges that follow the old ones. Letters that had none get a token first, in at most half of the room; with bytes as
    letters there are no such."""
    words, letters = count_words(tree, texts)
    known, vocab = by_id(tree["model"]), tree["model"]["vocab"]
    new = [letter for letter in ranked(letters, []) if letter not in vocab and letters[letter] >= LEAST]
    tokens = known + new[: (size - len(known)) // 2]
    tree = {**tree, "model": {**tree["model"], "vocab": numbered(tokens)}}
    model = tokenizers.Tokenizer.from_str(json.dumps(tree)).model
    split = {word: [token.value for token in model.tokenize(word)] for word in words}
    longest = LONGEST_PIECE if isinstance(kind, BPE) else 0
    merges = learn_merges(split, words, taken=set(tokens), most=size - len(tokens), longest=longest)
    vocab = numbered(tokens + ["".join(pair) for pair in merges])
    added = [list(pair) for pair in merges]
    return {**tree, "model": {**tree["model"], "vocab": vocab, "merges": tree["model"]["merges"] + added}}


def learn_merges(
    split: dict[str, list[str]], counts: Counter[str], *, taken: set[str], most: int, longest: int
) -> list[TokenPair]:
    """Algorithm 1 of Sennrich et al. 2016: count the pairs of neighbours in all words, merge the most frequent one (of
    equal ones the first by spelling), and again. `split` has the tokens of each word, and is changed.

    Differs: no merge makes a token that is there already. So no merge can make way for one before it in the list, and
    words come apart by the whole list just as they do here.
    """
    pairs: Counter[TokenPair] = Counter()
    where: dict[TokenPair, set[str]] = {}
    for word, tokens in split.items():
        for pair in pairwise(tokens):
            pairs[pair] += counts[word]
            where.setdefault(pair, set()).add(word)
    borders = set(BYTES)  # of a letter without a token; the decoder knows no longer pieces of them
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)
    merges: list[TokenPair] = []
    while heap and len(merges) < most:
        count, pair = heapq.heappop(heap)
        if -count != pairs[pair]:  # it has changed since
            if pairs[pair] >= LEAST:
                heapq.heappush(heap, (-pairs[pair], pair))
            continue
        merged = "".join(pair)
        if -count < LEAST:
            break
        if merged in taken or len(merged) > (longest or len(merged)) or not borders.isdisjoint(pair):
            continue
        merges.append(pair)
        taken.add(merged)
        changed: set[TokenPair] = set()
        for word in where.pop(pair):
            for one, change in _merge(split[word], pair):
                pairs[one] += change * counts[word]
                if change > 0:
                    where.setdefault(one, set()).add(word)
                    changed.add(one)
        for one in changed:
            heapq.heappush(heap, (-pairs[one], one))
    return merges


def _merge(tokens: list[str], pair: TokenPair) -> Iterator[tuple[TokenPair, int]]:
    """Merge a pair wherever it stands in a word; the pairs that come (1) and go (-1) by that."""
    (first, second), merged, at = pair, "".join(pair), -1
    for _ in range(tokens.count(first)):
        try:
            at = tokens.index(first, at + 1)
        except ValueError:  # in "aaa", the merge took the second with the first
            return
        if tokens[at + 1 : at + 2] == [second]:
            tokens[at : at + 2] = [merged]
            yield pair, -1
            if at > 0:
                yield (tokens[at - 1], first), -1
                yield (tokens[at - 1], merged), 1
            if at + 1 < len(tokens):
                yield (second, tokens[at + 1]), -1
                yield (merged, tokens[at + 1]), 1
