"""A generator: what it writes is what a plain loop writes, beside any others, within the context and beyond it."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from kit import refused, stirred
from qkv import record_attention
from qkv.decoding import Generated, Generator, Plain, Search, beam_search, length_penalty
from qkv.decoding.generator import search_for
from qkv.decoding.plain import padded_left
from qkv.errors import InputError
from qkv.models import GPT2, GPT2Config
from qkv.text.tokenizer import BOS, EOS, PAD, RESERVED, UNK, Tokenizer

TEXTS = ["Once upon a time there was a cat.", "The dog ran in the park and the sun was warm", "Two cats sleep here."]
TOKENIZER = Tokenizer.train(TEXTS * 3, kind="byte_bpe", vocab_size=330)
BY_FALLBACK = Tokenizer.train(TEXTS * 3, vocab_size=330)  # in which bytes are tokens apart
CONTEXT = 24
PROMPTS = ["Once", "The dog ran in", "", "a cat sat in the park", "Two cats sleep here. Once upon", "sun"]


def random_gpt2(vocab_size: int, seed: int = 1, end: float = 0.0, **others: Any) -> GPT2:
    """With weights so large that it has clear choices; `end` is added to what the end of a text is worth."""
    torch.manual_seed(seed)
    sizes = {"d_model": 32, "n_heads": 2, "layers": 2, "max_length": CONTEXT, "dropout": 0.0}
    model = stirred(GPT2(GPT2Config(vocab_size=vocab_size, **(sizes | others))), 0.15).eval()
    with torch.no_grad():
        model.tokens.weight[EOS] += end * model.decoder.norm.bias / model.decoder.norm.bias.norm() ** 2
    return model


@pytest.fixture(scope="module")
def generator() -> Generator:
    return Generator(random_gpt2(len(TOKENIZER), end=2.0), TOKENIZER, {})


@torch.no_grad()
def next_log_p(model: GPT2, ids: list[int], *, may_end: bool = True) -> Tensor:
    """log p (V,) of what follows some tokens, all read at once."""
    logits = model(ids=torch.tensor([ids])).logits[0, -1]
    logits[[PAD, BOS, UNK] + ([] if may_end else [EOS])] = -torch.inf
    return logits.log_softmax(-1)


def from_scratch(model: GPT2, prompt: list[int], tokens: int, *, may_end: bool = True) -> tuple[list[int], float]:
    """Greedy, with no cache, no batch and no padding. The window is what is documented: when a text is longer than the
    context, its last half is kept."""
    window, written, total = list(prompt), [], 0.0
    while len(written) < tokens:
        if len(window) > CONTEXT:
            window = window[-(CONTEXT // 2) :]
        log_p = next_log_p(model, window, may_end=may_end)
        best = int(log_p.argmax())
        total += float(log_p[best])
        if best == EOS:
            break
        written.append(best)
        window.append(best)
    return written, total


def test_a_penalty_of_repetition_is_that_of_a_plain_loop(generator: Generator) -> None:
    for prompt in PROMPTS:
        window, written = TOKENIZER.encode(prompt) or [EOS], []
        for _ in range(6):
            with torch.no_grad():
                logits = generator.model(ids=torch.tensor([window + written])).logits[0, -1]
            for token in {*written}:
                logits[token] *= 1 / 1.5 if logits[token] > 0 else 1.5
            logits[[PAD, BOS, UNK, EOS]] = -torch.inf
            written.append(int(logits.argmax()))
        found = generator.generate(prompt, tokens=6, repetition_penalty=1.5, stop=False)
        assert found.continuation == TOKENIZER.decode(window + written)[len(TOKENIZER.decode(window)) :]


@pytest.mark.parametrize("beam", [1, 3])
def test_with_a_penalty_beyond_any_logit_no_token_comes_twice(generator: Generator, beam: int) -> None:
    sources, limits = [TOKENIZER.encode("Once"), TOKENIZER.encode("The dog")], [15, 9]
    how = Search(beam=beam, repetition_penalty=1e6, ends="never")
    for [found] in generator.engine.decode(sources, limits, how):
        assert len({*found.tokens}) == len(found.tokens) >= 9


class TestGreedy:
    def test_it_is_what_a_plain_loop_writes(self, generator: Generator) -> None:
        """Within the context and far beyond it, prompts of all lengths at once, one of them longer than the context."""
        prompts = [*PROMPTS, "the cat sat in the park. " * 6]
        ended, slid = set(), set()
        for tokens in (5, 60):
            for prompt, found in zip(prompts, generator.generate(prompts, tokens=tokens), strict=True):
                ids = TOKENIZER.encode(prompt) or [EOS]
                written, total = from_scratch(generator.model, ids, tokens)
                assert found.continuation == generator.continuation(ids, written)
                assert found.tokens == len(written)
                assert found.score == pytest.approx(total, abs=1e-3)
                assert found.ended == (len(written) < tokens)
                assert found.slid == (len(ids) + len(written) - (not found.ended) > CONTEXT)
                ended.add(found.ended)
                slid.add(found.slid)
        assert ended == slid == {True, False}

    def test_without_stops_it_never_ends(self, generator: Generator) -> None:
        for prompt in PROMPTS:
            found = generator.generate(prompt, tokens=40, stop=False)
            ids = TOKENIZER.encode(prompt) or [EOS]
            written, _ = from_scratch(generator.model, ids, 40, may_end=False)
            assert found.continuation == generator.continuation(ids, written)
            assert (found.tokens, found.ended) == (40, False)

    def test_one_text_one_answer_and_a_list_a_list(self, generator: Generator) -> None:
        one, several = generator.generate("Once"), generator.generate(["Once"])
        assert isinstance(one, Generated)
        assert several == [one]
        assert generator.generate([]) == []
        assert str(one) == one.text == "Once" + one.continuation
        assert one.prompt == "Once"
        assert one.alternatives[0] == (one.continuation, one.score)

    def test_it_says_that_the_beginning_was_forgotten(self, generator: Generator) -> None:
        short, long = (generator.generate("sun", tokens=tokens, stop=False) for tokens in (3, 60))
        assert (short.slid, long.slid) == (False, True)
        assert short.remarks() == []
        assert "longer than the model's context" in long.remarks()[0]


@pytest.mark.parametrize("how", [{}, {"beam": 3, "n_best": 2}, {"temperature": 1.3, "seed": 5, "n_best": 2}], ids=str)
@pytest.mark.parametrize("tokens", [8, 50])
def test_prompts_do_not_depend_on_those_beside_them(generator: Generator, how: dict[str, Any], tokens: int) -> None:
    """Of any lengths, in any number; what is drawn depends on the number of a text, so that it keeps its place."""
    together = generator.generate(PROMPTS, tokens=tokens, **how)
    for i, prompt in enumerate(PROMPTS):
        beside = ["the park and the sun"] * i + [prompt, "cat " * 30]
        found = generator.generate(beside, tokens=tokens, **how)[i]
        assert [one.text for one in found.alternatives] == [one.text for one in together[i].alternatives]
        assert found.score == pytest.approx(together[i].score, abs=1e-3)


def test_a_wide_beam_finds_every_text_that_is_cut_or_ends() -> None:
    """Three words, at most three tokens: 1 + 3 + 9 that end and 27 that are cut, each at its own price."""
    model, prompt = random_gpt2(7, max_length=8), [4, 6]
    every: dict[tuple[int, ...], float] = {}
    for length in range(4):
        for row in itertools.product([4, 5, 6], repeat=length):
            whole = [*row, EOS] if length < 3 else list(row)
            every[row] = sum(float(next_log_p(model, [*prompt, *whole[:i]])[word]) for i, word in enumerate(whole))
    (found,) = beam_search(model, padded_left([prompt]), [3], beam=40, alpha=0.7, ends="cut")
    assert len(found) == 40 == len(every)
    for hypothesis in found:
        assert hypothesis.log_probability == pytest.approx(every[tuple(hypothesis.tokens)], abs=1e-4)
        penalty = length_penalty(min(3, len(hypothesis.tokens) + 1), 0.7)
        assert hypothesis.score == pytest.approx(hypothesis.log_probability / penalty)
        assert hypothesis.ended == (len(hypothesis.tokens) < 3)


class TestHow:
    def test_a_temperature_asks_for_draws(self, generator: Generator) -> None:
        for how in ({"temperature": 1.5}, {"top_k": 20}, {"top_p": 0.95}, {"sampling": True}):
            drawn = [generator.generate("Once", seed=seed, **how).text for seed in range(8)]
            assert len(set(drawn)) > 1, how
            assert drawn[0] == generator.generate("Once", **how).text
        assert len({generator.generate("Once", seed=seed).text for seed in range(3)}) == 1

    @refused(
        [
            ({"tokens": 0}, "tokens must be at least 1, not 0"),
            ({"beam": 4, "temperature": 0.7}, "beam=4 searches, and a temperature, top_k or top_p draws; give one"),
            ({"n_best": 2}, "n_best=2 needs a beam of at least 2"),
            ({"temperature": 0.0}, "give a temperature above 0"),
            ({"temprature": 1.0}, "unknown key 'temprature'; did you mean 'temperature'"),
        ],
    )
    def test_what_cannot_be_is_refused(self, generator: Generator, wrong: dict[str, Any]) -> None:
        generator.generate("Once", **wrong)

    def test_attention_can_be_recorded(self, generator: Generator) -> None:
        with record_attention(generator) as maps:
            generator.generate("The dog ran", tokens=2, stop=False)
        assert [weights.shape[1] for weights in maps.values()] == [2, 2]


# -- streams -----------------------------------------------------------------------------------------------------------


class Scripted(GPT2):
    """Writes the tokens that it is told to, whatever stands before."""

    def __init__(self, written: list[int]) -> None:
        super().__init__(GPT2Config(vocab_size=len(BY_FALLBACK), d_model=8, n_heads=1, layers=1, max_length=CONTEXT))
        self.script = [*written, EOS]

    def start(self, given: Tensor) -> tuple[Tensor, Any]:
        first, state = super().start(given)
        state.left = list(self.script)
        return first, state

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        logits = torch.zeros(len(tokens), len(BY_FALLBACK))
        logits[:, state.left.pop(0)] = 50.0
        return logits


def in_bytes(text: str) -> list[int]:
    return [RESERVED.index(f"<0x{byte:02X}>") for byte in text.encode()]


class TestStreams:
    @pytest.mark.parametrize("how", [{}, {"stop": False}, {"temperature": 1.3, "seed": 5}], ids=str)
    def test_pieces_are_what_generate_writes(self, generator: Generator, how: dict[str, Any]) -> None:
        for prompt in PROMPTS:
            stream = generator.stream(prompt, tokens=40, **how)
            assert stream.generated is None
            pieces = list(stream)
            expected = generator.generate(prompt, tokens=40, **how)
            assert stream.generated == expected
            assert "".join(pieces) == expected.continuation
            assert len(pieces) > 3 or expected.tokens < 4

    @pytest.mark.parametrize("n", [1, 3])
    def test_several_texts_are_written_side_by_side(self, generator: Generator, n: int) -> None:
        """And some of them as if the others stood before them."""
        how = {"temperature": 1.3, "seed": 5, "n_best": n}
        expected = generator.generate(PROMPTS, tokens=20, **how)
        for first in (0, 1):
            texts, ended = [""] * n * len(PROMPTS), dict[int, Generated]()
            given = [PROMPTS[0], *map(generator.tokenizer.encode, PROMPTS[1:])][first:]
            for step in generator.pieces(given, 20, search_for(20, True, how), first=first):
                texts[step.row] += step.text
                if step.generated:
                    ended[step.row] = step.generated
            for i, one in enumerate(expected[first:], start=first):
                rows = range(i * n, (i + 1) * n)
                assert sorted(texts[row] for row in rows) == sorted(other.text for other in one.alternatives)
                assert [ended[row].continuation for row in rows] == [texts[row] for row in rows]
                assert max(ended[row].score for row in rows) == pytest.approx(one.score)

    def test_no_piece_is_half_a_character(self) -> None:
        text = "é🙂 漢字!"
        written = [*in_bytes(text), *BY_FALLBACK.encode("cat")]
        stream = Generator(Scripted(written), BY_FALLBACK, {}).stream("a", tokens=40)
        pieces = [piece for piece in stream if piece]
        assert pieces[: len(text)] == list(text)
        assert "".join(pieces) == text + " cat"

    def test_bytes_that_are_no_text_are_shown_when_nothing_can_complete_them(self) -> None:
        broken = in_bytes("X🙂")[:3]
        stream = Generator(Scripted(broken), BY_FALLBACK, {}).stream("a", tokens=40)
        assert [piece for piece in stream if piece] == ["X", "\ufffd\ufffd\ufffd"]

    def test_nothing_is_computed_before_it_is_asked_for(self, generator: Generator) -> None:
        stream = generator.stream("Once", tokens=10**6, stop=False)
        assert len(list(itertools.islice(stream, 5))) == 5
        assert not torch.is_inference_mode_enabled()

    def test_several_texts_at_once_are_refused(self, generator: Generator) -> None:
        with pytest.raises(InputError, match="beam=3 and n_best=1 give several texts at once, and a stream is one"):
            generator.stream("Once", beam=3)


# -- scores ------------------------------------------------------------------------------------------------------------


class TestScores:
    @torch.no_grad()
    def by_loop(self, model: GPT2, ids: list[int]) -> float:
        """-log p, token by token: all that stands before it while that fits, then windows that move by half."""
        given, total, begin = [EOS, *ids], 0.0, 0
        for at, token in enumerate(ids):
            if at - begin >= CONTEXT:
                begin = at - CONTEXT // 2
            logits = model(ids=torch.tensor([given[begin : at + 1]])).logits[0, -1]
            total -= float(logits.log_softmax(-1)[token])
        return total

    def test_each_token_is_foretold_from_those_before_it(self, generator: Generator) -> None:
        texts = [*TEXTS, "cat", "the cat sat in the park. " * 8, "Once upon a time " * 5]
        for text, found in zip(texts, generator.score(texts), strict=True):
            ids = TOKENIZER.encode(text)
            assert found.nats == pytest.approx(self.by_loop(generator.model, ids), rel=1e-4)
            assert (found.tokens, found.words, found.characters) == (len(ids), len(text.split()), len(text))
            assert generator.score(text).nats == pytest.approx(found.nats, rel=1e-5)

    def test_a_model_that_knows_nothing_has_the_perplexity_of_its_vocabulary(self) -> None:
        model = random_gpt2(len(TOKENIZER))
        model.tokens.weight.data.zero_()
        text = "Once upon a time there was a cat. " * 4
        found = Generator(model, TOKENIZER, {}).score(text)
        assert found.perplexity == pytest.approx(len(TOKENIZER), rel=1e-4)
        assert found.bits_per_character == pytest.approx(found.tokens * math.log2(len(TOKENIZER)) / len(text), rel=1e-4)

    def test_an_empty_text_is_refused(self, generator: Generator) -> None:
        with pytest.raises(InputError, match="an empty text has no probability to be measured"):
            generator.score(["Once", ""])


def test_the_engine_is_the_models_own_unless_another_is_given(generator: Generator) -> None:
    assert type(generator.engine) is Plain
    assert generator.engine.has_prompts
