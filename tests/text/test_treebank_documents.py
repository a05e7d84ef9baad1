"""Documents out of a treebank: their borders, genres and sentences; and what is refused."""

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest

from kit import real
from qkv.errors import InputError
from qkv.text import read_labelled
from qkv.text.labelled import sentences

WORD = "1\t{}\t_\tX\t_\t_\t0\troot\t_\t_\n\n"


def test_documents_begin_where_the_treebank_says(tmp_path: Path) -> None:
    path = tmp_path / "some.conllu.gz"
    first = "# newdoc id = email-a-1\n# text = Hi. I am = Al.\n" + WORD.format("Hi") + WORD.format("Bye")
    second = "# newdoc id = weblog-b\n# text = One. Two.\n" + WORD.format("One")
    path.write_bytes(gzip.compress((first + second).encode()))
    one, two = read_labelled([path])
    assert (one.label, sentences(one.text), one.place) == ("email", ["Hi. I am = Al.", "Bye"], f"{path} line 3")
    assert (two.label, sentences(two.text)) == ("weblog", ["One. Two."]), "not the two of the splitter"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (WORD.format("a"), "line 1 is of no document; begin each with a line # newdoc id = label-name"),
        ("# newdoc id = 17\n" + WORD.format("a"), "line 2 begins the document '17', which has no label; name it label"),
        ("# newdoc id = -x\n" + WORD.format("a"), "begins the document '-x', which has no label"),
    ],
)
def test_documents_without_a_label_are_refused(content: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "some.conllu"
    path.write_text(content)
    with pytest.raises(InputError, match=re.escape(told)):
        list(read_labelled([path]))


def test_the_english_web_treebank_is_read_whole() -> None:
    path = real("ud-english-ewt", "en_ewt-ud-dev.conllu.gz")
    documents = list(read_labelled([path]))
    raw = gzip.decompress(path.read_bytes()).decode()
    assert Counter(one.label for one in documents) == Counter(
        re.findall(r"^# newdoc id = ([a-z]+)-", raw, re.MULTILINE)
    )
    assert [text for one in documents for text in sentences(one.text)] == re.findall(
        r"^# text = (.*?) *$", raw, re.MULTILINE
    )
