"""Scope: with `sentence` nothing outside its own sentence reaches a token, with `document` everything does."""

from typing import Any

import pytest
import torch
from torch import Tensor

from kit import tiny_model
from qkv.attention import sentence_numbers
from qkv.attention.local import Scope
from qkv.errors import InputError
from qkv.models import Transformer, TransformerConfig
from qkv.positions import Places

END = 9
SRC = torch.tensor([[4, 5, END, 6, 7, END, 8], [4, END, 5, 6, 0, 0, 0]])


def model(limit: str, ends: list[int]) -> Any:
    scope = f"scope(limit={limit!r})"
    return tiny_model(
        "transformer", vocab_size=12, encoder_layers=2, encoder_attention=scope, sentence_ends=ends
    ).eval()


def memory(limit: str, src: Tensor, ends: tuple[int, ...] = (END,)) -> Tensor:
    return model(limit, list(ends)).encode(src)[0]


def test_sentences_are_counted_by_their_ends() -> None:
    assert sentence_numbers(SRC, [END]).tolist() == [[0, 0, 0, 1, 1, 1, 2], [0, 0, 1, 1, 1, 1, 1]]


def test_a_token_sees_exactly_the_tokens_of_its_sentence() -> None:
    """Pair by pair, over three sentences and for queries that are only some of the tokens."""
    scope = Scope(TransformerConfig(d_model=4, n_heads=1))
    sentence = sentence_numbers(SRC, [END])
    for query in (torch.arange(7), torch.tensor([1, 6])):
        found = scope.region(Places(query, torch.arange(7), sentence=sentence))
        expected = [[[[a == b for b in row] for a in (row[i] for i in query)]] for row in sentence.tolist()]
        assert found is not None
        assert found.tolist() == expected


def test_another_sentence_changes_nothing_bit_for_bit() -> None:
    changed = SRC.clone()
    changed[0, 3] = 10  # in the second sentence
    before, after = memory("sentence", SRC), memory("sentence", changed)
    own = sentence_numbers(SRC, [END])[0] == 1
    assert torch.equal(before[0, ~own], after[0, ~own])
    assert not torch.isclose(before[0, own], after[0, own]).all(-1).any()
    assert torch.equal(before[1], after[1])


def test_with_the_document_in_view_it_changes_every_token() -> None:
    changed = SRC.clone()
    changed[0, 3] = 10
    before, after = memory("document", SRC), memory("document", changed)
    assert not torch.isclose(before[0], after[0]).all(-1).any()


def test_the_document_is_all_that_soft_attention_sees() -> None:
    plain = model("document", [END])
    soft = Transformer(TransformerConfig(**{**vars(plain.config), "encoder_attention": ""})).eval()
    soft.load_state_dict(plain.state_dict())
    assert torch.equal(soft.encode(SRC)[0], plain.encode(SRC)[0])


def test_a_text_without_ends_is_one_sentence() -> None:
    src = torch.tensor([[4, 5, 6, 7]])
    assert torch.equal(memory("sentence", src), memory("document", src))


def test_nobody_said_where_sentences_end() -> None:
    with pytest.raises(InputError, match=r"was not told where sentences end; set sentence_ends"):
        memory("sentence", SRC, ())
    memory("document", SRC, ())
