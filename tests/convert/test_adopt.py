"""Other people's tokenizers give the ids that transformers gives with the same files, in our order."""

import json
import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

import qkv
from corpora import CORPORA
from kit import DATA, PACKAGES, package, real_lines, refused, save_untrained
from qkv.convert import adopt
from qkv.errors import InputError
from qkv.folder import RunFolder
from qkv.tasks.corpus import Corpus, learn_tokenizer
from qkv.text.tokenizer import BOS, EOS, PAD, SPECIALS, UNK, Tokenizer

transformers = pytest.importorskip("transformers", reason="transformers is not installed; pip install 'qkv[dev]'")

OTHER = ("stories15m", "argos", "firefox")  # whose tokenizers are of other forms
FOLDERS = [name for name in PACKAGES if name not in OTHER]

# Letters of many scripts, signs, marks that combine, and white space and controls of all sorts.
LETTERS = [
    "abcxyzABCXYZ", "àéîõüßÅŁøĳ", "αβγδΩ", "приветЖ", "שלום", "مرحبا", "नमस्ते", "สวัสดี", "안녕하세요",
    "你好世界學習", "こんにちはカナ", "0123456789٣²½", ".,;:!?'\"()[]{}<>/|@#$%^&*-_=+~`«»…—", "👍🏽👩‍👧🇩🇪❤️",
    "e\u0301a\u0323\u0308", "\u00a0\u3000\u2028\u200b\u00ad\t\r\x07",
]  # fmt: skip


def made_lines(count: int, seed: int = 1) -> list[str]:
    """Words of one script each, mostly, with one or more spaces between them or none."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        words = ["".join(rng.choices(rng.choice(LETTERS), k=rng.randint(1, 8))) for _ in range(rng.randint(0, 12))]
        english = rng.choices(["the", " dogs", "isn't", "unbelievably", "GPT-2's", "<", "[unused5]", "\n\n"], k=5)
        lines.append("".join(f"{word}{rng.choice(['', ' ', ' ', '  '])}" for word in [*words, *english]))
    return lines


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """1,000 lines of real text, where they are, and others. What theirs read as a special token is left out."""
    lines = made_lines(400) + (real_lines() if DATA.exists() else [])
    return [line.replace("<unk>", "unknown") for line in lines]


def same_ids(folder: Path, theirs: Any, texts: list[str]) -> Tokenizer:
    ours, rows = adopt(folder)
    assert sorted(row for row in rows if row >= 0) == list(range(len(theirs))), "each of theirs once"
    expected = theirs(texts, add_special_tokens=False, truncation=False, padding=False).input_ids
    assert [[rows[number] for number in ids] for ids in ours.encode_batch(texts)] == expected
    assert ours.vocabulary()[: len(SPECIALS)] == SPECIALS
    return ours


def theirs_of(name: str) -> Any:
    folder = package(name)
    if (folder / "config.json").exists():
        return transformers.AutoTokenizer.from_pretrained(folder)
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))


@pytest.mark.parametrize("name", FOLDERS)
def test_a_tokenizer_json_gives_their_ids(name: str, texts: list[str]) -> None:
    ours = same_ids(package(name), theirs_of(name), texts)
    if name in ("gpt2", "roberta"):
        assert ours.decode_batch(ours.encode_batch(texts)) == texts


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True},
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": False},
    ],
)
def test_a_vocab_txt_is_berts(settings: dict[str, Any], texts: list[str], tmp_path: Path) -> None:
    shutil.copy(package("minilm") / "vocab.txt", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    same_ids(tmp_path, transformers.BertTokenizer.from_pretrained(tmp_path), texts)


def write_pairs(folder: Path, model: dict[str, Any]) -> None:
    """The files that GPT-2 and RoBERTa were published in."""
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    merges = "".join(f"{first} {second}\n" for first, second in pairs)
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}", encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "kind", "settings"),
    [
        ("gpt2", "GPT2Tokenizer", {}),
        ("roberta", "RobertaTokenizer", {}),
        ("roberta", "RobertaTokenizer", {"add_prefix_space": True}),
    ],
)
def test_vocab_json_and_merges_are_gpt_2s(
    name: str, kind: str, settings: dict[str, bool], texts: list[str], tmp_path: Path
) -> None:
    write_pairs(tmp_path, json.loads((package(name) / "tokenizer.json").read_text(encoding="utf-8"))["model"])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    same_ids(tmp_path, getattr(transformers, kind).from_pretrained(tmp_path), texts)


# -- tokenizers that are learned here, in the form of families of which no package has one -----------------------------


def learned(model: Any, trainer: Any, steps: Any) -> dict[str, Any]:
    rust = tokenizers.Tokenizer(model)
    rust.pre_tokenizer = steps
    rust.train_from_iterator(made_lines(200, seed=2), trainer)
    return json.loads(rust.to_str())["model"]


def write_gpt(folder: Path) -> Any:
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False, limit_alphabet=100
    )
    write_pairs(folder, learned(models.BPE(), trainer, pre_tokenizers.BertPreTokenizer()))
    return transformers.OpenAIGPTTokenizer.from_pretrained(folder)


def write_xlm(folder: Path) -> Any:
    trainer = trainers.UnigramTrainer(vocab_size=400, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False)
    steps = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    pieces = learned(models.Unigram(), trainer, steps)["vocab"][1:]
    first = [(name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")]
    # The library's JSON has other last bits than a score of many digits: where two ways are as good, they decide.
    vocab = [*first, *((piece, round(score, 4)) for piece, score in pieces), ("<mask>", 0.0)]
    transformers.XLMRobertaTokenizer(vocab).save_pretrained(folder)
    return transformers.AutoTokenizer.from_pretrained(folder)


def write_ernie(folder: Path) -> Any:
    """The special tokens stand elsewhere: [UNK] is the last but one."""
    words = package("minilm").joinpath("vocab.txt").read_text(encoding="utf-8").splitlines()[1000:6000]
    words = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *words, "[UNK]", "[X]"]
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return transformers.BertTokenizer.from_pretrained(folder)


LEARNED = {"gpt": write_gpt, "xlm": write_xlm, "ernie": write_ernie}


@pytest.mark.parametrize("name", LEARNED)
def test_other_families_give_their_ids(name: str, texts: list[str], tmp_path: Path) -> None:
    same_ids(tmp_path, LEARNED[name](tmp_path), texts)


def test_tokens_that_were_added(tmp_path: Path) -> None:
    """Plain ones are words of any text, special ones where that is asked for."""
    theirs = transformers.AutoTokenizer.from_pretrained(package("minilm"))
    theirs.add_tokens(["covid19"])
    theirs.add_tokens(["[ENT]"], special_tokens=True)
    theirs.save_pretrained(tmp_path)
    ours, rows = adopt(tmp_path, size=30530)
    assert (len(ours), len(rows)) == (30530, 30530)
    assert ours.vocabulary()[30522:30526] == ["covid19", "[ENT]", "<id 30524>", "<id 30525>"]
    assert ours.special("[ENT]") == 30523
    for text in ("a covid19 case", "acovid19, [ENT]", "a [ENT] [MASK] covid19."):
        assert [rows[number] for number in ours.encode(text, specials=True)] == theirs.encode(text)[1:-1]
    assert 30523 not in ours.encode("a [ENT]")


# -- the order -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[*FOLDERS, *LEARNED])
def adopted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Tokenizer, list[int], Any]:
    """Each of them: its name, as ours, the table of ids, and as theirs."""
    if request.param in FOLDERS:
        return request.param, *adopt(package(request.param)), theirs_of(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    theirs = LEARNED[request.param](folder)
    return request.param, *adopt(folder), theirs


BERTS = [0, 101, 102, 100]
FIRST = {
    **dict.fromkeys(["bert", "minilm", "minilm-fp16", "m3e"], BERTS), "roberta": [1, 0, 2, 3], "xlm": [1, 0, 2, 3],
    "gpt2": [-1, -1, 50256, -1], "gpt": [-1, -1, -1, 0], "ernie": [0, 1, 2, 5004],
}  # fmt: skip


def test_special_tokens_first_and_the_others_in_their_order(adopted: Any) -> None:
    name, ours, rows, theirs = adopted
    assert rows[:4] == FIRST[name]
    assert rows[4:] == sorted(rows[4:])
    assert len(ours) == len(rows) == len(theirs) + FIRST[name].count(-1)
    words = theirs.convert_ids_to_tokens(rows[4:])
    assert ours.vocabulary()[4:] == ["<mask>" if word == "[MASK]" else word for word in words]


def test_special_tokens_are_plain_text_unless_that_is_asked_for(adopted: Any) -> None:
    name, ours, rows, theirs = adopted
    own = ["[CLS]", "[MASK]", "<mask>", "<s>", "</s>", "<pad>", "<|endoftext|>", "<id 7>", "[PAD]"]
    for text in [*own, *(f"a {word} dog{word}" for word in own), "".join(own)]:
        assert not set(ours.encode(text)) & {PAD, BOS, EOS, *ours.specials.values()} - {UNK}, text
    if "<mask>" not in ours.specials:
        assert ours.encode("a <mask>", specials=True) == ours.encode("a <mask>")
        return
    mask = theirs.mask_token if theirs.mask_token else "<mask>" if name == "roberta" else "[MASK]"
    expected = theirs.encode(f"the {mask} dogs {mask}.", add_special_tokens=False)
    for spelled in ("<mask>", "[MASK]"):
        ids = ours.encode(f"the {spelled} dogs {spelled}.", specials=True)
        assert [rows[number] for number in ids] == expected
    assert ours.special("<mask>") == ours.special("[MASK]")
    assert rows[ours.special("<mask>")] == theirs.convert_tokens_to_ids(mask)


def test_it_is_saved_and_opened_as_it_was(adopted: Any, tmp_path: Path) -> None:
    _, ours, _, _ = adopted
    ours.save(tmp_path / "tokenizer.json")
    lines = made_lines(50, seed=3)
    again, rows = adopt(tmp_path)
    for other in (Tokenizer.load(tmp_path / "tokenizer.json"), again):
        assert other.fingerprint == ours.fingerprint
        assert other.encode_batch(lines) == ours.encode_batch(lines)
        assert (other.specials, other.begins_word) == (ours.specials, ours.begins_word)
    assert rows == list(range(len(ours)))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    assert fast(lines).input_ids == ours.encode_batch(lines)


def test_words_and_places(adopted: Any) -> None:
    name, ours, _, _ = adopted
    words = ["the", "dogs", "unbelievably"]
    ids, numbers = ours.encode_words(words)
    assert ids == ours.encode(" ".join(words))
    found, spans = ours.encode_spans("the  dogs\tunbelievably")
    assert len(found) == len(spans)
    assert {start for start, _ in spans} >= {0, 5, 10}
    begins = [ours.begins_word[number] for number in ids]
    if name in ("gpt", "ernie"):  # which end words, or do not know these
        return
    begins[0] = True  # as the first token of a text does
    assert [sum(begins[: i + 1]) - 1 for i in range(len(ids))] == numbers


# -- what else can be asked for, and what is refused -----------------------------------------------------------------


def write_json(folder: Path, vocab: Any, **model: Any) -> Path:
    """A tokenizer.json of words."""
    tree = json.loads(tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).to_str())
    tree["model"] = {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>", **model}
    tree["pre_tokenizer"] = {"type": "WhitespaceSplit"}
    (folder / "tokenizer.json").write_text(json.dumps(tree))
    return folder


def test_their_settings_say_which_token_plays_which_part(tmp_path: Path) -> None:
    """GPT-2's say of one that it is the beginning, the end and the unknown: it is the end."""
    write_json(tmp_path, {"a": 0, "<end>": 1, "<hide>": 2}, type="BPE", merges=[], unk_token=None)
    tree = json.loads((tmp_path / "tokenizer.json").read_text())
    flags = {"single_word": False, "lstrip": True, "rstrip": False, "normalized": False, "special": False}
    spoil(tmp_path, "tokenizer.json", json.dumps({**tree, "added_tokens": [{"id": 2, "content": "<hide>", **flags}]}))
    end = {"content": "<end>", **flags}
    spoil(tmp_path, "special_tokens_map.json", json.dumps({"bos_token": end, "eos_token": "<end>", "unk_token": end}))
    spoil(tmp_path, "tokenizer_config.json", json.dumps({"mask_token": "<hide>", "pad_token": None}))
    ours, rows = adopt(tmp_path)
    assert rows == [-1, -1, 1, -1, 0, 2]
    assert ours.vocabulary() == [*SPECIALS, "a", "<mask>"]
    assert ours.special("<mask>") == 5
    assert 5 not in ours.encode("a <mask> <hide>")


def test_rows_of_the_model_that_no_token_has_and_tokens_that_it_has_not(tmp_path: Path) -> None:
    write_json(tmp_path, {"</s>": 0, "<unk>": 1, "w": 2, "<s>": 3, "<pad>": 4, "<sep>": 5})
    ours, rows = adopt(tmp_path, size=8, parts={"<pad>": 7, "<s>": 2}, extra=["<sep>", "<cls>"])
    assert rows == [7, 2, 0, 1, 3, 4, 5, 6, -1]
    assert ours.vocabulary() == [*SPECIALS, "<id 3>", "<id 4>", "<sep>", "<id 6>", "<cls>"]
    assert {name: ours.special(name) for name in ("<sep>", "<cls>")} == {"<sep>": 6, "<cls>": 8}
    assert ours.encode("<sep> x <cls>", specials=True) == [6, UNK, 8]


def test_words_that_spell_a_special_token_are_parted(tmp_path: Path) -> None:
    """White space alone parts words here, so that they could."""
    write_json(tmp_path, {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "<mask>": 5, "<": 6, "s>": 7})
    ours, _ = adopt(tmp_path)
    assert ours.encode("a <s> <mask> a") == [4, 6, 7, 6, UNK, 4]
    assert ours.encode("a <mask> a", specials=True) == [4, 5, 4]
    assert ours.encode_spans("a <s>")[1] == [(0, 1), (2, 3), (3, 5)]


def test_scores_are_kept_to_the_last_bit(tmp_path: Path) -> None:
    rng = random.Random(1)
    scores = {chr(0x4E00 + n): -20 * rng.random() for n in range(400)}
    vocab = [["<unk>", 0.0], *map(list, scores.items())]
    write_json(tmp_path, vocab, type="Unigram", unk_id=0, byte_fallback=False)
    ours, _ = adopt(tmp_path)
    assert dict(json.loads(ours.to_str())["model"]["vocab"][4:]) == scores


def test_the_same_text_has_the_same_ids_each_time(tmp_path: Path) -> None:
    write_json(tmp_path, {"a": 0, "b": 1, "ab": 2}, type="BPE", merges=[["a", "b"]], dropout=0.5, unk_token=None)
    ours, _ = adopt(tmp_path)
    assert {tuple(ours.encode("ab")) for _ in range(50)} == {(6,)}


def test_a_file_in_another_order_is_not_opened(tmp_path: Path) -> None:
    words = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "a": 4, "<mask>": 5}
    tree = json.loads(adopt(write_json(tmp_path, words))[0].to_str())
    Tokenizer.load(spoil(tmp_path, "good.json", json.dumps(tree)) / "good.json")
    model, added = tree["model"], tree["added_tokens"]
    wrong: list[dict[str, Any]] = [
        {"model": {**model, "vocab": {**words, "a": 5, "<mask>": 4}}},
        {"added_tokens": [*added[:4], {**added[4], "id": 4}]},
        {"added_tokens": added[1:]},
        {"added_tokens": [{**added[0], "special": False}, *added[1:]]},
        {"truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}},
    ]
    for change in wrong:
        place = spoil(tmp_path, "wrong.json", json.dumps({**tree, **change})) / "wrong.json"
        with pytest.raises(InputError, match="is not a tokenizer that qkv trained"):
            Tokenizer.load(place)


def spoil(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder


@refused(
    {
        "nothing": "has no tokenizer that is read: tokenizer.json, or vocab.txt, or vocab.json with merges.txt",
        "vocab.json alone": "has no tokenizer that is read",
        "half a file": "tokenizer.json is damaged: .*; copy it again",
        "a gap": "tokenizer.json has no token with the id 2, so that it fits no model; copy it again",
        "two of one id": "tokenizer.json has two tokens with the id 1, so that it fits no model",
        "a line twice": "vocab.txt has no token with the id 1, so that",
        "a kind that nobody knows": "tokenizer.json is damaged: .*; copy it again",
        "merges of other words": "vocab.json is damaged: .*; copy it again",
        "settings of a list": "tokenizer_config.json is damaged: it is not a table in JSON",
        "nothing for the unknown": r"vocab.txt has no token for words that it does not know \(\[UNK\]\); copy it again",
        "no piece for the unknown": r"tokenizer.json has no token for words that it does not know \(None\); copy it",
        "too many": "tokenizer.json has 4 tokens but the model has 3; copy the whole model folder again",
        "more that were added": r"added_tokens.json adds '\[NEW\]', which vocab.txt does not have",
    }
)
def test_what_cannot_be_adopted_is_refused(wrong: str, tmp_path: Path) -> None:
    words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n"
    write = {
        "nothing": lambda: tmp_path,
        "vocab.json alone": lambda: spoil(tmp_path, "vocab.json", '{"a": 0}'),
        "half a file": lambda: spoil(tmp_path, "tokenizer.json", '{"version": '),
        "a gap": lambda: write_json(tmp_path, {"<unk>": 0, "a": 1, "b": 3}),
        "two of one id": lambda: write_json(tmp_path, {"<unk>": 0, "a": 1, "b": 1}),
        "a line twice": lambda: spoil(tmp_path, "vocab.txt", "[UNK]\na\na\nb\n"),
        "a kind that nobody knows": lambda: write_json(tmp_path, {"<unk>": 0}, type="Letters"),
        "merges of other words": lambda: spoil(spoil(tmp_path, "vocab.json", '{"a": 0}'), "merges.txt", "x y\n"),
        "settings of a list": lambda: spoil(spoil(tmp_path, "vocab.txt", words), "tokenizer_config.json", "[1]"),
        "nothing for the unknown": lambda: spoil(tmp_path, "vocab.txt", "[PAD]\na\n\n"),
        "no piece for the unknown": lambda: write_json(tmp_path, [["a", 0.0]], type="Unigram", unk_id=None),
        "too many": lambda: write_json(tmp_path, {"<unk>": 0, "a": 1, "b": 2, "c": 3}),
        "more that were added": lambda: spoil(spoil(tmp_path, "vocab.txt", words), "added_tokens.json", '{"[NEW]": 5}'),
    }  # fmt: skip
    adopt(write[wrong](), size=3 if wrong == "too many" else 0)


def test_a_step_that_puts_a_space_before_every_text(tmp_path: Path) -> None:
    """As Llama's does: a word that is encoded by itself has it already."""
    words = {"<unk>": 0, "▁": 1, "a": 2, "b": 3, "▁a": 4, "▁b": 5}
    write_json(tmp_path, words, type="BPE", merges=[["▁", "a"], ["▁", "b"]])
    steps = [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    tree = json.loads((tmp_path / "tokenizer.json").read_text())
    tree |= {"normalizer": {"type": "Sequence", "normalizers": steps}, "pre_tokenizer": None}
    spoil(tmp_path, "tokenizer.json", json.dumps(tree))
    ours, _ = adopt(tmp_path)
    assert ours.pieces(ours.encode("a ba")) == ["▁a", "▁b", "a"]
    assert ours.encode_words(["a", "ba"]) == (ours.encode("a ba"), [0, 1, 1])
    assert [ours.begins_word[number] for number in ours.encode("a ba")] == [True, True, False]


# -- fine-tuning -----------------------------------------------------------------------------------------------------


def test_a_run_can_be_given_their_file(tmp_path: Path) -> None:
    path = write_json(tmp_path, {"a": 0, "b": 1, "<unk>": 2}) / "tokenizer.json"
    found = learn_tokenizer(SimpleNamespace(tokenizer=str(path)), [], specials=["<mask>"])
    assert found.vocabulary() == [*SPECIALS, "a", "b", "<mask>"]


def test_a_model_is_tuned_with_it_and_opened_again(tmp_path: Path) -> None:
    """The tokenizer goes along: into the corpus of the run and into the folder that it writes."""
    words = json.loads(Tokenizer.train(made_lines(50), kind="byte_bpe", vocab_size=400).to_str())["model"]
    vocab = [word for word in words["vocab"] if word not in SPECIALS]
    vocab = {word: number for number, word in enumerate([*vocab, "<|endoftext|>"])}
    (tmp_path / "theirs").mkdir()
    write_pairs(tmp_path / "theirs", {**words, "vocab": vocab})
    ours, _ = adopt(tmp_path / "theirs")
    about = {"task": "language_model", "window": 12}
    save_untrained(tmp_path / "first", "gpt2", ours, about, d_model=16, n_heads=2, layers=1, max_length=32)
    text = CORPORA["language_model"].write(tmp_path)
    qkv.train(
        text, task="language_model", start=tmp_path / "first", out=tmp_path / "tuned", quiet=True,
        training={"steps": 2, "threads": 1},
    )  # fmt: skip
    tuned = qkv.load(tmp_path / "tuned")
    corpus = Corpus.open(RunFolder(tmp_path / "tuned").corpus)
    for tokenizer in (tuned.tokenizer, corpus.tokenizer):
        assert tokenizer.fingerprint == ours.fingerprint
        assert tokenizer.encode("A dog sees 12.") == ours.encode("A dog sees 12.")
    assert tuned.generate("A dog", tokens=3).text
    fast = transformers.AutoTokenizer.from_pretrained(tmp_path / "tuned")
    assert fast.encode("A dog sees 12.") == ours.encode("A dog sees 12.")
    assert (fast.pad_token_id, fast.eos_token_id) == (PAD, EOS)
