"""A real writer of Llama's form, stories15M, opened from a Hugging Face folder; and Llamas that qkv does not have."""

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import decoders, models, normalizers, processors
from torch import Tensor

import qkv
from kit import package, refused
from qkv.convert.export import write_hugging_face
from qkv.models import Llama, count_parameters
from qkv.text.tokenizer import BOS, EOS, PAD

D, HEADS, LAYERS, BYTES = 288, 6, 6, range(3, 259)
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": D, "intermediate_size": 768,
    "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "vocab_size": 32000, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
START = "Once upon a time"
OPENINGS = [START, "Lily and her dog", "The sun was", "It’s cold in the café, said 王"]


def in_halves(weight: Tensor) -> Tensor:
    """The authors' rotary positions turn 2i with 2i + 1, transformers' i with i + K/2: rows of q and k move."""
    return weight.view(HEADS, -1, 2, D).transpose(1, 2).reshape(D, D)


def arrays() -> dict[str, Tensor]:
    with np.load(package("stories15m") / "stories15M.model.npz", allow_pickle=False) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def sentence_piece() -> tokenizers.Tokenizer:
    """Llama's SentencePiece model as Hugging Face writes it: pairs that make a piece, the best score first."""
    kept = json.loads((package("stories15m") / "tokenizer.model.np").read_text(encoding="utf-8"))
    words = [f"<0x{i - 3:02X}>" if i in BYTES else word.replace(" ", "▁") for i, word in enumerate(kept["tokens"])]
    ids, scores = {word: i for i, word in enumerate(words)}, kept["scores"]
    pairs = [(-scores[i], ids[word[:cut]], ids[word[cut:]]) for word, i in ids.items() if i not in (0, 1, 2, *BYTES)
             for cut in range(1, len(word)) if word[:cut] in ids and word[cut:] in ids]  # fmt: skip
    merges = [(words[one], words[other]) for _, one, other in sorted(pairs)]
    rust = tokenizers.Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    rust.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    rust.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    rust.add_special_tokens(words[:3])
    rust.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 1)])
    return rust


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, theirs = tmp_path_factory.mktemp("stories"), arrays()
    assert torch.equal(theirs["lm_head.weight"], theirs["model.embed_tokens.weight"])
    del theirs["lm_head.weight"]
    moved = {name: in_halves(value) if "q_proj" in name or "k_proj" in name else value
             for name, value in theirs.items()}  # fmt: skip
    save_file(moved, place / "model.safetensors", metadata={"format": "pt"})
    (place / "config.json").write_text(json.dumps(CONFIG))
    sentence_piece().save(str(place / "tokenizer.json"))
    return place


@pytest.fixture(scope="module")
def writer(stories: Path) -> Any:
    return qkv.load(stories)


@functools.cache
def opened(place: Path) -> tuple[Any, tokenizers.Tokenizer]:
    theirs = transformers.AutoModelForCausalLM.from_pretrained(place).eval()
    return theirs, tokenizers.Tokenizer.from_file(str(place / "tokenizer.json"))


def written(place: Path, prompt: str, tokens: int) -> str:
    """What transformers writes, greedily."""
    theirs, words = opened(place)
    ids = torch.tensor([words.encode(prompt).ids])
    whole = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False,
                            pad_token_id=0)  # fmt: skip
    return words.decode(whole[0].tolist())


@torch.no_grad()
def test_the_logits_are_those_of_transformers(stories: Path, writer: Any) -> None:
    theirs, words = opened(stories)
    assert writer.model.config.silent == [PAD]
    pieces = writer.tokenizer.vocabulary()
    known = [words.token_to_id(piece) for piece in pieces[1:]]
    for text in OPENINGS:
        given, own = words.encode(text), writer.ids(text)
        assert own[0] == BOS
        assert [pieces[number] for number in own] == given.tokens
        expected, found = theirs(torch.tensor([given.ids])).logits[0], writer.model(torch.tensor([own])).logits[0]
        assert (found[:, 1:] - expected[:, known]).abs().max() <= 5e-5  # of logits up to 20


@torch.no_grad()
def test_the_arrays_as_they_are_turn_the_authors_way(writer: Any) -> None:
    """The other layout of rotary positions, with rows that were not moved, gives the same."""
    ours = writer.model.config
    model = Llama(type(ours)(**{**vars(ours), "position": "rotary(layout='interleaved')"})).eval()
    parts = {"query": "q_proj", "key": "k_proj"}
    theirs, weights = arrays(), dict(writer.model.state_dict())
    for layer in range(LAYERS):
        for own, name in parts.items():
            whole = f"decoder.blocks.{layer}.attention.{own}.weight"
            assert not torch.equal(weights[whole], theirs[f"model.layers.{layer}.self_attn.{name}.weight"])
            weights[whole] = theirs[f"model.layers.{layer}.self_attn.{name}.weight"]
    model.load_state_dict(weights)
    ids = torch.tensor([writer.ids(START)])
    assert (model(ids).logits - writer.model(ids).logits)[..., 1:].abs().max() <= 5e-5


def test_it_goes_on_as_transformers_does(stories: Path, writer: Any) -> None:
    assert str(writer.generate(START, tokens=40)) == written(stories, START, 40)
    assert str(writer.generate(START, tokens=12)) == "Once upon a time, there was a little girl named Lily. She loved"
    assert writer.score("The little girl was happy.").nats < writer.score("Girl happy the was little.").nats
    assert str(writer.generate("", tokens=3)).startswith("Once upon a")  # after <s> alone


def test_it_is_written_back(stories: Path, writer: Any, tmp_path: Path) -> None:
    write_hugging_face(tmp_path, writer.model, writer.tokenizer, writer.about)
    assert written(tmp_path, START, 20) == written(stories, START, 20)
    back = qkv.load(tmp_path)
    assert back.ids(START) == writer.ids(START)
    assert str(back.generate(START, tokens=20)) == str(writer.generate(START, tokens=20))
    assert back.ids([]) == [BOS]


# -- sizes, and what is no Llama of ours -------------------------------------------------------------------------------

COUNTS = {"7b": 6_738_415_616, "13b": 13_015_864_320, "33b": 32_528_943_616, "65b": 65_285_660_672}


@pytest.mark.parametrize("preset", COUNTS)
def test_the_sizes_of_the_paper(preset: str) -> None:
    """Touvron et al. 2023, Table 2: 6.7, 13.0, 32.5 and 65.2 billion."""
    with torch.device("meta"):
        c = Llama.config_class(**Llama.presets[preset])
        theirs = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            hidden_size=c.d_model, intermediate_size=c.inner_width, num_hidden_layers=c.layers,
            num_attention_heads=c.n_heads))  # fmt: skip
        assert count_parameters(Llama(c)) == theirs.num_parameters() == COUNTS[preset]


@refused(
    [
        ({"num_key_value_heads": 2}, "num_key_value_heads=2 is a model that qkv does not have; use one with 4"),
        ({"head_dim": 16}, "head_dim=16 is a model that qkv does not have; use one with 8"),
        ({"attention_bias": True}, "attention_bias=True is a model that qkv does not have"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_type='linear' is a model that qkv does not have"),
        ({"rope_parameters": {"rope_theta": "many"}}, "no number as the base of its rotary positions"),
        ({"rope_parameters": [1]}, "no number as the base of its rotary positions"),
        ({"hidden_act": "mish"}, "the activation 'mish' is unknown to qkv"),
    ]
)
def test_what_is_no_llama_of_ours_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    write_small(tmp_path, wrong)
    qkv.load(tmp_path)


def write_small(place: Path, others: dict[str, Any]) -> None:
    config = transformers.LlamaConfig(
        vocab_size=20, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4
    )
    transformers.LlamaForCausalLM(config).save_pretrained(place)
    tree = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**tree, **others}))
    words = ["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(3, 20))]
    rust = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    rust.add_special_tokens(words[:3])
    rust.save(str(place / "tokenizer.json"))


def test_a_small_one_without_a_first_token(tmp_path: Path) -> None:
    """What its tokenizer does not put before a text, we do not either."""
    write_small(tmp_path, {})
    ours = qkv.load(tmp_path)
    assert "bos" not in ours.about
    assert ours.ids("") == [EOS]
    assert not ours.model.config.tied
