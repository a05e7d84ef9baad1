"""Damaged files: whatever bytes are changed, a file is translated or refused with a sentence."""

import io
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.documents import translate_file
from qkv.documents.docx import Docx
from qkv.documents.format import Languages
from qkv.documents.markdown import Markdown
from qkv.errors import InputError

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
XML = f'<w:document xmlns:w="{WORD}"><w:body><w:p><w:r><w:t>Two dogs</w:t></w:r></w:p></w:body></w:document>'
PAGE = b"# Two *dogs*\n\n| a | b |\n|---|---|\n| dog | [snow](http://a.b) |\n\n- one\n  two\n"


def packed() -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("word/document.xml", XML)
    return whole.getvalue()


def opens(kind: Any, data: bytes) -> bool:
    """Whether it can be read, and written as it was; the only other way out is a sentence."""
    try:
        document = kind(data, "a", Languages("en", "de"))
        document.write([None] * len(document.segments))
    except InputError:
        return False
    return True


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CR LF", "CR"])
def test_markdown_has_three_ends_of_lines(end: str, upper: Any, tmp_path: Path) -> None:
    """A lone CR ends a line, too, though few editors write one."""
    (tmp_path / "a.md").write_bytes(f"# dogs{end}{end}one{end}two{end}{end}- cats{end}".encode())
    translate_file(upper, tmp_path / "a.md", tmp_path / "b.md")
    assert (tmp_path / "b.md").read_bytes() == f"# DOGS{end}{end}ONE{end}TWO{end}{end}- CATS{end}".encode()


def test_a_word_file_whose_end_came_first_is_refused() -> None:
    """The table of its parts then points before its beginning, for which zipfile has a plain ValueError."""
    whole = packed()
    table = whole.index(b"PK\x01\x02")
    with pytest.raises(InputError, match=r"^a is not a sound Word file \(.*\); save it again as .docx$"):
        Docx(whole[table - 10 :], "a", Languages())


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_no_damage_is_more_than_a_sentence(seed: int) -> None:
    rng = random.Random(seed)
    for kind, data in ((Docx, packed()), (Markdown, PAGE)):
        assert opens(kind, data)
        for _ in range(rng.randint(1, 4)):
            at, size = rng.randrange(len(data) + 1), rng.choice([1, 8, 40])
            piece, rest = data[at : at + size], data[at + size :]
            new = rng.choice([b"", rng.randbytes(len(piece)), piece * 3, b"\r" + piece])
            data = rng.choice([data[:at] + new + rest, data[:at], rest + piece + data[:at]])
        opens(kind, data)
