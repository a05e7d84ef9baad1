"""The lean Transformer: what `models.Transformer` computes, whatever hypotheses and sentences do in between."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kit import draw, stirred, tiny_model
from qkv.decoding import Plain, Search
from qkv.decoding.constraints import best
from qkv.decoding.greedy import greedy
from qkv.engines.lean import Lean, LeanEmbedding, LeanTransformer, Sentences, is_standard, packed, padded
from qkv.models import Recurrent, RecurrentConfig, Transformer
from searches import some_stay

Pad = Callable[[list[list[int]]], Tensor]
KINDS: list[dict[str, Any]] = [
    {},
    {"norm": "pre"},
    {"attention_bias": True, "output_bias": True, "tied": "none"},
    {"position": "learned(length=64)", "d_k": 5},
    {"position": "none", "norm": "pre", "activation": "gelu"},
    {"activation": "swish"},
]


def transformer(**others: Any) -> Any:
    sizes = {"d_model": 32, "d_ff": 48, "n_heads": 4, "encoder_layers": 2, "decoder_layers": 2, "max_length": 60}
    return stirred(tiny_model("transformer", **(sizes | others)), 0.2).eval()


@pytest.mark.parametrize("others", KINDS, ids=str)
@torch.inference_mode()
def test_steps_equal_the_model_that_reads_everything_at_once(others: dict[str, Any]) -> None:
    model = transformer(**others)
    assert is_standard(model)
    lean = LeanTransformer(model)
    src = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0], [11, 12, 13, 2, 0]])
    tgt = torch.randint(4, 40, (3, 40))  # longer than the room that a cache begins with
    _, seen = lean.start(src)
    steps = torch.stack([lean.step(tgt[:, t], seen) for t in range(tgt.size(1))], dim=1)
    torch.testing.assert_close(steps, model(src, tgt).logits, rtol=1e-4, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.data())
@torch.inference_mode()
def test_beams_that_change_places_and_sentences_that_leave(data: st.DataObject) -> None:
    """Any course of parents and departures: each hypothesis has the logits of its own past."""
    n, W = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    src = torch.randint(4, 40, (n, 6), generator=torch.Generator().manual_seed(n))
    src[::2, 4:] = 0
    seen, sentences = LEAN.start(src)[1], list(range(n))
    pasts: list[list[list[int]]] = [[[]] for _ in sentences]
    for step in range(6):
        width = len(pasts[0])
        tokens = [[(7 * s + 5 * step + 3 * w) % 36 + 4 for w in range(width)] for s in sentences]
        pasts = [
            [[*past, token] for past, token in zip(*some, strict=True)] for some in zip(pasts, tokens, strict=True)
        ]
        found = LEAN.step(torch.tensor(tokens).flatten(), seen).view(len(sentences), width, -1)
        for s, own, logits in zip(sentences, pasts, found, strict=True):
            expected = MODEL(src[s : s + 1].expand(width, -1), torch.tensor(own)).logits[:, -1]
            torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
        sentences, pasts = some_stay(data, seen, sentences, pasts, W)


MODEL = transformer()
LEAN = LeanTransformer(MODEL)


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_searches_find_the_same(model: Transformer, sources: list[list[int]], pad: Pad, beam: int) -> None:
    plain, lean = Plain(model), Lean(model)
    given = [row[:-1] for row in sources]
    limits = [len(row) + 50 for row in given]
    for ours, theirs in zip(
        lean.decode(given, limits, Search(beam=beam, n_best=beam)),
        plain.decode(given, limits, Search(beam=beam, n_best=beam)),
        strict=True,
    ):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-4)


@torch.inference_mode()
def test_what_no_hypothesis_needs_is_forgotten() -> None:
    """Every step all hypotheses go on from the first: each past has one entry a step, however many were written."""
    _, seen = LEAN.start(torch.tensor([[5, 6, 7, 2]]))
    LEAN.step(torch.tensor([4]), seen)
    seen.reorder(torch.zeros(4, dtype=torch.long))
    for _ in range(40):
        LEAN.step(torch.tensor([4, 5, 6, 7]), seen)
        seen.reorder(torch.zeros(4, dtype=torch.long))
    assert seen.steps == 41
    assert seen.cache.size(4) < 4 * 41
    assert ((seen.own == 0).sum(dim=2) == 41).all()


@pytest.mark.parametrize(
    "others",
    [{"position": "rotary"}, {"position": "shaw(clip=4)"}, {"attention": "additive"}, {"attention": "top_k(k=2)"}],
)
def test_other_attentions_and_positions_are_not_standard(others: dict[str, Any]) -> None:
    assert not is_standard(transformer(**others))


def test_other_models_are_not_standard() -> None:
    assert not is_standard(Recurrent(RecurrentConfig(vocab_size=20, d_model=8)))


def test_padding_is_left_out_and_put_back() -> None:
    src = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])
    sentences, x = Sentences(src), torch.arange(24.0).view(2, 4, 3) + 1
    rows = packed(x, sentences.real)
    assert rows.shape == (6, 3)
    assert torch.equal(padded(rows, sentences.shape, sentences.real), x * (src != 0)[:, :, None])
    full = Sentences(src[:1])
    assert full.mask is None
    assert torch.equal(padded(packed(x[:1], full.real), full.shape, full.real), x[:1])


@pytest.mark.parametrize("others", KINDS, ids=str)
@torch.inference_mode()
def test_compiling_changes_nothing(others: dict[str, Any]) -> None:
    """TorchScript runs the same operations, to the last bit, from the sixth step on and in the next sentences."""
    model = transformer(**others)
    src = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0], [11, 12, 13, 2, 0]])
    logits = []
    for eager in (6, math.inf):
        lean = LeanTransformer(model, eager=eager)
        seen, steps = lean.start(src)[1], []
        for token in range(5, 17):
            steps.append(lean.step(torch.full((3,), token), seen))
        assert isinstance(lean.decoder, torch.jit.ScriptModule) == (eager == 6)
        _, again = lean.start(src)  # the encoder too, and what the cache holds after it
        steps.append(lean.step(torch.full((3,), 5), again))
        logits.append(torch.stack(steps))
    assert torch.equal(*logits)


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 9), size=st.integers(1, 1203), k=st.integers(1, 10), seed=st.integers(0, 99))
def test_the_best_are_those_of_topk(rows: int, size: int, k: int, seed: int) -> None:
    log_p = draw(rows, size, seed=seed).log_softmax(dim=1)
    values, tokens = best(log_p, k)
    expected = log_p.topk(min(k, size), dim=1)
    assert torch.equal(values, expected.values)
    assert torch.equal(log_p.gather(1, tokens), values)


def test_the_best_with_almost_everything_forbidden() -> None:
    log_p = torch.full((6, 1000), -torch.inf)
    log_p[:, 2] = -1.0
    values, tokens = best(log_p, 1)
    assert tokens.flatten().tolist() == [2] * 6
    assert values.flatten().tolist() == [-1.0] * 6


def test_greedy_of_many_sentences_that_end_at_other_times(
    model: Transformer, sources: list[list[int]], pad: Pad
) -> None:
    src, limits = pad(sources), [5 + i % 9 for i in range(len(sources))]
    assert [h.tokens for h in greedy(LeanTransformer(model), src, limits)] == [
        h.tokens for h in greedy(model, src, limits)
    ]


def test_two_threads_that_need_more_positions_at_once_both_get_the_right_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one looks for the positions that it lacks, another finds more of them: here in the middle of the first."""
    table, ids = LeanEmbedding(MODEL.source.weight, MODEL.encoder), torch.full((1, 6), 5)
    alone = LeanEmbedding(MODEL.source.weight, MODEL.encoder)(ids, 0)
    embed, others = table.position.embed, [ids]

    def interrupted(x: Tensor, at: Any) -> Tensor:
        if others:
            table(others.pop()[:, :4], 0)
        return embed(x, at)

    monkeypatch.setattr(table.position, "embed", interrupted)
    assert torch.equal(table(ids, 0), alone)
    assert torch.equal(table(ids, 0), alone)


def test_in_a_process_of_its_own_a_step_with_little_to_do_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is at least as fast; what has more to do keeps what there is, and afterwards all is as before."""
    model, seen = transformer(), []
    lean = LeanTransformer(model)
    monkeypatch.setattr(
        lean, "start", lambda src: seen.append(torch.get_num_threads()) or LeanTransformer.start(lean, src)
    )
    engine, before = Lean(model, lean), torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        engine.decode([[5, 6]], [9], Search(beam=1))
        engine.sets_threads = True
        engine.decode([[5, 6]], [9], Search(beam=1))
        monkeypatch.setattr("qkv.engines.lean.LITTLE", 10)
        engine.decode([[5, 6]], [9], Search(beam=1))
        assert seen == [3, 1, 3]
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
