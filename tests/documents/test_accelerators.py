"""Letters that reach menus and buttons: a translation has one where its source had one."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kit import write
from qkv.documents import translate_file
from qkv.documents.accelerators import Accelerator, with_accelerator, without_accelerator
from qkv.documents.segment import Mark, code_of

HAVE = {
    "&Open": ("Open", "&O"), "E&xit": ("Exit", "&x"), "Save _As...": ("Save As...", "_A"), "E_xit": ("Exit", "_x"),
    "Pre_ferences": ("Preferences", "_f"), "Page &1": ("Page 1", "&1"), "_Über": ("Über", "_Ü"), "(&F)": ("(F)", "&F"),
}  # fmt: skip
HAVE_NONE = [
    "R&D", "AT&T", "salt & pepper", "a && b", "&amp;", "&#160;", "Tom &amp; Ann", "file_name", "__init__",
    "see http://a.org/?a=1&b=2", "{user_name}", "%(a_b)s", "&One or &Two", "_One_", "<b>x_y</b>", "snake_case_word",
]  # fmt: skip


@pytest.mark.parametrize("text", HAVE)
def test_it_is_found(text: str) -> None:
    plain, found = without_accelerator([text])
    assert found is not None
    assert (code_of(plain), found.sign + found.letter) == HAVE[text]


@pytest.mark.parametrize("text", HAVE_NONE)
def test_other_signs_are_left_alone(text: str) -> None:
    assert without_accelerator([text]) == ([text], None)


@pytest.mark.parametrize(
    ("letter", "translation", "expected"),
    [
        ("O", "Öffnen", "&Öffnen"),
        ("x", "Exit box", "E&xit box"),
        ("b", "Neb Box", "Neb &Box"),  # best where a word begins
        ("S", "alles speichern", "alles &speichern"),
        ("O", "打开…", "打开(&O)…"),
        ("O", "開く:", "開く(&O):"),
        ("O", "Файл", "&Файл"),
    ],
)
def test_where_it_goes(letter: str, translation: str, expected: str) -> None:
    assert with_accelerator([translation], Accelerator("&", letter)) == [expected]


def test_never_into_a_placeholder() -> None:
    parts = [Mark("{sort}", "word"), " tun"]
    assert code_of(with_accelerator(parts, Accelerator("_", "s"))) == "{sort} _tun"


UI = ["&Open", "E&xit", "Save _As...", "Copy &all <b>files</b>", "Print %s && e&nd", "Salt & pepper", "R&D"]


@pytest.mark.parametrize(
    "rule", [str.upper, lambda text: "Ja", lambda text: "日本"], ids=["upper", "one word", "no letter"]
)
def test_msgfmt_finds_them(rule: Any, made_up: Any, tmp_path: Path) -> None:
    """Of each text that has exactly one sign: gettext's own check of what we write."""
    program = shutil.which("msgfmt")
    if program is None:
        pytest.skip("there is no msgfmt here; gettext has it")
    for sign, others in (("&", "_"), ("_", "&")):
        texts = [text for text in UI if others not in text and (text not in UI[5:])]
        header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nLanguage: de\\n"\n\n'
        entries = "".join(f'msgid "{text}"\nmsgstr ""\n\n' for text in texts)
        source = write(tmp_path / "a.po", header + entries)
        translator = made_up(lambda text: rule(text) if any(map(str.isalpha, text)) else text)
        translate_file(translator, source, tmp_path / "b.po", final=True)
        assert not any(sign in asked for call in translator.calls for asked in call if "&&" not in asked)
        command = [program, f"--check-accelerators={sign}", "-o", "/dev/null", str(tmp_path / "b.po")]
        done = subprocess.run(command, capture_output=True, text=True, env={"LC_ALL": "C"})
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("suffix", [".po", ".xlf", ".properties", ".json", ".strings", ".yaml"])
def test_in_every_format_of_menus(suffix: str, upper: Any, tmp_path: Path) -> None:
    forms = {
        ".po": 'msgid "x"\nmsgstr "x"\n\nmsgid "{}"\nmsgstr ""\n', ".properties": "a={}\n", ".json": '{{"a": "{}"}}',
        ".xlf": '<xliff version="1.2"><file><body><trans-unit><source>{}</source></trans-unit></body></file></xliff>',
        ".strings": '"a" = "{}";\n', ".yaml": "a: '{}'\n",
    }  # fmt: skip
    sign = "&amp;" if suffix == ".xlf" else "&"
    source = write(tmp_path / f"a{suffix}", forms[suffix].format(f"E{sign}xit now"))
    translate_file(upper, source, tmp_path / f"b{suffix}", final=True)
    assert f"E{sign}XIT NOW" in (tmp_path / f"b{suffix}").read_text()
