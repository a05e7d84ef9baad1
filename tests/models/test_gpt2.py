"""GPT-2: what its weights are drawn from, documents that share a row, prompts padded on the left."""

import math

import pytest
import torch
from torch import Tensor

from kit import close, padded, stirred, tiny_model
from qkv.attention import ATTENTIONS, SCORES
from qkv.errors import InputError
from qkv.models import GPT2, GPT2Config
from qkv.positions import POSITIONS
from qkv.text.tokenizer import PAD

V, B, T = 40, 3, 9
SEQUENTIAL = [name for name, position in POSITIONS.items() if not position.needs_tree]
DECODABLE = [name for name in [*ATTENTIONS, *SCORES] if name in SCORES or "decoder" in ATTENTIONS[name].uses]
SHORT = {"local_m": "local_m(radius=2)", "local_p": "local_p(radius=2)", "window": "window(radius=2)",
         "local": "local(block=3, before=1)", "top_k": "top_k(k=2)"}  # fmt: skip
PARTS = [("learned", SHORT.get(name, name)) for name in DECODABLE] + [(name, "scaled_dot") for name in SEQUENTIAL]


def tiny(**settings: object) -> GPT2:
    """With weights large enough for attention to choose."""
    sizes = {"vocab_size": V, "d_ff": 64, "n_heads": 4, "layers": 2, "max_length": 90}
    return stirred(tiny_model("gpt2", **{**sizes, **settings}), 0.2).eval()


def draw(rows: int = B, length: int = T) -> Tensor:
    return padded([length] * rows, V)


def steps(model: GPT2, prompts: Tensor, more: Tensor) -> Tensor:
    """The logits after the prompt, and after each of `more` (B, N): (B, 1 + N, V)."""
    tokens, state = model.start(prompts)
    found = [model.step(tokens, state)]
    found += [model.step(more[:, t], state) for t in range(more.size(1))]
    return torch.stack(found, dim=1)


def test_what_the_weights_are_drawn_from() -> None:
    """N(0, 0.02), positions N(0, 0.01), the last layer of each sub-layer smaller by sqrt(2 layers)."""
    torch.manual_seed(0)
    model = GPT2(GPT2Config(vocab_size=500, d_model=128, n_heads=4, layers=8, max_length=200))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        elif "norm" in name:
            assert (parameter == 1).all()
        else:
            is_added = name.endswith(("attention.output.weight", "contract.weight"))
            expected = 0.01 if "positions" in name else 0.02 / math.sqrt(2 * 8) if is_added else 0.02
            assert parameter.std().item() == pytest.approx(expected, rel=0.03), name


@pytest.mark.parametrize("length", [T, 80])
@pytest.mark.parametrize(("position", "attention"), PARTS)
def test_documents_in_one_row_are_what_each_is_alone(position: str, attention: str, length: int) -> None:
    model, ids = tiny(position=position, attention=attention), draw(length=length)
    ends = torch.tensor([[3, 5], [1, length - 1], [length, length]])[:, :, None]
    documents = (torch.arange(length) >= ends).sum(dim=1)  # (B, T): three documents, three, one
    together = model(ids, documents=documents).logits
    for row in range(B):
        for number in range(3):
            if (of_it := documents[row] == number).any():
                close(together[row, of_it], model(ids[row, of_it][None]).logits[0])


@pytest.mark.parametrize("length", [T, 80])
@pytest.mark.parametrize(("position", "attention"), PARTS)
def test_prompts_of_other_lengths_give_what_each_gives_alone(position: str, attention: str, length: int) -> None:
    model, ids, more = tiny(position=position, attention=attention), draw(length=length), draw(length=4) % 7 + 5
    real = torch.arange(length) >= torch.tensor([0, 4, length - 1])[:, None]
    together = steps(model, ids.masked_fill(~real, PAD), more)
    for row in range(B):
        alone = ids[row, real[row]][None]
        close(together[row], steps(model, alone, more[row : row + 1])[0])
        close(together[row], model(torch.cat((alone, more[row : row + 1]), dim=1)).logits[0, -5:])


def test_a_mask_of_real_tokens_counts_places_from_the_first_of_them() -> None:
    model, ids = tiny(), draw()
    real = torch.arange(T) >= torch.tensor([0, 4, T - 1])[:, None]
    together = model(ids, mask=real).logits
    for row in range(B):
        close(together[row, real[row]], model(ids[row, real[row]][None]).logits[0])


def test_a_mask_of_pairs_is_joined_to_the_causal_one() -> None:
    model, ids = tiny(position="none"), draw()
    pairs = torch.eye(T, dtype=torch.bool).expand(B, T, T)
    close(model(ids, mask=pairs).logits[:, 4], model(ids[:, 4:5]).logits[:, 0])  # each token sees itself alone
    close(model(ids, mask=torch.ones_like(pairs)).logits, model(ids).logits)


def test_padding_on_the_right_changes_nothing() -> None:
    model, ids = tiny(), draw()
    close(model(torch.nn.functional.pad(ids, (0, 5), value=PAD)).logits[:, :T], model(ids).logits)


def test_a_reordered_state_goes_on_with_other_rows() -> None:
    model, more, rows = tiny(), draw(length=4) % 7 + 5, torch.tensor([2, 0, 0, 1])
    for is_padded in (False, True):
        ids = draw().masked_fill((torch.arange(T) < torch.tensor([0, 4, 2])[:, None]) & is_padded, PAD)
        tokens, state = model.start(ids)
        model.step(tokens, state)
        state.reorder(rows)
        close(model.step(more[rows, 0], state), steps(model, ids[rows], more[rows])[:, 1])


def test_a_prompt_beyond_the_context_is_refused() -> None:
    model = tiny(max_length=5)
    with pytest.raises(InputError, match="beyond the 5 learned positions"):
        model(draw())


def test_positions_of_trees_are_refused() -> None:
    with pytest.raises(InputError, match="needs a dependency tree"):
        tiny(position="structural")
