"""Other people's tokenizers as ours: their tokens in our order, in a plain tokenizer.json that can be saved and opened.

Read are tokenizer.json; vocab.txt, which is BERT's; and vocab.json with merges.txt, which are GPT-2's, RoBERTa's or
OpenAI GPT's. What they put around a text, cut and padded, is left out: that is done by the models' frames.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models

from qkv.errors import InputError
from qkv.files import read_json, read_text
from qkv.text.adopted import Adopted, kind_of
from qkv.text.kinds import SPECIALS, UNK, ByteBPE, Tree, WordPiece, added_tokens, make_frame, numbered
from qkv.text.tokenizer import Tokenizer

# Our special tokens, the keys by which their settings name the one that plays the part, and its usual names. In the
# order of choosing: GPT-2's only one is the end, whatever else it is said to be.
PARTS = {
    "</s>": (("sep_token", "eos_token"), ("[SEP]", "</s>", "<|endoftext|>", "<sep>")),
    "<s>": (("cls_token", "bos_token"), ("[CLS]", "<s>", "<cls>")),
    "<pad>": (("pad_token",), ("[PAD]", "<pad>")),
    "<unk>": (("unk_token",), ("[UNK]", "<unk>")),
    "<mask>": (("mask_token",), ("[MASK]", "<mask>")),
}
BARE = {"truncation": None, "padding": None, "post_processor": None}
WORD_END = "</w>"  # OpenAI GPT's


def adopt(
    folder: Path, *, size: int = 0, parts: Mapping[str, int] | None = None, extra: Sequence[str] = ()
) -> tuple[Tokenizer, list[int]]:
    """The tokenizer of their folder, and for each of our ids theirs, or -1 where they have none.

    <pad>, <s>, </s> and <unk> are the first four, the others follow in their order. `size` is the number of rows of
    their model, if it has more than the vocabulary has tokens; `parts` says which ids of theirs play the part of some
    special tokens, if their settings do not; `extra` are special tokens to add at the end, if they are not there.
    """
    settings = read_settings(folder)
    raw, rust, path = read(folder, settings)
    words = in_order(rust.get_vocab(with_added_tokens=True), path)
    if size and len(words) > size:
        raise InputError(f"{path} has {len(words)} tokens but the model has {size}; copy the whole model folder again")
    tree = json.loads(rust.to_str()) | BARE
    if tree["model"]["type"] == "Unigram":  # the library reads and writes scores that are not the same to the last bit
        tree["model"]["vocab"] = raw["model"]["vocab"]
    is_whole = words[: len(SPECIALS)] == SPECIALS and size in (0, len(words)) and {*extra} <= {*words}
    if is_whole and (kind := kind_of(tree)):  # it was ours before
        return Tokenizer(compact(tree), kind), list(range(len(words)))
    words += [f"<id {number}>" for number in range(len(words), size)]
    played = find_parts(words, unknown(tree["model"], words, path), settings, parts or {})
    first = [played.get(name, -1) for name in SPECIALS]
    rows = first + [number for number in range(len(words)) if number not in first]
    names = {number: name for name, number in played.items()}
    taken = {*SPECIALS, *played}  # a token of theirs that is spelled so and plays no part is never written by a text
    ours = SPECIALS + [
        names.get(row) or (words[row] if words[row] not in taken else f"<id {row}>") for row in rows[len(SPECIALS) :]
    ]
    more = [name for name in extra if name not in ours]
    rows, ours = rows + [-1] * len(more), ours + more
    new = {words[row]: name for row, name in zip(rows, ours, strict=True) if row >= 0}
    tree = unspelled(rewrite(tree, new, ours, {*played, *extra}), path)
    return Tokenizer(compact(tree), Adopted(tree)), rows


# -- reading ---------------------------------------------------------------------------------------------------------


def read_settings(folder: Path) -> Tree:
    """What tokenizer_config.json and special_tokens_map.json say; tokens are given by their spelling."""
    found = read_table(folder / "tokenizer_config.json") | read_table(folder / "special_tokens_map.json")
    return {key: value["content"] if is_token(value) else value for key, value in found.items()}


def read_table(path: Path) -> Tree:
    """A table in JSON; nothing where there is no such file."""
    try:
        return dict(read_json(path)) if path.exists() else {}
    except (OSError, ValueError, TypeError):
        raise InputError(f"{path} is damaged: it is not a table in JSON; copy it again") from None


def is_token(value: Any) -> bool:
    return isinstance(value, dict) and "content" in value


def read(folder: Path, settings: Tree) -> tuple[Tree, tokenizers.Tokenizer, Path]:
    """Their tokenizer as it is written, as the library reads it, and the file that says so."""
    path = next(
        (folder / name for name in ("tokenizer.json", "vocab.txt", "vocab.json") if (folder / name).exists()), None
    )
    if path is None or (path.name == "vocab.json" and not (folder / "merges.txt").exists()):
        raise InputError(
            f"{folder} has no tokenizer that is read: tokenizer.json, or vocab.txt, or vocab.json with merges.txt; "
            "save its tokenizer there as a tokenizer.json, with transformers"
        )
    try:
        if path.name == "tokenizer.json":
            tree = read_json(path)
        else:
            tree = (
                word_pieces(path, settings)
                if path.name == "vocab.txt"
                else byte_pairs(path, path.with_name("merges.txt"))
            )
        tree = settle(tree, settings)
        return tree, tokenizers.Tokenizer.from_str(json.dumps(tree)), path
    except Exception as error:  # the library raises bare Exception
        raise InputError(f"{path} is damaged: {' '.join(str(error).split())}; copy it again") from None


def word_pieces(path: Path, settings: Tree) -> Tree:
    """BERT's: a token in each line."""
    words = read_text(path).removesuffix("\n").split("\n")
    unk = settings.get("unk_token", "[UNK]")
    model = {"type": "WordPiece", "unk_token": unk, "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    return {**WordPiece().frame, "model": {**model, "vocab": numbered(words)}}


def byte_pairs(path: Path, merges: Path) -> Tree:
    """GPT-2's and RoBERTa's, whose letters are bytes; or OpenAI GPT's, in which </w> ends a word."""
    vocab, pairs = models.BPE.read_file(str(path), str(merges))
    merged = [list(pair) for pair in pairs]
    model = {"type": "BPE", "dropout": None, "fuse_unk": False, "vocab": vocab, "merges": merged}
    if not any(word.endswith(WORD_END) for word in vocab):
        return {**ByteBPE().frame, "model": {**model, "unk_token": None}}
    frame = make_frame(WordPiece().frame["normalizer"], {"type": "BertPreTokenizer"})
    frame["decoder"] = {"type": "BPEDecoder", "suffix": WORD_END}
    return {**frame, "model": {**model, "unk_token": SPECIALS[UNK], "end_of_word_suffix": WORD_END}}


def begins(folder: Path) -> bool:
    """Whether their tokenizer puts a special token before a text, as Llama's does, when it writes on."""
    settings, path = read_settings(folder), folder / "tokenizer.json"
    if "add_bos_token" in settings or not path.exists():
        return settings.get("add_bos_token") is True
    last = read_json(path).get("post_processor") or {}
    steps = [step for step in last.get("processors", [last]) if step.get("type") == "TemplateProcessing"]
    return any("SpecialToken" in step["single"][0] for step in steps if step["single"])


def settle(tree: Tree, settings: Tree) -> Tree:
    """As in transformers, tokenizer_config.json has the last word on a few steps."""
    steps = {"normalizer": {"do_lower_case": "lowercase", "strip_accents": "strip_accents",
                            "tokenize_chinese_chars": "handle_chinese_chars"},
             "pre_tokenizer": {"add_prefix_space": "add_prefix_space"}}  # fmt: skip
    for part, keys in steps.items():
        step = tree.get(part)
        if step and step.get("type") in ("BertNormalizer", "ByteLevel"):
            tree[part] = step | {own: settings[key] for key, own in keys.items() if key in settings}
    return tree


def in_order(theirs: dict[str, int], path: Path) -> list[str]:
    """Their tokens by id; there must be one for each."""
    words = sorted(theirs, key=theirs.__getitem__)
    for number, word in enumerate(words):
        if theirs[word] != number:
            what = f"two tokens with the id {number - 1}" if theirs[word] < number else f"no token with the id {number}"
            raise InputError(f"{path} has {what}, so that it fits no model; copy it again")
    for word in read_table(path.with_name("added_tokens.json")):
        if word not in theirs:
            raise InputError(
                f"{path.with_name('added_tokens.json')} adds {word!r}, which {path.name} does not have; save the "
                "tokenizer there as a tokenizer.json, with transformers"
            )
    return words


# -- putting in order ------------------------------------------------------------------------------------------------


def unknown(model: Tree, words: list[str], path: Path) -> str | None:
    """What their model writes for what it does not know. Only byte-pairs can do without, which have all bytes."""
    token = model.get("unk_token")
    if model["type"] == "Unigram" and model["unk_id"] is not None:
        token = words[model["unk_id"]]
    if token not in words and model["type"] != "BPE":
        raise InputError(f"{path} has no token for words that it does not know ({token}); copy it again")
    return token


def find_parts(words: list[str], unk: str | None, settings: Tree, given: Mapping[str, int]) -> dict[str, int]:
    """Which of their ids plays the part of which special token of ours; none plays two."""
    played, theirs = dict(given), numbered(words)
    for ours, (keys, usual) in PARTS.items():
        names = [*([unk] if ours == SPECIALS[UNK] else []), *map(settings.get, keys), *usual]
        known = (theirs[name] for name in names if isinstance(name, str) and name in theirs)
        number = next((number for number in known if number not in played.values()), None)
        if ours not in played and number is not None:
            played[ours] = number
    return played


def rewrite(tree: Tree, new: dict[str, str], ours: list[str], special: set[str]) -> Tree:
    """Their tokenizer.json with our tokens in our order; `new` has our names of theirs."""
    model, numbers = tree["model"], numbered(ours)
    if model["type"] == "Unigram":
        scores = {new[piece]: score for piece, score in model["vocab"]}
        unk = numbers[new[model["vocab"][model["unk_id"]][0]]]
        model = {**model, "vocab": [[name, scores.get(name, 0.0)] for name in ours], "unk_id": unk}
    else:
        model = {**model, "vocab": numbers, "unk_token": new.get(model["unk_token"])}
    if model["type"] == "BPE":
        model["dropout"] = None  # which would make the same text other ids each time
    added = {new[token["content"]]: token for token in tree["added_tokens"]}
    named = {*special, *(name for name in added if name in new)} - {*SPECIALS}  # and none whose name another has now
    plain = added_tokens([""], 0)[0]
    marked = [
        {**plain, **added.get(name, {}), "id": numbers[name], "content": name}
        | ({"special": True} if name in special else {})
        for name in sorted(named, key=numbers.__getitem__)
    ]
    return {**tree, "added_tokens": [*added_tokens(SPECIALS, 0), *marked], "model": model}


def compact(tree: Tree) -> str:
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"))


def unspelled(tree: Tree, path: Path | str) -> Tree:
    """A tokenizer.json whose special tokens no text can spell, though they are among the pieces that it looks for
    (SentencePiece's are): a last step parts what is spelled like them."""
    names = [token["content"] for token in tree["added_tokens"] if token["special"]]
    for attempt in range(2):
        try:
            rust = tokenizers.Tokenizer.from_str(json.dumps(tree))
        except Exception as error:  # the library raises bare Exception
            raise InputError(f"{path} is damaged: {' '.join(str(error).split())}; copy it again") from None
        rust.encode_special_tokens = True
        ids = {name: {*rust.encode(name).ids, *rust.encode(f"a {name}").ids} for name in names}
        spelled = [name for name in names if rust.token_to_id(name) in ids[name] - {UNK}]
        if not spelled:
            return tree
        if attempt:
            break
        inside = "|".join(f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in names)
        apart = {"type": "Split", "pattern": {"Regex": inside}, "behavior": "MergedWithPrevious", "invert": False}
        steps = [step for step in (tree["pre_tokenizer"], apart) if step]
        tree = {**tree, "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}}
    raise InputError(f"{path}: plain text can spell its special token {spelled[0]!r}; rename it there")
