"""Filling in, against transformers' fill-mask pipeline on the same folder: BERT and RoBERTa with random weights."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import qkv

WORDS = ["a", "man", "in", "red", "the", "two", "dogs", "play", "snow", "is", ".", ",", "##s", "##ing"]
SPECIALS = {
    "bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
}
TEXTS = ["A man in a red {}.", "two {} play in the {}", "{} {}, the snow {}."]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
         "max_position_embeddings": 40}  # fmt: skip


def bert_words(place: Path) -> Any:
    words = [*SPECIALS["bert"], *WORDS]
    place.joinpath("vocab.txt").write_text("\n".join(words))
    return transformers.BertTokenizerFast(vocab={word: i for i, word in enumerate(words)})


def roberta_words(place: Path) -> Any:
    """Each byte is a token, and some words."""
    letters = sorted(set("".join(WORDS).replace("#", "")) | {"Ġ", "A"})
    tokens, merges = [*SPECIALS["roberta"], *letters], list[tuple[str, str]]()
    for word in ("Ġred", "Ġman", "dogs"):
        for end in range(2, len(word) + 1):
            merges.append((word[: end - 1], word[end - 1]))
            tokens.append(word[:end])
    mask = transformers.AddedToken("<mask>", lstrip=True, special=True)  # as the released one has it
    vocab = {token: i for i, token in enumerate(tokens)}
    return transformers.RobertaTokenizerFast(vocab=vocab, merges=merges, mask_token=mask)


@pytest.fixture(params=["bert", "roberta"])
def twins(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any]:
    """Their pipeline and what qkv.load gives, of one folder."""
    name = request.param
    theirs = {"bert": bert_words, "roberta": roberta_words}[name](tmp_path)
    kind, config = {"bert": (transformers.BertForMaskedLM, transformers.BertConfig),
                    "roberta": (transformers.RobertaForMaskedLM, transformers.RobertaConfig)}[name]  # fmt: skip
    torch.manual_seed(0)
    model = kind(config(vocab_size=len(theirs), pad_token_id=theirs.pad_token_id, **SIZES)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    model.save_pretrained(tmp_path)
    theirs.save_pretrained(tmp_path)
    return transformers.pipeline("fill-mask", model=model, tokenizer=theirs), qkv.load(tmp_path)


@pytest.mark.parametrize("text", TEXTS)
def test_every_word_has_the_probability_of_the_pipeline(text: str, twins: tuple[Any, Any]) -> None:
    """And nothing else is offered: where theirs offers a special token, we offer the next word."""
    pipeline, filler = twins
    count, size = text.count("{}"), len(pipeline.tokenizer)
    expected = pipeline(text.format(*[pipeline.tokenizer.mask_token] * count), top_k=size)
    found = filler.fill(text.format(*["<mask>"] * count), k=size)
    if count == 1:
        expected, found = [expected], [found]
    special = set(pipeline.tokenizer.all_special_ids)
    for theirs, ours in zip(expected, found, strict=True):
        words = [word for word in theirs if word["token"] not in special]
        assert len(words) == len(ours) == size - len(special)
        assert [word["probability"] for word in ours] == pytest.approx([word["score"] for word in words], abs=1e-6)
        assert [word["token"] for word in ours] == [word["token_str"].strip() for word in words]
    if count == 1:
        assert [word["text"] for word in found[0]] == [word["sequence"].strip() for word in words]


def test_their_name_of_the_mask_is_read_too(twins: tuple[Any, Any]) -> None:
    pipeline, filler = twins
    name = pipeline.tokenizer.mask_token
    assert json.dumps(filler.fill(f"a {name}")) == json.dumps(filler.fill("a <mask>"))
