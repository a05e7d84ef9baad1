"""Shortlists: learned as a plain loop learns them; a sentence uses its own words and no other, whatever the batch."""

import itertools
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import kit
from kit import save_untrained
from qkv.convert.native import write
from qkv.data import Rows, RowsOnDisk, write_rows
from qkv.decoding import Search, beam_search, padded
from qkv.decoding.greedy import greedy
from qkv.decoding.translator import longest_targets
from qkv.engines.native.library import Native, is_built
from qkv.engines.native.writer import NativeWriter
from qkv.engines.shortlist import FILE, ROUNDS, Shortlist, Shortlisted, lexicon, load, make_shortlist, save
from qkv.errors import InputError
from qkv.models import Transformer
from qkv.opening import load_translator
from qkv.text.tokenizer import BOS, EOS, UNK, Tokenizer

needs_engine = pytest.mark.skipif(not is_built(), reason="the native engine is not built")
WORDS = 20  # of the trained model of conftest.py
PAIRS = [("two dogs play", "zwei Hunde spielen"), ("two men", "zwei Männer"), ("men play", "Männer spielen"),
         ("dogs", "Hunde"), ("two dogs", "zwei Hunde"), ("snow", "Schnee")]  # fmt: skip
Lists = dict[int, list[int]]


def shortlist(frequent: list[int], lists: Lists, size: int = WORDS) -> Shortlist:
    rows = [lists.get(word, []) for word in range(size)]
    starts = np.cumsum([0] + [len(row) for row in rows])
    ids = [number for row in rows for number in row]
    return Shortlist(
        torch.tensor(sorted({*range(UNK + 1), *frequent})), torch.from_numpy(starts), torch.tensor(ids).long()
    )


def allowed(frequent: list[int], lists: Lists, source: list[int]) -> set[int]:
    """What `Shortlist.of` should find, by its description."""
    return {*range(UNK + 1), *frequent, *source, *(number for word in source for number in lists.get(word, []))}


def random_lists(seed: int, each: int = 3) -> Lists:
    rng = np.random.default_rng(seed)
    return {word: rng.choice(np.arange(4, WORDS), each, replace=False).tolist() for word in range(4, WORDS)}


sentences = st.lists(st.lists(st.integers(4, WORDS - 1), max_size=6), min_size=1, max_size=5)


@given(sentences, st.dictionaries(st.integers(4, WORDS - 1), st.lists(st.integers(4, WORDS - 1), max_size=4)),
       st.lists(st.integers(4, WORDS - 1), max_size=3))  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_each_sentence_may_use_its_own_list(sources: list[list[int]], lists: Lists, frequent: list[int]) -> None:
    ids, may = shortlist(frequent, lists).of(padded(sources))
    expected = [allowed(frequent, lists, source) for source in sources]
    assert ids.tolist() == sorted(set.union(*expected))
    assert [set(ids[row].tolist()) for row in may] == expected


# -- decoding --------------------------------------------------------------------------------------------------------


class Masked:
    """The plain way: all logits of the model as it is, and -inf for what a sentence may not say."""

    def __init__(self, model: Transformer, frequent: list[int], lists: Lists) -> None:
        self.model, self.frequent, self.lists = model, frequent, lists

    def start(self, src: Tensor) -> tuple[Tensor, "Masked"]:
        first, self.state = self.model.start(src)
        self.may = torch.zeros(len(src), self.model.config.vocab_size, dtype=torch.bool)
        for row, source in enumerate(src.tolist()):
            self.may[row, list(allowed(self.frequent, self.lists, [word for word in source if word > UNK]))] = True
        return first, self

    def reorder(self, rows: Tensor) -> None:
        self.state.reorder(rows)
        self.may = self.may[rows]

    def step(self, tokens: Tensor, state: "Masked") -> Tensor:
        return self.model.step(tokens, self.state).masked_fill(~self.may, -torch.inf)


@pytest.fixture
def given_ids(sources: list[list[int]]) -> list[list[int]]:
    return [row[:-1] for row in sources]


def native(model: Transformer, place: Path, bits: int) -> NativeWriter:
    write(place / "model.qkv", model, bits=bits)
    return NativeWriter.of(model, Native(place / "model.qkv"))


@pytest.fixture(params=[8, 16, 32])
def engine(request: pytest.FixtureRequest, model: Transformer, tmp_path: Path) -> NativeWriter:
    return native(model, tmp_path, request.param)


@needs_engine
@pytest.mark.parametrize("seed", [1, 2])
def test_searches_find_what_masked_logits_of_the_whole_vocabulary_give(
    model: Transformer, given_ids: list[list[int]], seed: int, tmp_path: Path
) -> None:
    lists, frequent = random_lists(seed), [5, 9]
    short = Shortlisted(native(model, tmp_path, 32), shortlist(frequent, lists))
    plain = Masked(model, frequent, lists)
    with_given = Masked(model, [*frequent, 11, 6], lists)  # what a text begins with is a word that it may use
    src, limits = padded(given_ids), longest_targets(given_ids, model.config.max_length)
    for one, other in (
        ([some[0] for some in short.decode(given_ids, limits, Search(beam=1))], greedy(plain, src, limits)),
        ([some[0] for some in short.decode(given_ids, limits, Search(beam=4))],
         [some[0] for some in beam_search(plain, src, limits, beam=4, alpha=1.0)]),
        ([some[0] for some in short.decode(given_ids, limits, Search(beam=4, no_repeat=2))],
         [some[0] for some in beam_search(plain, src, limits, beam=4, alpha=1.0, no_repeat=2)]),
        ([some[0] for some in short.decode(given_ids, limits, Search(beam=4, prefix=(11, 6, 11)))],
         [some[0] for some in beam_search(with_given, src, limits, beam=4, alpha=1.0, prefix=[11, 6, 11])]),
    ):  # fmt: skip
        assert [h.tokens for h in one] == [h.tokens for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


@needs_engine
def test_every_hypothesis_of_a_tiny_vocabulary_is_weighed(
    make_model: Callable[..., Transformer], tmp_path: Path
) -> None:
    """Against all sequences of up to three of the allowed words, by the model's own forward pass."""
    model = make_model(9, end=1.0)
    lists, source = {5: [6], 6: [8]}, [5]
    words = sorted(allowed([], lists, source) - {0, 1, 2, 3})
    assert words == [5, 6]
    every = [[], *([a] for a in words), *([a, b] for a in words for b in words)]
    banned = [number for number in range(9) if number not in (EOS, *words)]
    totals = {}
    for tokens in every:
        logits = model(padded([source]), torch.tensor([[1, *tokens]])).logits[0].detach()
        log_p = logits.index_fill(1, torch.tensor(banned), -torch.inf).log_softmax(-1)
        totals[tuple(tokens)] = sum(float(log_p[i, word]) for i, word in enumerate([*tokens, EOS]))
    engine = Shortlisted(native(model, tmp_path, 32), shortlist([], lists, 9))
    found = engine.decode([source], [51], Search(beam=30, n_best=30, alpha=0.0))[0]
    weighed = {tuple(h.tokens): h.log_probability for h in found}
    assert all(weighed[tokens] == pytest.approx(total, abs=1e-4) for tokens, total in totals.items())


@needs_engine
def test_a_list_of_all_words_changes_nothing(engine: NativeWriter, given_ids: list[list[int]]) -> None:
    short = Shortlisted(engine, shortlist(list(range(WORDS)), {}))
    for how in (Search(beam=1), Search(beam=4, n_best=3), Search(sampling=True, n_best=2, seed=3)):
        exact, listed = (e.decode(given_ids, [20] * len(given_ids), how) for e in (engine, short))
        assert [[h.tokens for h in some] for some in listed] == [[h.tokens for h in some] for some in exact]


@needs_engine
def test_a_sentence_does_not_depend_on_its_neighbours(engine: NativeWriter, given_ids: list[list[int]]) -> None:
    short = Shortlisted(engine, shortlist([7], random_lists(3)))
    for beam in (1, 4):
        together = short.decode(given_ids, [20] * len(given_ids), Search(beam=beam))
        alone = [short.decode([source], [20], Search(beam=beam))[0] for source in given_ids]
        assert [some[0].tokens for some in together] == [some[0].tokens for some in alone]
        assert [some[0].score for some in together] == pytest.approx([some[0].score for some in alone], abs=1e-4)


@needs_engine
def test_every_word_of_the_list_and_no_other_can_appear(engine: NativeWriter) -> None:
    lists, sources = {6: [11, 12], 7: [15]}, [[6], [7, 7]]
    short = Shortlisted(engine, shortlist([9], lists))
    drawn = short.decode(sources, [50, 50], Search(sampling=True, n_best=60, temperature=9.0))
    for source, some in zip(sources, drawn, strict=True):
        seen = {token for hypothesis in some for token in hypothesis.tokens}
        assert seen == allowed([9], lists, source) - set(range(UNK + 1))


# -- making one ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return kit.tokenizer(*itertools.chain(*PAIRS), size=340)


@pytest.fixture(scope="module")
def corpus(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    place = tmp_path_factory.mktemp("data") / "train"
    rows = [([*tokenizer.encode(a), EOS], [BOS, *tokenizer.encode(b), EOS]) for a, b in PAIRS]
    sizes = {"vocab_size": len(tokenizer), "fingerprint": tokenizer.fingerprint, "count": len(rows)}
    write_rows(place, rows, columns=2, shard_rows=4, **sizes)
    return RowsOnDisk.open(place, tokenizer.fingerprint)


def model_1(pairs: list[tuple[list[int], list[int]]]) -> dict[tuple[int, int], float]:
    """Brown et al. 1993, model 1, as the paper describes it: p(target | source), flat at first."""
    p: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(ROUNDS):
        counts: dict[tuple[int, int], float] = defaultdict(float)
        totals: dict[int, float] = defaultdict(float)
        for source, target in pairs:
            for t in target:
                whole = sum(p[s, t] for s in source)
                for s in source:
                    counts[s, t] += p[s, t] / whole
                    totals[s] += p[s, t] / whole
        p = defaultdict(float, {(s, t): count / totals[s] for (s, t), count in counts.items()})
    return dict(p)


@pytest.mark.parametrize("at_once", [1, 30, 10**6])
def test_the_lexicon_is_that_of_model_1(
    corpus: Rows, tokenizer: Tokenizer, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qkv.engines.shortlist.CELLS", at_once)
    assert corpus.shards > 1
    expected = model_1([([*tokenizer.encode(source), EOS], tokenizer.encode(target)) for source, target in PAIRS])
    found = {(int(s), int(t)): float(p) for s, t, p in zip(*lexicon(corpus, len(tokenizer)), strict=True)}
    assert found == pytest.approx(expected)


def test_a_list_has_the_frequent_words_and_the_likeliest_others(corpus: Rows, tokenizer: Tokenizer) -> None:
    made = make_shortlist(corpus, len(tokenizer), frequent=2, each=1)
    counts: dict[int, int] = defaultdict(int)
    pairs = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in PAIRS]
    for _, target in pairs:
        for word in target:
            counts[word] += 1
    p = model_1([([*source, EOS], target) for source, target in pairs])
    frequent = made.frequent.tolist()
    assert frequent[:4] == [0, 1, 2, 3]
    assert len(frequent) == 6
    assert sorted(counts[word] for word in frequent[4:]) == sorted(counts.values())[-2:]
    for word in {word for source, _ in pairs for word in source}:
        rest = {t: value for (s, t), value in p.items() if s == word and t not in frequent}
        listed = made.ids[made.starts[word] : made.starts[word + 1]].tolist()
        assert len(listed) == min(1, len(rest))
        assert all(rest[t] == pytest.approx(max(rest.values())) for t in listed)


def test_only_so_much_is_read(corpus: Rows, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = len(lexicon(corpus, len(tokenizer))[0])
    monkeypatch.setattr("qkv.engines.shortlist.MOST", 10)
    assert 0 < len(lexicon(corpus, len(tokenizer))[0]) < whole


@pytest.mark.parametrize(("frequent", "each"), [(0, 5), (5, -1)])
def test_impossible_sizes_are_refused(corpus: Rows, tokenizer: Tokenizer, frequent: int, each: int) -> None:
    with pytest.raises(InputError, match="give 1 or more frequent words and 0 or more for each"):
        make_shortlist(corpus, len(tokenizer), frequent=frequent, each=each)


# -- the file --------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path, tokenizer: Tokenizer, corpus: Rows) -> Path:
    save_untrained(tmp_path, "transformer", tokenizer, {"source": "en", "target": "de"}, max_length=40)
    save(tmp_path, make_shortlist(corpus, len(tokenizer), frequent=3, each=2), tokenizer)
    return tmp_path


@needs_engine
def test_a_folder_keeps_it_and_a_name_chooses_it(saved: Path, corpus: Rows, tokenizer: Tokenizer) -> None:
    made, read = make_shortlist(corpus, len(tokenizer), frequent=3, each=2), load(saved, tokenizer)
    assert all(torch.equal(part, vars(read)[name]) for name, part in vars(made).items())
    translator = load_translator(saved, engine="float32+shortlist")
    assert translator.engine.name == "float32+shortlist"
    source = tokenizer.encode("two dogs")
    words = set(made.of(padded([source]))[0].tolist())
    written = tokenizer.encode(translator.translate("two dogs", beam=1).text)
    assert set(translator.engine.decode([source], [39], Search(beam=1))[0][0].tokens) <= words
    assert written


@needs_engine
@pytest.mark.parametrize(
    ("spoil", "engine", "message"),
    [
        (lambda path: (path / FILE).unlink(), "float32", "has no shortlist.safetensors; make it with: qkv shortlist"),
        (
            lambda path: (path / FILE).write_bytes(b"nonsense" * 9),
            "float32",
            "is damaged .* make it with: qkv shortlist",
        ),
        (lambda path: other_words(path), "float32", "was made for another vocabulary; make it with: qkv shortlist"),
        (lambda path: None, "plain", r"engine plain has no shortlist; use float32\+shortlist or int8\+shortlist"),
        (lambda path: None, "fast", r"unknown engine 'fast\+shortlist'"),
    ],
)
def test_what_does_not_fit_is_refused(saved: Path, spoil: Callable[[Path], None], engine: str, message: str) -> None:
    spoil(saved)
    with pytest.raises(InputError, match=message):
        load_translator(saved, engine=f"{engine}+shortlist")


def other_words(path: Path) -> None:
    other = kit.tokenizer("quite other words than those")
    save(path, Shortlist(torch.arange(4), torch.zeros(len(other) + 1, dtype=torch.long), torch.empty(0).long()), other)
