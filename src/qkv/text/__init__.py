"""Text: examples of each shape out of files, checked; sentences out of text; tokens out of sentences."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

from qkv.errors import InputError, nearest
from qkv.text.choices import read_choice_records
from qkv.text.conllu import read_conll, read_parts_of_speech
from qkv.text.examples import (
    ChoiceQuestion,
    Labelled,
    LabelledPair,
    Link,
    Monolingual,
    Pair,
    SpanQuestion,
    Summarised,
    Tagged,
    Text,
)  # fmt: skip
from qkv.text.exchange import read_po, read_tmx, read_xliff, tmx_languages
from qkv.text.labelled import read_labelled_pair_records, read_labelled_records, read_names, read_treebank
from qkv.text.language import from_name, without_regions
from qkv.text.lines import check_file, read_lines, suffix
from qkv.text.links import links_of, read_link_records
from qkv.text.pairs import read_pair_objects, read_pair_rows, read_plain, row_languages
from qkv.text.spans import read_squad
from qkv.text.summaries import read_leads, read_summary_records
from qkv.text.texts import BORDERS, read_json_texts, read_plain_text, whole
from qkv.text.units import read_named_texts, read_treebank_texts

# (path, source language, target language, what was skipped) -> pairs
PairReader = Callable[[Path, str | None, str | None, Counter[str]], Iterator[Pair]]

# By the end of a file's name; each may be followed by .gz. Any other file is plain text, one sentence on a line.
PAIRS: dict[str, PairReader] = {
    ".tsv": read_pair_rows,
    ".csv": read_pair_rows,
    ".jsonl": read_pair_objects,
    ".tmx": read_tmx,
    ".xlf": read_xliff,
    ".xliff": read_xliff,
    ".po": read_po,
}

# (path, source language, target language) -> both languages, for files that can name them in either order
Namer = Callable[[Path, str | None, str | None], tuple[str, str] | None]
NAMERS: dict[str, Namer] = {".tsv": row_languages, ".csv": row_languages, ".tmx": tmx_languages}

# (path, what parts documents, key of the text in JSON) -> texts; any other file is plain text.
TEXTS: dict[str, Callable[[Path, str, str], Iterator[Text]]] = {
    ".jsonl": read_json_texts, ".conllu": read_treebank_texts, ".conll": read_named_texts
}  # fmt: skip

# Any other file is read like the first.
RECORDS = (".tsv", ".csv", ".jsonl")
LABELLED: dict[str, Callable[[Path], Iterator[Labelled]]] = {
    **dict.fromkeys(RECORDS, read_labelled_records), ".conllu": read_treebank, ".conll": read_names
}  # fmt: skip
LABELLED_PAIRS = dict.fromkeys(RECORDS, read_labelled_pair_records)
TAGGED = {".conll": read_conll, ".conllu": read_parts_of_speech}
LINKS = dict.fromkeys(RECORDS, read_link_records)
SPANS = {".json": read_squad}
SUMMARIES = {**dict.fromkeys(RECORDS, read_summary_records), ".txt": read_leads}
CHOICES = {".jsonl": read_choice_records, ".tsv": read_choice_records, ".csv": read_choice_records}

T = TypeVar("T")


def read_pairs(
    paths: Sequence[Path], *, source: str | None, target: str | None, skipped: Counter[str] | None = None
) -> Iterator[Pair]:
    """The pairs of one or more files with a suffix of PAIRS, or of two plain files, as a stream.

    `skipped` counts what was no pair at all, by reason, for example units of a TMX without one of the languages.
    All files are read in the direction of the first, see `languages`.
    """
    _check(paths, "one file of pairs, or a source file and a target file")
    counted = Counter() if skipped is None else skipped
    plain = [path for path in paths if suffix(path) not in PAIRS]
    if not plain:
        if len(paths) > 1:
            source, target = languages(paths, source, target)
        return chain.from_iterable(PAIRS[suffix(path)](path, source, target, counted) for path in paths)
    expected = f"give two plain files (source, target), or files whose names end in {', '.join(PAIRS)}"
    if len(plain) < len(paths):
        raise InputError(f"{plain[0]} is plain text and cannot be read together with the other files; {expected}")
    if len(paths) != 2:
        given = "1 plain file" if len(paths) == 1 else f"{len(paths)} plain files"
        raise InputError(f"{given} given ({', '.join(map(str, paths))}); {expected}")
    return read_plain(paths[0], paths[1])


def languages(
    paths: Sequence[Path], source: str | None = None, target: str | None = None
) -> tuple[str | None, str | None]:
    """The source and target language: what is given here, or what the names of two plain files tell (train.en.gz ->
    "en"), or what the first file says that names its languages."""
    if len(paths) == 2 and not any(suffix(path) in PAIRS for path in paths):
        return source or from_name(paths[0]), target or from_name(paths[1])
    for path in paths:
        if not (source and target) and (name := NAMERS.get(suffix(path))) and (found := name(path, source, target)):
            codes = without_regions(*found)
            source, target = source or codes[0], target or codes[1]
    return source, target


def read_sentences(paths: Sequence[Path]) -> Iterator[Monolingual]:
    """The lines of plain files, as a stream, each in the language that its file's name says, if it says one."""
    _check(paths)
    for path in paths:
        if (end := suffix(path)) in PAIRS:
            raise InputError(f"{path} ends in {end}, and plain files were expected: a sentence on each line")
        for number, line in enumerate(read_lines(path), start=1):
            yield Monolingual(line, from_name(path) or "", f"{path} line {number}")


def read_texts(paths: Sequence[Path], *, documents: str = "file", field: str = "text") -> Iterator[Text]:
    """The documents of some files, to the letter, as a stream; a long one in pieces of some 64 thousand characters.

    `documents` says what parts the documents of a plain file: "file" (each file is one), "blank_lines" or "lines". Each
    object of a .jsonl is one, under the key `field`. With "labelled", files are read as `read_labelled` does, and each
    text is one, without its label.
    """
    if documents == "labelled":
        return chain.from_iterable(whole(one.text, one.place) for one in read_labelled(paths))
    if documents not in BORDERS:
        raise InputError(f"unknown border of documents {documents!r}; {nearest(documents, (*BORDERS, 'labelled'))}")
    _check(paths)
    readers = ((path, TEXTS.get(suffix(path), read_plain_text)) for path in paths)
    return chain.from_iterable(_with_words(path, reader(path, documents, field)) for path, reader in readers)


def _with_words(path: Path, texts: Iterator[Text]) -> Iterator[Text]:
    is_empty = True
    for text in texts:
        is_empty = is_empty and not text.text.strip()
        yield text
    if is_empty:
        raise InputError(f"{path} has no text; give files with at least a word in each")


def read_labelled(paths: Sequence[Path]) -> Iterator[Labelled]:
    """The texts of some files with their labels, as a stream."""
    return _read(LABELLED, paths)


def read_labelled_pairs(paths: Sequence[Path]) -> Iterator[LabelledPair]:
    """The pairs of texts of some files with their label or number, as a stream."""
    return _read(LABELLED_PAIRS, paths)


def read_tagged(paths: Sequence[Path]) -> Iterator[Tagged]:
    """The sentences of some files, each word with its tag, as a stream."""
    return _read(TAGGED, paths)


def read_links(paths: Sequence[Path], *, near: int = 5) -> Iterator[Link]:
    """The links of some files, as a stream: those of tables; of texts with marked names (.conllu, .conll), each name
    and the next `near` behind it."""
    _check(paths)
    for path in paths:
        if suffix(path) in (".conllu", ".conll"):
            yield from links_of(TEXTS[suffix(path)](path, "", ""), near)
        else:
            yield from _read(LINKS, [path])


def read_spans(paths: Sequence[Path]) -> Iterator[SpanQuestion]:
    """The questions of some files whose answers are parts of a text."""
    return _read(SPANS, paths)


def read_summaries(paths: Sequence[Path], skipped: Counter[str] | None = None) -> Iterator[Summarised]:
    """The documents of some files with their summaries, as a stream; `skipped` counts what was no example, by reason.

    A .txt has articles, with headings as WikiText has them: what stands before the sections is their summary.
    """
    counted = Counter() if skipped is None else skipped
    return _read({ending: partial(read, skipped=counted) for ending, read in SUMMARIES.items()}, paths)


def read_choices(paths: Sequence[Path]) -> Iterator[ChoiceQuestion]:
    """The questions of some files with their choices, as a stream."""
    return _read(CHOICES, paths)


def _read(table: Mapping[str, Callable[[Path], Iterator[T]]], paths: Sequence[Path]) -> Iterator[T]:
    """The examples of all files, one file after the other, each by the end of its name."""
    _check(paths)
    first = next(iter(table.values()))
    return chain.from_iterable(table.get(suffix(path), first)(path) for path in paths)


def _check(paths: Sequence[Path], expected: str = "one or more files") -> None:
    if not paths:
        raise InputError(f"no file was given; give {expected}")
    for path in paths:
        check_file(path)
