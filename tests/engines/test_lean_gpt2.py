"""The lean GPT-2: what `models.GPT2` computes, whatever prompts and hypotheses do."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import stirred, tiny_model, tokenizer
from qkv.decoding import Generator, Plain, Search
from qkv.decoding.plain import padded_left
from qkv.engines.lean import Lean, LeanGPT2, is_standard
from qkv.engines.reader import can_read
from searches import some_stay

KINDS: list[dict[str, Any]] = [
    {},
    {"norm": "post", "activation": "relu"},
    {"attention_bias": False, "d_k": 5, "activation": "gelu"},
    {"position": "sinusoidal", "d_ff": 24, "activation": "swish"},
    {"position": "none", "eps": 1e-3},
]


def gpt2(**others: Any) -> Any:
    sizes = {"d_model": 32, "d_ff": 128, "n_heads": 4, "layers": 2, "max_length": 60}
    return stirred(tiny_model("gpt2", **(sizes | others)), 0.2).eval()


MODEL = gpt2()
LEAN = LeanGPT2(MODEL, eager=math.inf)
PROMPTS = [[5, 6, 7, 8, 9], [11], [12, 13, 14], [4, 4, 4, 4, 20, 21, 22]]


@pytest.mark.parametrize("prompts", [PROMPTS, PROMPTS[:1], PROMPTS[1:2], [PROMPTS[0]] * 3], ids=str)
@pytest.mark.parametrize("others", KINDS, ids=str)
@torch.inference_mode()
def test_steps_equal_the_model_that_reads_everything_at_once(others: dict[str, Any], prompts: list[list[int]]) -> None:
    model = gpt2(**others)
    assert is_standard(model)
    lean, more = LeanGPT2(model, eager=5), torch.randint(4, 40, (len(prompts), 40))  # compiled on its way
    first, seen = lean.start(padded_left(prompts))
    assert first.tolist() == [prompt[-1] for prompt in prompts]
    read = torch.cat((first[:, None], more), dim=1)
    steps = torch.stack([lean.step(read[:, t], seen) for t in range(read.size(1))], dim=1)
    assert isinstance(lean.decoder, torch.jit.ScriptModule)
    for prompt, own, found in zip(prompts, more, steps, strict=True):
        whole = model(ids=torch.tensor([prompt + own.tolist()])).logits[0, len(prompt) - 1 :]
        torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.data())
@torch.inference_mode()
def test_beams_that_change_places_and_texts_that_leave(data: st.DataObject) -> None:
    """Any course of parents and departures: each hypothesis has the logits of its own past."""
    prompts = data.draw(st.lists(st.sampled_from(PROMPTS), min_size=1, max_size=4))
    W = data.draw(st.integers(1, 4))
    first, seen = LEAN.start(padded_left(prompts))
    texts, tokens = list(range(len(prompts))), first[:, None].tolist()
    pasts: list[list[list[int]]] = [[prompt[:-1]] for prompt in prompts]
    for step in range(6):
        pasts = [
            [[*past, token] for past, token in zip(*some, strict=True)] for some in zip(pasts, tokens, strict=True)
        ]
        width = len(pasts[0])
        found = LEAN.step(torch.tensor(tokens).flatten(), seen).view(len(texts), width, -1)
        for own, logits in zip(pasts, found, strict=True):
            torch.testing.assert_close(logits, MODEL(ids=torch.tensor(own)).logits[:, -1], rtol=1e-4, atol=1e-4)
        texts, pasts = some_stay(data, seen, texts, pasts, W)
        tokens = [[(7 * s + 5 * step + 3 * w) % 36 + 4 for w in range(W)] for s in texts]


@settings(max_examples=40, deadline=None)
@given(st.data())
@torch.inference_mode()
def test_rows_in_any_order_as_often_as_one_likes(data: st.DataObject) -> None:
    first, seen = LEAN.start(padded_left(PROMPTS))
    pasts, tokens = [prompt[:-1] for prompt in PROMPTS], first.tolist()
    for step in range(6):
        pasts = [[*past, token] for past, token in zip(pasts, tokens, strict=True)]
        for past, logits in zip(pasts, LEAN.step(torch.tensor(tokens), seen), strict=True):
            torch.testing.assert_close(logits, MODEL(ids=torch.tensor([past])).logits[0, -1], rtol=1e-4, atol=1e-4)
        rows = data.draw(st.lists(st.integers(0, len(pasts) - 1), min_size=1, max_size=7))
        seen.reorder(torch.tensor(rows))
        pasts, tokens = [pasts[row] for row in rows], [(5 * step + 3 * i) % 36 + 4 for i in range(len(rows))]


@pytest.mark.parametrize("how", [Search(beam=1), Search(beam=4, n_best=4), Search(sampling=True, seed=3)], ids=str)
@pytest.mark.parametrize("limit", [12, 90])
def test_searches_find_the_same(how: Search, limit: int) -> None:
    """Within the context, and beyond it."""
    how, limits = Search(**{**vars(how), "ends": "cut"}), [limit] * len(PROMPTS)
    plain, lean = Plain(MODEL).decode(PROMPTS, limits, how), Lean(MODEL).decode(PROMPTS, limits, how)
    for ours, theirs in zip(lean, plain, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-3)


@torch.inference_mode()
def test_compiling_changes_nothing() -> None:
    logits = []
    for eager in (6, math.inf):
        lean = LeanGPT2(MODEL, eager=eager)
        _, seen = lean.start(padded_left(PROMPTS))
        logits.append(torch.stack([lean.step(torch.full((4,), token), seen) for token in range(5, 17)]))
    assert torch.equal(*logits)


@pytest.mark.parametrize("others", [{"position": "rotary"}, {"attention": "additive"}])
def test_other_attentions_and_positions_are_not_standard(others: dict[str, Any]) -> None:
    assert not is_standard(gpt2(**others))


@pytest.mark.parametrize("position", ["rotary", "learned"])
def test_other_norms_and_gates_are_not_standard(position: str) -> None:
    llama = tiny_model("llama", position=position)
    assert not is_standard(llama)
    assert not can_read(llama)


def test_workers_write_the_same() -> None:
    words = tokenizer("once upon a time there was a cat", size=280, kind="byte_bpe")
    model = gpt2(vocab_size=len(words))
    prompts = ["once", "a cat", "", "time there", "upon a time there was"] * 30
    here, there = (Generator(model, words, {}, Lean(model)).generate(prompts, workers=n) for n in (1, 2))
    assert [one.text for one in here] == [one.text for one in there]
