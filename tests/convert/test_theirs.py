"""Folders of other people's backbones: what they may look like, what is opened, what is written, what is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import models, pre_tokenizers

import qkv
from kit import package, refused, run_command, save_untrained, stirred, tiny_model
from qkv import folder
from qkv.convert import EXPORTS
from qkv.decoding import Search
from qkv.errors import InputError
from qkv.layers import NoProjection
from qkv.models import Headed
from qkv.text.tokenizer import BOS, PAD, Tokenizer

V = 60
SIZES = {"vocab_size": V, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
         "max_position_embeddings": 20}  # fmt: skip
WRITER = {"vocab_size": V, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LABELS = {"id2label": {0: "bad", 1: "good", 2: "so-so"}, "label2id": {"bad": 0, "good": 1, "so-so": 2}}
TEXT = "w7 w8 w50 w9 w23"


def theirs(place: Path, kind: str = "BertForMaskedLM", special: tuple[str, ...] = SPECIAL, **settings: Any) -> Any:
    """A model of transformers with random weights and a word for each id, in a folder as transformers saves it."""
    torch.manual_seed(0)
    made: Any = getattr(transformers, kind)
    sizes = SIZES if "GPT" not in kind else {**WRITER, "bos_token_id": 0, "eos_token_id": 0}
    model = stirred(made(made.config_class(**{**sizes, **settings})), 0.1).eval()
    model.save_pretrained(place)
    words = [*special, *(f"w{number}" for number in range(len(special), V))]
    unk = next((word for word in special if "UNK" in word), words[-1])
    rust = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=unk))
    rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rust.add_special_tokens(list(special))
    rust.save(str(place / "tokenizer.json"))
    return model


def change(place: Path, **values: Any) -> None:
    tree = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**tree, **values}))


def rewrite(place: Path, edit: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    path = place / "model.safetensors"
    save_file(edit(load_file(path)), path, metadata={"format": "pt"})


# -- what is opened --------------------------------------------------------------------------------------------------

OPENED = {
    "BertForMaskedLM": "Filler", "BertForPreTraining": "Filler", "BertModel": "Embedder",
    "BertForSequenceClassification": "Classifier", "BertForTokenClassification": "Predictor",
    "BertForQuestionAnswering": "Predictor", "BertForMultipleChoice": "Predictor", "GPT2LMHeadModel": "Generator",
    "GPT2ForSequenceClassification": "Classifier", "OpenAIGPTLMHeadModel": "Generator",
}  # fmt: skip
ASKED = {
    "BertForQuestionAnswering": {"question": "w7 w8", "context": TEXT},
    "BertForMultipleChoice": ("w7", "w8", "w9"),
}


@pytest.mark.parametrize("kind", OPENED)
def test_the_class_says_what_the_folder_is_for(kind: str, tmp_path: Path) -> None:
    special = {"B": SPECIAL, "G": ("<|endoftext|>",), "O": ("<unk>",)}[kind[0]]
    theirs(tmp_path, kind, special, **(LABELS if kind.endswith("Classification") else {}))
    opened = qkv.load(tmp_path)
    assert type(opened).__name__ == OPENED[kind]
    if hasattr(opened, "predict"):
        assert opened.predict(ASKED.get(kind, TEXT))
    if "SequenceClassification" in kind:
        assert list(opened.predict(TEXT)["probabilities"]) == ["bad", "good", "so-so"]


def test_a_hole_is_filled_as_their_pipeline_does(tmp_path: Path) -> None:
    model = theirs(tmp_path)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "tokenizer.json"), mask_token="[MASK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    ids = torch.tensor([[2, *fast.encode("w7 [MASK] w9", add_special_tokens=False), 3]])
    best = model(ids).logits[0, 2].softmax(dim=-1).topk(3)
    found = qkv.load(tmp_path).fill("w7 [MASK] w9", k=3)
    assert [one["token"] for one in found] == fast.convert_ids_to_tokens(best.indices.tolist())
    assert [one["probability"] for one in found] == pytest.approx(best.values.tolist(), abs=1e-6)


FORMS: dict[str, Callable[[Path], object]] = {
    "float16": lambda p: rewrite(p, lambda t: {k: v.half() for k, v in t.items()}),
    "bfloat16": lambda p: rewrite(p, lambda t: {k: v.bfloat16() for k, v in t.items()}),
    "old names of norms": lambda p: rewrite(p, lambda t: {
        k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
        for k, v in t.items()}),
    "buffers and tied tables": lambda p: rewrite(p, lambda t: {
        **t, "bert.embeddings.position_ids": torch.arange(20)[None],
        "cls.predictions.decoder.weight": t["bert.embeddings.word_embeddings.weight"].clone(),
        "cls.predictions.decoder.bias": t["cls.predictions.bias"].clone()}),
    "the second name alone": lambda p: rewrite(p, lambda t: {
        k.replace("cls.predictions.bias", "cls.predictions.decoder.bias"): v for k, v in t.items()}),
    "what an older class left": lambda p: rewrite(p, lambda t: {
        **t, "bert.pooler.dense.weight": torch.eye(32), "bert.pooler.dense.bias": torch.ones(32)}),
    "a pickle beside it": lambda p: (p / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch /tmp/no'\ntR."),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_the_forms_that_files_have(form: str, tmp_path: Path) -> None:
    theirs(tmp_path)
    before = qkv.load(tmp_path).fill("w7 <mask> w9", k=V)
    FORMS[form](tmp_path)
    after = qkv.load(tmp_path).fill("w7 <mask> w9", k=V)
    tolerance = 1e-2 if "float16" in form else 1e-7
    names = [{one["token"]: one["probability"] for one in found} for found in (before, after)]
    assert names[1] == pytest.approx(names[0], abs=tolerance)


def test_weights_in_several_files(tmp_path: Path) -> None:
    model = theirs(tmp_path)
    whole = folder.load(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    parts = folder.load(tmp_path)
    for name, weight in whole.model.named_parameters():
        assert torch.equal(parts.model.get_parameter(name), weight)


def test_a_backbone_without_a_prefix(tmp_path: Path) -> None:
    model = theirs(tmp_path)
    model.bert.save_pretrained(tmp_path / "bare")
    shutil.copy(tmp_path / "tokenizer.json", tmp_path / "bare")
    bare, whole = folder.load(tmp_path / "bare"), folder.load(tmp_path)
    assert bare.about["task"] == "embed"
    assert isinstance(bare.model.projection, NoProjection)
    ids = torch.tensor([[BOS, 7, 8, 9]])
    assert torch.equal(bare.model.encode(ids), whole.model.encode(ids))


def test_a_pooler_is_what_fine_tuning_begins_with(tmp_path: Path) -> None:
    model = theirs(tmp_path, "BertModel")
    start = folder.load(tmp_path)
    assert isinstance(start.model, Headed)
    tuned = Headed(tiny_like(start), {"classes": "classes(n=2, pool='first', dense=True)"})
    _, new = folder.start_from(tuned, start, "theirs")
    assert new == ["heads.classes.output.weight", "heads.classes.output.bias"]
    assert torch.equal(tuned.heads["classes"].dense[0].weight, model.pooler.dense.weight)


def tiny_like(start: folder.Loaded) -> Any:
    _, config = folder.origin(start.model)
    return type(start.model.backbone)(config)  # type: ignore[union-attr, operator]


def test_without_what_predicts_words_nothing_is_filled(tmp_path: Path) -> None:
    theirs(tmp_path, "BertModel")
    place = tmp_path / "ours"
    opened = folder.load(tmp_path)
    folder.save(place, opened.model, opened.tokenizer, {**opened.about, "task": "fill"})
    with pytest.raises(InputError, match="this model has nothing that predicts words; take one"):
        qkv.load(place).fill("w7 <mask> w9")


# -- tokens that theirs do not have ----------------------------------------------------------------------------------


def test_gpt2_writes_and_weighs_as_theirs(tmp_path: Path) -> None:
    """It has no padding and no beginning; ours have, and are never written."""
    model = theirs(tmp_path, "GPT2LMHeadModel", ("<|endoftext|>",))
    ours = qkv.load(tmp_path)
    assert ours.model.config.silent == [PAD, BOS]
    ids = ours.tokenizer.encode(TEXT)
    their_ids = [int(word[1:]) for word in TEXT.split()]
    with torch.no_grad():
        p = ours.model(torch.tensor([ids])).logits.softmax(dim=-1)[0]
        expected = model(torch.tensor([their_ids])).logits.softmax(dim=-1)[0]
    assert not p[:, [PAD, BOS]].any()
    assert (p[:, ids] - expected[:, their_ids]).abs().max() <= 1e-6
    written = model.generate(
        torch.tensor([their_ids]), attention_mask=torch.ones(1, 5).long(), max_new_tokens=12, do_sample=False,
        pad_token_id=0, suppress_tokens=[V - 1],  # which stands for what is unknown, and is not written by ours
    )[0, 5:].tolist()  # fmt: skip
    plain = qkv.load(tmp_path, engine="plain")
    for generator in (ours, plain):
        [[found]] = generator.engine.decode([ids], [13], Search(beam=1))  # the last of which is the end
        assert [f"w{number}" for number in written] == generator.tokenizer.pieces(found.tokens)


def test_what_is_silent_stays_so_in_training(tmp_path: Path) -> None:
    """Its bias is no weight: nothing decays or averages it, and gradients are finite."""
    theirs(tmp_path, "GPT2LMHeadModel", ("<|endoftext|>",))
    model: Any = folder.load(tmp_path).model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        logits = model(torch.tensor([[5, 6, 7]])).logits[0]
        torch.nn.functional.cross_entropy(logits, torch.tensor([6, 7, 2])).backward()
        assert all(weight.grad.isfinite().all() for weight in model.parameters())
        optimiser.step()
    assert "projection.bias" not in dict(model.named_parameters())
    assert not model(torch.tensor([[5]])).logits.softmax(dim=-1)[0, 0, [PAD, BOS]].any()


def test_training_may_learn_tokens_that_gpt_lacks(tmp_path: Path) -> None:
    """GPT has no </s>, <sep> and <cls>. As it is opened none is written; what the data asks for is learned."""
    theirs(tmp_path, "OpenAIGPTLMHeadModel", ("<unk>",))
    place = tmp_path / "text.txt"
    place.write_text("\n\n".join(TEXT for _ in range(40)))
    before = folder.load(tmp_path).model.config.silent
    assert len(before) == 5
    qkv.train(
        place, task="language_model", start=tmp_path, out=tmp_path / "out", quiet=True, training={"steps": 2},
        data={"window": 16, "documents": "blank_lines"},
    )  # fmt: skip
    assert folder.load(tmp_path / "out").model.config.silent == [PAD, BOS]


# -- ours as theirs --------------------------------------------------------------------------------------------------

KINDS = {"bert": "wordpiece", "roberta": "byte_bpe", "ernie2": "wordpiece", "gpt2": "byte_bpe", "gpt": "bpe"}
LINES = ["two dogs play in the snow", "a man, 3 dogs & a café!", "zwei Hunde"]


@pytest.fixture(params=KINDS)
def ours(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An untrained model of ours that fills in or writes, in its folder."""
    name = request.param
    special = {"gpt": ["<sep>", "<cls>"], "gpt2": []}.get(name, ["<mask>"])
    words = Tokenizer.train(LINES * 3, kind=KINDS[name], vocab_size=320, specials=special)
    task = "language_model" if "gpt" in name else "fill"
    return save_untrained(tmp_path / name, name, words, {"task": task}, d_ff=64, max_length=32)


def test_the_command_writes_what_transformers_opens(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, lines = tmp_path / "out", tmp_path / "lines.txt"
    lines.write_text("\n".join(LINES))
    result = run_command(monkeypatch, "export", ours, "--to", "huggingface", out, "--check", lines)
    assert result.code == 0, result.err
    assert result.lines[0].startswith("3 texts: states of tokens differ by at most ")
    fast = transformers.AutoTokenizer.from_pretrained(out)
    opened, back = qkv.load(ours), qkv.load(out)
    backbone = opened.model
    for one, other in [(line, LINES[0]) for line in LINES]:
        rows = [opened.tokenizer.encode(text) for text in (one, other)]
        if opened.about["task"] == "fill":
            expected, _ = backbone.frame.join(opened.tokenizer, rows, 99)
            assert fast(one, other)["input_ids"] == expected
            rows[0], _ = backbone.frame.join(opened.tokenizer, rows[:1], 99)
        assert fast(one)["input_ids"] == rows[0]
    assert back.about == opened.about
    if opened.about["task"] == "fill":
        assert back.fill("a <mask> in") == opened.fill("a <mask> in")
        model = transformers.AutoModelForMaskedLM.from_pretrained(out).eval()
        pipe = transformers.pipeline("fill-mask", model=model, tokenizer=fast)
        scores = [one["score"] for one in pipe("a <mask> in")]
        assert scores == pytest.approx([one["probability"] for one in opened.fill("a <mask> in")], abs=1e-6)
    else:
        assert back.generate("two dogs", tokens=6) == opened.generate("two dogs", tokens=6)


def test_what_transformers_does_not_have_is_refused(tmp_path: Path) -> None:
    words = Tokenizer.train(LINES, kind="wordpiece", vocab_size=320, specials=["<mask>"])
    for settings, why in (
        ({"position": "rotary"}, "its setting position='rotary'"),
        ({"attention": "additive"}, "its setting attention='additive'"),
        ({"norm": "pre"}, "its setting norm='pre'"),
    ):
        model = tiny_model("bert", vocab_size=len(words), **settings)
        with pytest.raises(InputError, match=why):
            EXPORTS["huggingface"](tmp_path, model, words, {}, "")
    headed = Headed(tiny_model("bert", vocab_size=len(words)), {"classes": "classes(n=2, pool='mean')"})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"no bert class with classes\(n=2, pool='mean'\) on it"):
        EXPORTS["huggingface"](tmp_path, headed, words, {}, "")


def test_what_was_only_for_pre_training_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SpanBERT is published as BERT: its boundaries are a head of its own."""
    words = Tokenizer.train(LINES, kind="wordpiece", vocab_size=320, specials=["<mask>"])
    heads = {"span_boundary": f"span_boundary(n={len(words)})",
             "next_sentence": "classes(n=2, pool='first', dense=True, dropout=0.0)"}  # fmt: skip
    backbone: Any = tiny_model("bert", vocab_size=len(words))
    folder.save(tmp_path / "ours", Headed(backbone, heads).eval(), words, {"task": "fill"})
    result = run_command(monkeypatch, "export", tmp_path / "ours", "--to", "huggingface", tmp_path / "out")
    assert "left out, since transformers has no place for it: span_boundary" in result.lines
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == ["BertForPreTraining"]
    back: Any = folder.load(tmp_path / "out").model
    assert back.head_texts == {"next_sentence": heads["next_sentence"]}


def test_other_formats_hold_it_where_they_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs(tmp_path, "BertForSequenceClassification")
    result = run_command(monkeypatch, "export", tmp_path, "--to", "onnx", tmp_path / "out")
    assert (result.code, result.lines[-1]) == (0, f"wrote {tmp_path / 'out'}")
    result = run_command(monkeypatch, "export", tmp_path, "--to", "ctranslate2", tmp_path / "other")
    assert result.code == 1
    assert "ctranslate2 has no place for what stands on this backbone, classes(" in result.err
    assert not (tmp_path / "other").exists()


# -- what is refused -------------------------------------------------------------------------------------------------


def index(place: Path, name: str) -> None:
    (place / "model.safetensors").unlink()
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))


def only_a_pickle(place: Path) -> None:
    (place / "model.safetensors").unlink()
    (place / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch /tmp/no'\ntR.")


def without(place: Path, start: str) -> None:
    rewrite(place, lambda t: {name: value for name, value in t.items() if not name.startswith(start)})


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "another family": (
        lambda p: change(p, model_type="robertta"),
        "of the type 'robertta'; did you mean 'roberta'",
    ),
    "no family": (lambda p: change(p, model_type="t5"), "reads no model of the type 't5'; known: bert"),
    "a layer more": (lambda p: change(p, num_hidden_layers=3), "has weights with layers=2, but config.json says 3"),
    "a layer less": (lambda p: change(p, num_hidden_layers=1), "has weights with layers=2, but config.json says 1;"),
    "a width": (lambda p: change(p, intermediate_size=40), "has weights with inner_width=48, but config.json says 40"),
    "a million layers": (lambda p: change(p, num_hidden_layers=10**6), "layers must be at most 1,000, not 1,000,000"),
    "a billion words": (lambda p: change(p, vocab_size=10**9), f"has {V} rows, but config.json says vocab_size=1000"),
    "a billion places": (
        lambda p: change(p, max_position_embeddings=10**9),
        "max_length must be at most 1,048,576",
    ),
    "a billion segments": (lambda p: change(p, type_vocab_size=10**9), "segments=2, but config.json says 1000"),
    "a billion units": (lambda p: change(p, intermediate_size=10**9), "d_ff must be at most 262,144"),
    "a list for a name": (lambda p: change(p, hidden_act=["gelu"]), "the activation .* is unknown to qkv"),
    "a text as a width": (lambda p: change(p, hidden_size="wide"), "d_model"),
    "heads": (lambda p: change(p, num_attention_heads=5), "not divisible by n_heads=5"),
    "words": (lambda p: change(p, vocab_size=V + 1), f"has {V} rows, but config.json says vocab_size={V + 1}"),
    "fewer words": (lambda p: change(p, vocab_size=V - 1), f"has {V} rows, but config.json says vocab_size={V - 1}"),
    "no size": (lambda p: change(p, vocab_size=None), "has no vocab_size that is a number"),
    "an activation": (lambda p: change(p, hidden_act="mish"), "the activation 'mish' is unknown to qkv"),
    "relative places": (lambda p: change(p, position_embedding_type="relative_key"), "position_embedding_type='relat"),
    "nothing that predicts": (lambda p: without(p, "cls."), "lacks what predicts words, but .* BertForMaskedLM"),
    "a strange weight": (lambda p: rewrite(p, lambda t: {**t, "bert.a": torch.ones(1)}), "has a, which is no weight"),
    "no tokenizer": (lambda p: (p / "tokenizer.json").unlink(), "has no tokenizer that is read"),
    "a pickle alone": (only_a_pickle, "pytorch_model.bin is a pickle, which can run any code and is never opened"),
    "no weights": (lambda p: (p / "model.safetensors").unlink(), "model.safetensors is missing"),
    "a shard elsewhere": (lambda p: index(p, "../x.safetensors"), "names '../x.safetensors', which is no safetensors"),
    "a shard that is a pickle": (lambda p: index(p, "x.bin"), "names 'x.bin', which is no safetensors file beside it"),
    "a shard that is missing": (lambda p: index(p, "x.safetensors"), "x.safetensors is missing"),
}


@refused({name: why for name, (_, why) in BROKEN.items()}, "name")
def test_a_folder_that_does_not_fit_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    theirs(tmp_path)
    BROKEN[name][0](tmp_path)
    qkv.load(tmp_path)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4), (7, 4)])
def test_weights_of_odd_shapes_are_refused_in_one_sentence(shape: tuple[int, ...], tmp_path: Path) -> None:
    theirs(tmp_path, "GPT2LMHeadModel", ("<|endoftext|>",))
    for name in ("transformer.h.0.attn.c_attn.weight", "transformer.wte.weight"):
        rewrite(tmp_path, lambda tensors, name=name: {**tensors, name: torch.zeros(shape)})  # type: ignore[misc]
        with pytest.raises(InputError, match=r"shape|rows") as caught:
            qkv.load(tmp_path)
        assert "\n" not in str(caught.value)


@refused(
    [
        ({"0": "bad", "1": "good"}, "has 3 labels, but id2label of config.json names 2"),
        ({"0": "bad", "1": "bad", "2": "bad"}, "more than once"),
        ("bad", "is no table of numbers and names"),
    ]
)
def test_labels_of_another_set(wrong: Any, tmp_path: Path) -> None:
    theirs(tmp_path, "BertForSequenceClassification", **LABELS)
    change(tmp_path, id2label=wrong)
    qkv.load(tmp_path)


MODULES = {"type": "sentence_transformers.models.Transformer", "path": ""}


@refused(
    {
        "Dense": "asks for Dense, which qkv does not have",
        "Pooling": "1_Pooling/config.json pools by .*max_tokens.*, which qkv does not",
        "Out": "outside",
    },
    "kind",
)
def test_sentence_transformers_that_are_not_read(kind: str, tmp_path: Path) -> None:
    theirs(tmp_path, "BertModel")
    module = {"type": f"sentence_transformers.models.{kind}", "path": "../x" if kind == "Out" else "1_Pooling"}
    (tmp_path / "modules.json").write_text(json.dumps([MODULES, module]))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_max_tokens": True}))
    qkv.load(tmp_path)


# -- real weights ----------------------------------------------------------------------------------------------------

SENTENCES = ["Two dogs play in the snow.", "A man rides a red bicycle past the café.", "What is the capital of France?",
             "Ein Mann fährt Rad.", "这是一个句子。", "The quick brown fox - jumps over 13 lazy dogs!"]  # fmt: skip


@pytest.mark.parametrize("name", ["minilm", "minilm-fp16"])
def test_real_weights_open_as_they_are(name: str) -> None:
    place = package(name)
    embedder = qkv.load(place)
    compare_vectors(place, embedder, transformers.AutoModel.from_pretrained(place).float().eval())
    if name == "minilm":
        assert embedder.about["pool"] == "mean"
        assert embedder.about["normalise"] is True
        assert embedder.about["max_length"] == 256


def test_real_weights_of_a_pickle(tmp_path: Path) -> None:
    """The folder is refused; saved once more by transformers, as the sentence says, it opens."""
    place = package("m3e")
    with pytest.raises(InputError, match=r"is a pickle.*transformers and save it as model.safetensors"):
        qkv.load(place)
    model = transformers.AutoModel.from_pretrained(place).eval()
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    model.save_pretrained(tmp_path)
    compare_vectors(tmp_path, qkv.load(tmp_path), model)


@torch.inference_mode()
def compare_vectors(place: Path, embedder: Any, model: Any) -> None:
    """Means over the states of tokens: cosine above 0.99999."""
    rust = tokenizers.Tokenizer.from_file(str(place / "tokenizer.json"))
    rust.no_padding()
    rust.no_truncation()
    backbone = embedder.model.backbone if isinstance(embedder.model, Headed) else embedder.model
    for sentence in SENTENCES:
        given = torch.tensor([rust.encode(sentence).ids])
        ids, _ = backbone.frame.join(embedder.tokenizer, [embedder.tokenizer.encode(sentence)], 512)
        expected = model(given).last_hidden_state[0].mean(dim=0)
        found = backbone.encode(torch.tensor([ids]))[0].mean(dim=0)
        assert len(ids) == given.size(1)
        assert torch.cosine_similarity(found, expected, dim=0) > 0.99999
