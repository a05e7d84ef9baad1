"""Hierarchical attention: the paper's equations by a loop, ragged documents, and a sentence that decides the label."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from qkv.config import from_tree
from qkv.errors import InputError
from qkv.look import record_attention
from qkv.models import Hierarchical, HierarchicalConfig

VOCAB, CLASSES = 30, 3
VARIANTS = [
    {"encoder": encoder, "pooling": pooling, "levels": levels}
    for encoder in ("gru", "self", "none")
    for pooling in ("attention", "mean")
    for levels in (1, 2)
]
every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(map(str, v.values())))


def model_of(seed: int = 0, **settings: Any) -> Hierarchical:
    torch.manual_seed(seed)
    sizes = {"d_embedding": 8, "d_model": 8, "n_heads": 2, "d_ff": 12, "dropout": 0.0}
    model = Hierarchical(HierarchicalConfig(vocab_size=VOCAB, n_classes=CLASSES, **{**sizes, **settings})).eval()
    with torch.no_grad():
        model.embedding.weight.normal_()  # large enough for attention to choose
    return model


def documents_of(lengths: list[list[int]], seed: int = 1) -> Tensor:
    """Documents whose sentences have so many words, padded."""
    rng = torch.Generator().manual_seed(seed)
    widest = max(max(row, default=0) for row in lengths)
    documents = torch.zeros(len(lengths), max(map(len, lengths)), max(1, widest), dtype=torch.long)
    for i, row in enumerate(lengths):
        for j, words in enumerate(row):
            documents[i, j, :words] = torch.randint(1, VOCAB, (words,), generator=rng)
    return documents


LENGTHS = [[3, 1, 4], [2], [5, 5, 1, 2]]


def gru_by_loop(gru: nn.GRU, x: Tensor) -> Tensor:
    """Yang et al. 2016, Eqs. 1-4 in both directions, a word at a time: (S, width) -> (S, D)."""
    sides = []
    for suffix, order in (("", range(len(x))), ("_reverse", reversed(range(len(x))))):
        w, u, b, c = (getattr(gru, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        h, states = torch.zeros(gru.hidden_size), {}
        for i in order:
            (wr, wz, wn), (ur, uz, un) = (w @ x[i] + b).chunk(3), (u @ h + c).chunk(3)
            r, z = torch.sigmoid(wr + ur), torch.sigmoid(wz + uz)
            h = (1 - z) * torch.tanh(wn + r * un) + z * h
            states[i] = h
        sides.append(torch.stack([states[i] for i in range(len(x))]))
    return torch.cat(sides, dim=1)


def level_by_loop(level: Any, x: Tensor) -> Tensor:
    h = gru_by_loop(level.gru, x)
    weights = (torch.tanh(level.pooling.key(h)) @ level.pooling.query).softmax(dim=0)
    return weights @ h


@torch.no_grad()
def test_it_is_the_papers_network() -> None:
    """Section 2.2 for each document alone, without padding, masks or batches."""
    model, documents = model_of(), documents_of(LENGTHS)
    for document, lengths, logits in zip(documents, LENGTHS, model(documents), strict=True):
        sentences = [
            level_by_loop(model.words, model.embedding.weight[words[:n]])
            for words, n in zip(document, lengths, strict=False)
        ]
        v = level_by_loop(model.sentences, torch.stack(sentences))
        torch.testing.assert_close(logits, model.output.weight @ v + model.output.bias, atol=1e-5, rtol=0)


@torch.no_grad()
def test_one_level_is_one_attention_over_all_words() -> None:
    model, documents = model_of(levels=1), documents_of(LENGTHS)
    for document, logits in zip(documents, model(documents), strict=True):
        v = level_by_loop(model.words, model.embedding.weight[document[document != 0]])
        torch.testing.assert_close(logits, model.output.weight @ v + model.output.bias, atol=1e-5, rtol=0)


@torch.no_grad()
def test_the_mean_of_embeddings_is_just_that() -> None:
    model, documents = model_of(levels=1, encoder="none", pooling="mean"), documents_of(LENGTHS)
    for document, logits in zip(documents, model(documents), strict=True):
        expected = model.output(model.embedding.weight[document[document != 0]].mean(0))
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("encoder", ["gru", "self"])
@settings(deadline=None, max_examples=20)
@given(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), min_size=1, max_size=4), st.integers(0, 999))
def test_weights_of_both_levels_sum_to_one(encoder: str, lengths: list[list[int]], seed: int) -> None:
    """Whatever the padding; and what is padding has no weight at all."""
    model, documents = model_of(seed, encoder=encoder), documents_of(lengths, seed)
    with record_attention(model) as maps:
        model(documents)
    words, sentences = maps["words.pooling"][:, 0, 0], maps["sentences.pooling"][:, 0, 0]
    flat = [n for row in lengths for n in row]
    assert words.shape[0] == len(flat)
    for weights, counts in ((words, flat), (sentences, [len(row) for row in lengths])):
        torch.testing.assert_close(weights.sum(-1), torch.ones(len(counts)), atol=1e-6, rtol=0)
        real = torch.arange(weights.size(1)) < torch.tensor(counts)[:, None]
        assert torch.equal(weights > 0, real)


@every_variant
@torch.no_grad()
def test_empty_sentences_and_more_padding_change_nothing(variant: dict[str, Any]) -> None:
    """At the end and between the sentences."""
    model, documents = model_of(**variant), documents_of(LENGTHS)
    clean = model(documents)
    torch.testing.assert_close(model(F.pad(documents, (0, 3, 0, 2))), clean, atol=1e-6, rtol=0)
    between = F.pad(documents, (0, 0, 1, 0))[:, [1, 0, 2, 3, 0, 4]]
    torch.testing.assert_close(model(between), clean, atol=1e-6, rtol=0)
    model.embedding.weight[0] += 100.0
    torch.testing.assert_close(model(documents), clean, atol=1e-6, rtol=0)


@every_variant
@torch.no_grad()
def test_a_document_alone_is_the_document_in_a_batch(variant: dict[str, Any]) -> None:
    model, documents = model_of(**variant), documents_of(LENGTHS)
    together = model(documents)
    for i, lengths in enumerate(LENGTHS):
        alone = documents[i : i + 1, : len(lengths), : max(lengths)]
        torch.testing.assert_close(model(alone)[0], together[i], atol=1e-5, rtol=0)


@every_variant
def test_every_parameter_gets_a_gradient(variant: dict[str, Any]) -> None:
    model = model_of(**variant)
    F.cross_entropy(model(documents_of(LENGTHS)), torch.tensor([0, 1, 2])).backward()
    largest = max(p.grad.abs().max().item() for p in model.parameters())
    for name, parameter in model.named_parameters():
        if name.endswith("attention.key.bias"):  # softmax does not see it
            continue
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 1e-7 * largest, name


@torch.no_grad()
def test_a_document_of_nothing_harms_nobody() -> None:
    model, documents = model_of(), documents_of(LENGTHS)
    logits = model(torch.cat([documents, torch.zeros_like(documents[:1])]))
    torch.testing.assert_close(logits[:3], model(documents), atol=1e-6, rtol=0)
    torch.testing.assert_close(logits[3], model.output.bias)


@torch.no_grad()
def test_words_know_their_order_and_sentences_theirs() -> None:
    """GRU and encoder blocks see order at both levels; without an encoder a text is a bag."""
    document = documents_of([[4, 3, 2]])
    swapped_words, swapped_sentences = document.clone(), document[:, [1, 0, 2]]
    swapped_words[0, 0, :2] = document[0, 0, [1, 0]]
    for encoder in ("gru", "self", "none"):
        model = model_of(encoder=encoder)
        for other in (swapped_words, swapped_sentences):
            assert torch.allclose(model(document), model(other), atol=1e-6) == (encoder == "none"), encoder


def test_hidden_words_are_whole_words_and_only_in_training() -> None:
    model = model_of(word_dropout=0.5)
    words = torch.randint(1, VOCAB, (50, 10))
    hidden = model.train().embed(words) == 0
    assert torch.equal(hidden.any(-1), hidden.all(-1))
    assert 0.4 < hidden.float().mean() < 0.6
    assert not (model.eval().embed(words) == 0).any()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"levels": 3}, "levels must be 1 (words) or 2 (words and sentences), not 3"),
        ({"d_model": 7}, "d_model=7 is not even, but the GRU has two directions"),
        ({"encoder": "self"}, "d_embedding=200 is not d_model=100; only encoder gru changes the width"),
        ({"encoder": "self", "d_model": 200, "n_heads": 3}, "d_model=200 is not divisible by n_heads=3"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
        ({"n_classes": 0}, "n_classes must be at least 1, not 0"),
        ({"pooling": "max"}, "Input should be 'attention' or 'mean'"),
    ],
)
def test_what_cannot_be_built_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as error:
        from_tree(HierarchicalConfig, given)
    assert told in str(error.value)


# -- the planted sentence ----------------------------------------------------------------------------------------------


FEW = 12  # words: the task is to find the sentence, not to learn a language


def planted(count: int, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Five sentences of four words; one holds the word 1, and the word after it, 2 or 3, is the label. Every sentence
    may hold 2 and 3 too, without 1: (documents, labels, which sentence decides)."""
    documents = torch.randint(2, FEW, (count, 5, 4), generator=rng)
    labels, where, places = (torch.randint(0, top, (count,), generator=rng) for top in (2, 5, 3))
    rows = torch.arange(count)
    documents[rows, where, places], documents[rows, where, places + 1] = 1, labels + 2
    return documents, labels, where


def taught(encoder: str) -> Hierarchical:
    torch.manual_seed(1)
    sizes = {"d_embedding": 32, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.0}
    model = Hierarchical(HierarchicalConfig(vocab_size=FEW, n_classes=2, encoder=encoder, **sizes))
    learner, rng = torch.optim.Adam(model.parameters(), lr=5e-3), torch.Generator().manual_seed(1)
    for _ in range(100):
        documents, labels, _ = planted(48, rng)
        F.cross_entropy(model(documents), labels).backward()
        learner.step()
        learner.zero_grad()
    return model.eval()


@pytest.mark.parametrize("encoder", ["gru", "self"])
@torch.no_grad()
def test_the_sentence_that_decides_is_found(encoder: str) -> None:
    """It gets the top weight in over 90 % of new documents, though nobody told which sentence it is. Encoder blocks
    let sentences read each other, so that any of them may come to hold the answer: there only the answer counts."""
    with torch.enable_grad():
        model = taught(encoder)
    documents, labels, where = planted(300, torch.Generator().manual_seed(2))
    with record_attention(model) as maps:
        right = (model(documents).argmax(1) == labels).float().mean()
    top = maps["sentences.pooling"][:, 0, 0].argmax(1)
    assert right > 0.9
    assert encoder == "self" or (top == where).float().mean() > 0.9
