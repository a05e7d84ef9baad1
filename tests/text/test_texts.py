"""Running text is read to the letter, in documents as asked, in pieces at whose borders no word is cut."""

import gzip
import itertools
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit import real, write
from qkv.errors import InputError
from qkv.text import Text, lines, read_texts, texts
from qkv.text.tokenizer import Tokenizer

NEW_FOLDER_EACH_TIME = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
hard_text = st.text(
    st.sampled_from(" ab\n\n\u3000é\u2028\r世'1.") | st.characters(codec="utf-8", exclude_characters="\0"), min_size=1
)


def joined(pieces: list[Text]) -> list[str]:
    """The documents: a piece that begins none goes on with the one before it."""
    found: list[str] = []
    for piece in pieces:
        found += [piece.text] if piece.begins else [found.pop() + piece.text]
    return found


def plain(text: str) -> str:
    """What a file with this text holds: no byte order mark, LF for CRLF."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


@NEW_FOLDER_EACH_TIME
@given(text=hard_text, piece=st.integers(1, 9), block=st.integers(1, 9))
def test_documents_are_what_the_borders_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, piece: int, block: int
) -> None:
    """Against the whole text cut at once, with blocks and pieces so small that every border falls into some."""
    monkeypatch.setattr(texts, "PIECE", piece)
    monkeypatch.setattr(lines, "BLOCK", block)
    text = plain(text) + "x"  # so that there is text
    path = write(tmp_path / "a.txt", text)
    every = text.split("\n")
    groups = itertools.groupby(every, key=lambda line: bool(line.strip()))
    assert joined(list(read_texts([path]))) == [text]
    if all(len(line) < piece or line.strip() for line in every):  # white space that fills a piece is text
        assert joined(list(read_texts([path], documents="lines"))) == [line for line in every if line.strip()]
        paragraphs = ["\n".join(group) for is_text, group in groups if is_text]
        assert joined(list(read_texts([path], documents="blank_lines"))) == paragraphs


def test_verbatim_but_for_the_mark_and_the_line_ends(tmp_path: Path) -> None:
    raw = "\ufeff  A\u00a0b\r\n\r\n\tc  \ne\u0301\r"
    for name in ("a.txt", "a", "a.en", "a.txt.gz"):
        path = write(tmp_path / name, raw)
        assert list(read_texts([path])) == [Text("  A\u00a0b\n\n\tc  \ne\u0301\r", f"{path} line 1", True)]
        paragraphs = list(read_texts([path], documents="blank_lines"))
        assert paragraphs == [
            Text("  A\u00a0b", f"{path} line 1", True),
            Text("\tc  \ne\u0301\r", f"{path} line 3", True),
        ]


@pytest.mark.parametrize("block", [1, 2, 3, 4])
def test_a_line_end_in_two_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(lines, "BLOCK", block)
    path = write(tmp_path / "a.txt", "a\r\n\r\nb\rc\r\r\nd\r")
    assert "".join(text.text for text in read_texts([path])) == "a\n\nb\rc\r\nd\r"
    assert list(lines.read_lines(path)) == ["a", "", "b\rc\r", "d"]


def test_blank_lines_at_both_ends_are_no_documents(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\n \na\n\n  ")
    for documents in ("blank_lines", "lines"):
        assert list(read_texts([path], documents=documents)) == [Text("a", f"{path} line 3", True)]


def test_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.txt", "one\ntwo\n"), write(tmp_path / "b.txt", "three\n")
    assert [text.text for text in read_texts([first, second])] == ["one\ntwo\n", "three\n"]
    assert [(text.text, text.place) for text in read_texts([second, first], documents="lines")] == [
        ("three", f"{second} line 1"), ("one", f"{first} line 1"), ("two", f"{first} line 2"),
    ]  # fmt: skip


def test_each_json_object_is_a_document(tmp_path: Path) -> None:
    long = " ".join(f"word{i}" for i in range(30_000))
    records = [{"text": "a\n\nb\n", "id": 1}, {"text": " "}, {"text": long}]
    path = write(tmp_path / "a.jsonl.gz", "\n\n".join(map(json.dumps, records)))
    found = list(read_texts([path]))
    assert joined(found) == ["a\n\nb\n", long]
    assert {text.place for text in found} == {f"{path} line 1", f"{path} line 5"}
    assert len(found) > 3
    other = write(tmp_path / "b.jsonl", '{"content": "x"}')
    assert [text.text for text in read_texts([other], field="content")] == ["x"]


PARAGRAPHS = [
    "It isn't  here,\nnor there!",
    "  indented\n\n\n",
    "世界 世界\n",
    "a " * 40 + "\n",
    "a  b \t c" * 9,
    ("ab" + 7 * " ") * 12,
    " x \n\n y",
    "1 23\n\t4",
] * 9


@pytest.mark.parametrize("piece", [20, 100, 300])
def test_no_word_is_cut_where_a_good_place_is_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    """The ids of the pieces of GPT-2's kind of tokenizer are those of the whole text."""
    text = "\n".join(PARAGRAPHS)
    tokenizer = Tokenizer.train([text], kind="byte_bpe", vocab_size=400)
    monkeypatch.setattr(texts, "PIECE", piece)
    found = [piece.text for piece in read_texts([write(tmp_path / "a.txt", text)])]
    assert len(found) > 3
    assert list(itertools.chain(*tokenizer.encode_batch(found))) == tokenizer.encode(text)


@pytest.mark.parametrize("documents", texts.BORDERS)
def test_real_text(documents: str) -> None:
    path = real("wikitext-2", "valid.txt.gz")
    raw = gzip.decompress(path.read_bytes()).decode()
    found = list(read_texts([path], documents=documents))
    assert "".join(text.text for text in found).split() == raw.split()
    assert max(len(text.text) for text in found) < 2 * texts.PIECE
    if documents == "file":
        tokenizer = Tokenizer.train([raw], kind="byte_bpe", vocab_size=1000)
        assert list(itertools.chain(*tokenizer.encode_batch([text.text for text in found]))) == tokenizer.encode(raw)


@pytest.mark.parametrize(
    "unit", ["many words on one line ", "no_space_at_all", "words in lines, as people write them\n"]
)
def test_memory_stays_flat(tmp_path: Path, unit: str) -> None:
    path = write(tmp_path / "a.txt", unit * (12_000_000 // len(unit)))
    tracemalloc.start()
    size = sum(len(text.text) for text in read_texts([path]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == path.stat().st_size
    assert peak < 5_000_000


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"ab\ncd\xfcx", r"line 2, byte 3 \(0xfc\) is not UTF-8"),
        ("äöü".encode() + b"\xe4\xb8", r"line 1, byte 7 \(0xe4\) is not UTF-8"),
        (b"abcdefg\nabcdefgh\xe4\xb8x", r"line 2, byte 9 \(0xe4\) is not UTF-8"),
        (b"a\r\nbcdefgh\0", r"line 2, byte 8 \(0x00\) is a NUL byte"),
        (bytes(range(256)), r"line 1, byte 1 \(0x00\) is a NUL byte"),
        (b"\xff\xfea\0", r"line 1, byte 1 \(0xff\) is not UTF-8"),
        (b"\xef\xbb\xbf\xff", r"line 1, byte 4 \(0xff\) is not UTF-8"),
    ],
)
@pytest.mark.parametrize("block", [1, 2, 3, 5, 64])
def test_errors_name_line_and_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, place: str, block: int
) -> None:
    monkeypatch.setattr(lines, "BLOCK", block)
    with pytest.raises(InputError, match=rf"a\.txt {place}"):
        list(read_texts([write(tmp_path / "a.txt", content)]))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.txt", "", "a.txt has no text; give files with at least a word"),
        ("a.txt", " \n\t\n", "a.txt has no text"),
        ("a.jsonl", '{"text": ""}', "a.jsonl has no text"),
        ("a.jsonl", '{"txt": "b"}', r"a.jsonl line 1 has no 'text', only the keys 'txt'; write .* say which key"),
        ("a.jsonl", '{"text": [1]}', "line 1 has 1 as 'text' where a text in quotes was expected"),
        ("a.jsonl", '{"text": "b"}\nb', "line 2 is not valid JSON"),
    ],
)
def test_files_without_text_are_refused(tmp_path: Path, name: str, content: str | bytes, sentence: str) -> None:
    path = write(tmp_path / name, content)
    for documents in texts.BORDERS:
        with pytest.raises(InputError, match=sentence):
            list(read_texts([path], documents=documents))


def test_wrong_questions_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "a")
    with pytest.raises(InputError, match="is a folder, not a file; give the path of a file"):
        read_texts([path, tmp_path])
    with pytest.raises(InputError, match="there is no file"):
        read_texts([path, tmp_path / "b.txt"])
    with pytest.raises(InputError, match="no file was given"):
        read_texts([])
    with pytest.raises(InputError, match="unknown border of documents 'line'; did you mean 'lines'"):
        read_texts([path], documents="line")


def test_this_room_needs_no_torch() -> None:
    program = f"""
import sys, types
sys.modules["qkv"] = package = types.ModuleType("qkv")  # the room alone, without what qkv/__init__.py imports
package.__path__ = [{str(Path(lines.__file__).parents[1])!r}]
import qkv.text.tokenizer, qkv.text.doctor, qkv.text.cloze, qkv.text.sentences
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
