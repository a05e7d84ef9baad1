"""Folders that transformers saved: opened as they are, with their translations; damaged ones are refused."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file
from tokenizers import models, pre_tokenizers, processors

import qkv
from qkv import folder
from qkv.convert import EXPORTS
from qkv.decoding import Search
from qkv.decoding.translator import longest_targets
from qkv.errors import InputError
from qkv.models import Transformer
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer

transformers = pytest.importorskip("transformers", reason="transformers is not installed; pip install 'qkv[dev]'")

V, LONGEST = 40, 24
SIZES: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "dropout": 0.0,
    "max_position_embeddings": LONGEST,
}
SIZES |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
IDS = {"pad_token_id": V - 1, "decoder_start_token_id": V - 1, "eos_token_id": 0, "forced_eos_token_id": 0}
TEXTS = [" ".join(f"w{2 + (7 * i * j + i) % 10}" for j in range(1 + i % 7)) for i in range(20)] + ["w2 nobody w3"]
FAMILIES = {
    "as Opus-MT has it": ("marian", {"activation_function": "swish", "scale_embedding": True}),
    "no scale": ("marian", {"activation_function": "gelu"}),
    "two tables": ("marian", {"share_encoder_decoder_embeddings": False, "scale_embedding": True}),
    "three tables": ("marian", {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}),
    "pegasus": ("pegasus", {"activation_function": "relu", "scale_embedding": True}),
}


@functools.cache
def half_trained(family: str) -> Any:
    """On the way to copying its source: clear choices, many lengths, and mistakes. Every bias is something."""
    kind, others = FAMILIES[family]
    torch.manual_seed(1)
    config = {"marian": transformers.MarianConfig, "pegasus": transformers.PegasusConfig}[kind]
    theirs = transformers.AutoModelForSeq2SeqLM.from_config(config(vocab_size=V, **(SIZES | IDS | others)))
    with torch.no_grad():
        for name, weight in theirs.named_parameters():
            if "embed_positions" not in name:
                weight.normal_(1.0 if name.endswith("norm.weight") else 0.0, 0.15)
        theirs.final_logits_bias.normal_(0.0, 0.4)
        theirs.final_logits_bias[0, V - 1] = -1e4  # trained models never write their padding
    optimiser = torch.optim.Adam([w for n, w in theirs.named_parameters() if "embed_positions" not in n], lr=5e-3)
    for _ in range(60):
        lengths = torch.randint(1, 8, (24,))
        src = torch.randint(2, 12, (24, 8)).masked_fill(torch.arange(8) > lengths[:, None], V - 1)
        src[torch.arange(24), lengths] = 0
        loss = theirs(input_ids=src, attention_mask=src != V - 1, labels=src.masked_fill(src == V - 1, -100)).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return theirs.eval()


def write(place: Path, family: str) -> Any:
    """Such a model and a tokenizer of the words w2 to w38, as transformers itself saves them."""
    theirs = half_trained(family)
    theirs.save_pretrained(place)
    words = {"</s>": 0, "<unk>": 1} | {f"w{i}": i for i in range(2, V - 1)} | {"<pad>": V - 1}
    rust = tokenizers.Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    rust.pre_tokenizer = pre_tokenizers.Whitespace()
    rust.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 0)])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=rust, eos_token="</s>", unk_token="<unk>", pad_token="<pad>"
    )
    fast.save_pretrained(place)
    return theirs, fast


@pytest.mark.parametrize("family", FAMILIES)
def test_their_translations_come_out(family: str, tmp_path: Path) -> None:
    """Token for token. Both rank by log p where neither penalises length; an end that had to be forced costs nothing
    there and its log p here, so that beams are compared where it came by itself."""
    theirs, fast = write(tmp_path, family)
    ours = qkv.load(tmp_path)
    batch = fast(TEXTS, return_tensors="pt", padding=True)
    given = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "max_length": LONGEST}
    sources = [ours.tokenizer.encode(text) for text in TEXTS]
    for beam in (1, 3):
        rows = theirs.generate(**given, num_beams=beam, length_penalty=0.0, early_stopping=beam > 1).tolist()
        limits = longest_targets(sources, ours.model.config.max_length)
        found = [some[0] for some in ours.engine.decode(sources, limits, Search(beam=beam, alpha=0.0))]
        pairs = [(row[1 : row.index(0)], own.tokens) for row, own in zip(rows, found, strict=True) if own.ended]
        assert len({tuple(row) for row, _ in pairs}) > 3  # there is something to compare
        for expected, tokens in pairs:
            assert ours.tokenizer.pieces(tokens) == fast.convert_ids_to_tokens(expected)
            assert ours.tokenizer.decode(tokens) == fast.decode(expected, skip_special_tokens=True)


def test_other_commands_and_engines_open_it_too(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; pip install 'qkv[ctranslate2]'")
    write(tmp_path, "as Opus-MT has it")
    ours, fast = qkv.load(tmp_path), qkv.load(tmp_path, engine="ctranslate2")
    assert [line.text for line in fast.translate(TEXTS)] == [line.text for line in ours.translate(TEXTS)]
    assert len(set(ours.tokenizer.vocabulary())) == len(ours.tokenizer) == V + 1, "<s> has a row of its own"
    with qkv.record_attention(ours) as maps:
        ours.translate("w2 w3", beam=1)
    assert maps


def test_it_can_be_saved_as_ours_and_exported_again(tmp_path: Path) -> None:
    write(tmp_path / "theirs", "as Opus-MT has it")
    first = qkv.load(tmp_path / "theirs")
    folder.save(tmp_path / "ours", first.model, first.tokenizer, {"source": "en", "target": "de"})
    (tmp_path / "again").mkdir()
    EXPORTS["huggingface"](tmp_path / "again", first.model, first.tokenizer, {}, "")
    expected = [line.text for line in first.translate(TEXTS)]
    for place in ("ours", "again"):
        other = qkv.load(tmp_path / place)
        assert other.tokenizer.fingerprint == first.tokenizer.fingerprint
        assert [line.text for line in other.translate(TEXTS)] == expected


def test_our_own_export_comes_back(model_folder: Path, model: Transformer, tokenizer: Tokenizer) -> None:
    """What is written for others is read again: languages, text and translations."""
    from qkv.convert.families.marian import write_marian

    place = model_folder.parent / "theirs"
    place.mkdir()
    write_marian(place, model, tokenizer, {"source": "en", "target": "de"})
    ours, back = qkv.load(model_folder), qkv.load(place)
    assert back.about == {"source": "en", "target": "de"}
    texts = ["two dogs", "snow", "Schnee im", "a man sleeps on the sofa", "</s>"]
    assert [x.text for x in back.translate(texts)] == [x.text for x in ours.translate(texts)]


# -- what is refused -------------------------------------------------------------------------------------------------


def change(place: Path, **values: Any) -> None:
    tree = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(tree | values))


def without(place: Path, name: str) -> None:
    tensors = load_file(place / "model.safetensors")
    del tensors[name]
    save_file(tensors, place / "model.safetensors")


BROKEN: dict[str, tuple[Any, str]] = {
    "no tokenizer": (lambda p: (p / "tokenizer.json").unlink(), "has no tokenizer that is read: tokenizer.json, or"),
    "no weights": (lambda p: (p / "model.safetensors").unlink(), "model.safetensors is missing"),
    "half a tokenizer": (lambda p: (p / "tokenizer.json").write_text("{"), "tokenizer.json is damaged"),
    "an activation": (lambda p: change(p, activation_function="quick_gelu"), "'quick_gelu' is unknown to qkv; did you"),
    "two widths": (lambda p: change(p, decoder_ffn_dim=32), "encoder_ffn_dim=24 and decoder_ffn_dim=32 must be the"),
    "an id": (lambda p: change(p, eos_token_id=V), f"eos_token_id={V} is no id below vocab_size={V}"),
    "several ends": (lambda p: change(p, eos_token_id=[0, 1]), "eos_token_id"),
    "heads": (
        lambda p: change(p, encoder_attention_heads=3, decoder_attention_heads=3),
        "d_model=32 is not divisible by n_heads=3",
    ),
    "another size": (lambda p: change(p, vocab_size=V + 1, decoder_vocab_size=V + 1), "do not have the vocab_size"),
    "a layer more": (lambda p: change(p, encoder_layers=3), "lacks encoder.blocks.1"),
    "no words": (lambda p: without(p, "model.shared.weight"), "lacks model.encoder.embed_tokens.weight"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_folder_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    write(tmp_path, "as Opus-MT has it")
    spoil, sentence = BROKEN[name]
    spoil(tmp_path)
    with pytest.raises(InputError, match=sentence) as refused:
        qkv.load(tmp_path)
    assert "\n" not in str(refused.value)


def test_more_tokens_than_the_model_has(tmp_path: Path) -> None:
    write(tmp_path, "as Opus-MT has it")
    tree = json.loads((tmp_path / "tokenizer.json").read_text())
    tree["model"]["vocab"]["more"] = V
    (tmp_path / "tokenizer.json").write_text(json.dumps(tree))
    with pytest.raises(InputError, match=f"has {V + 1} tokens but the model has {V}"):
        qkv.load(tmp_path)


def test_ids_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "as Opus-MT has it")
    ours = qkv.load(tmp_path)
    assert ours.tokenizer.decode([PAD, BOS, EOS, *ours.tokenizer.encode("w5 w6")]) == "w5 w6"
    with pytest.raises(InputError, match="do not fit a vocabulary"):
        ours.tokenizer.decode([V + 1])
