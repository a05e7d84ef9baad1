"""Word files: paragraphs, tables, headers and footers are translated, runs keep their look, the rest its bytes."""

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from qkv.documents import docx as module
from qkv.documents import translate_file
from qkv.errors import InputError

docx = pytest.importorskip("docx")
FIELD = (
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>'
    '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>seven</w:t></w:r>'
    '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
)


def write(path: Path) -> None:
    """As a person would: a heading, formatted text, a link, a table, a picture's worth of XML, header and footer."""
    document = docx.Document()
    document.add_heading("A fine title", 1)
    paragraph = document.add_paragraph("A ")
    paragraph.add_run("red").bold = True
    paragraph.add_run(" car & ")
    paragraph.add_run("a {x}").italic = True
    paragraph.add_run(" house.\tTabbed\nbroken")
    document.add_paragraph("42")
    document.add_paragraph("")
    table = document.add_table(2, 2)
    table.cell(0, 0).text, table.cell(1, 1).text = "in a cell", "7"
    document.sections[0].header.paragraphs[0].text = "the header"
    document.sections[0].footer.paragraphs[0].text = "the footer"
    document.save(str(path))


@pytest.fixture
def files(tmp_path: Path, upper: Any) -> tuple[Path, Path]:
    write(tmp_path / "a.docx")
    report = translate_file(upper, tmp_path / "a.docx", tmp_path / "b.docx")
    assert (report.translated, report.kept, report.remarks) == (5, 2, [])
    assert len(upper.calls) == 1
    return tmp_path / "a.docx", tmp_path / "b.docx"


def look(path: Path) -> list[tuple[str, bool | None, bool | None]]:
    """Each letter with its formatting."""
    return [
        (letter, run.bold, run.italic)
        for paragraph in docx.Document(str(path)).paragraphs
        for run in paragraph.runs
        for letter in run.text
    ]


def test_letters_keep_their_formatting(files: tuple[Path, Path]) -> None:
    before, after = look(files[0]), look(files[1])
    assert [(letter.upper(), *rest) for letter, *rest in before] == [(letter.upper(), *rest) for letter, *rest in after]
    assert "".join(letter for letter, *_ in after) == "A FINE TITLEA RED CAR & A {x} HOUSE.\tTABBED\nBROKEN42"


def test_tables_headers_and_footers(files: tuple[Path, Path]) -> None:
    document = docx.Document(str(files[1]))
    assert [cell.text for row in document.tables[0].rows for cell in row.cells] == ["IN A CELL", "", "", "7"]
    assert document.sections[0].header.paragraphs[0].text == "THE HEADER"
    assert document.sections[0].footer.paragraphs[0].text == "THE FOOTER"
    assert [p.style.name for p in document.paragraphs] == [
        p.style.name for p in docx.Document(str(files[0])).paragraphs
    ]


def test_the_rest_is_the_same_bytes(files: tuple[Path, Path]) -> None:
    before, after = (zipfile.ZipFile(path) for path in files)
    assert before.namelist() == after.namelist()
    for name in before.namelist():
        old, new = before.read(name), after.read(name)
        if not re.fullmatch(r"word/(document|header\d|footer\d)\.xml", name):
            assert old == new, name
        else:
            outside = [re.sub(rb"<w:r>.*?</w:r>", b"", xml, flags=re.DOTALL) for xml in (old, new)]
            assert outside[0] == outside[1], name


def paragraph_of(inner: str, tmp_path: Path, translator: Any) -> str:
    """What becomes of the content of one paragraph."""
    write(tmp_path / "a.docx")
    packed = io.BytesIO()
    with zipfile.ZipFile(tmp_path / "a.docx") as old, zipfile.ZipFile(packed, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename == "word/document.xml":
                data = re.sub(
                    rb"<w:body>.*</w:body>", f"<w:body><w:p>{inner}</w:p></w:body>".encode(), data, flags=re.DOTALL
                )
            new.writestr(info, data)
    (tmp_path / "c.docx").write_bytes(packed.getvalue())
    translate_file(translator, tmp_path / "c.docx", tmp_path / "d.docx")
    with zipfile.ZipFile(tmp_path / "d.docx") as archive:
        found = re.search(r"<w:p>(.*)</w:p></w:body>", archive.read("word/document.xml").decode(), re.DOTALL)
    return found[1] if found else ""


def test_fields_links_and_corrections(tmp_path: Path, upper: Any) -> None:
    start = '<w:pPr><w:jc w:val="left"/></w:pPr><w:bookmarkStart w:id="0" w:name="stay"/>'
    link = '<w:hyperlink r:id="rId1" w:history="1"><w:r><w:t>a link</w:t></w:r></w:hyperlink>'
    deleted = "<w:del><w:r><w:delText>stay</w:delText></w:r></w:del>"
    inner = (
        f'{start}<w:r><w:t xml:space="preserve">go to </w:t></w:r>{link}<w:r><w:t> on page </w:t></w:r>{FIELD}{deleted}'
    )
    found = paragraph_of(inner, tmp_path, upper)
    assert found.startswith(start)
    for kept in (FIELD, deleted, '<w:hyperlink r:id="rId1" w:history="1">'):
        assert found.count(kept) == 1
    text = "".join(re.findall(r"<w:t[^>]*>([^<]*)<", found))
    assert text == "GO TO A LINK ON PAGE seven"
    assert "A LINK</w:t></w:r></w:hyperlink>" in found


def test_a_field_in_one_run(tmp_path: Path, upper: Any) -> None:
    field = "".join(re.findall(r"<w:r>(.*?)</w:r>", FIELD))
    inner = f"<w:r><w:t>go to </w:t></w:r><w:r>{field}</w:r><w:r><w:t> and read on</w:t></w:r>"
    found = paragraph_of(inner, tmp_path, upper)
    assert f"<w:r>{field}</w:r>" in found
    assert re.sub(r"<[^>]*>", "", found) == "GO TO PAGEseven AND READ ON"


@pytest.mark.parametrize("around", ["", "words & more"], ids=["a box alone", "a box beside words"])
def test_the_text_of_a_box_in_both_its_forms(around: str, tmp_path: Path, any_rule: Any) -> None:
    """Word writes a box twice, for itself and for older programs; all but the words keeps its bytes."""

    def drawing(text: str) -> str:
        box = "<w:txbxContent><w:p><w:pPr/>{}</w:p><w:p><w:r><w:t>42</w:t></w:r></w:p></w:txbxContent>"
        old, new = (box.format(f"<w:r><w:rPr>{look}</w:rPr>{text}</w:r>") for look in ("<w:b/>", "<w:i/>"))
        forms = f'<mc:Choice Requires="wps">{new}</mc:Choice><mc:Fallback><w:pict>{old}</w:pict></mc:Fallback>'
        return f"<mc:AlternateContent>{forms}</mc:AlternateContent>"

    def said(text: str) -> str:
        changed = " ".join(any_rule.change(text).split()).rstrip(" .") or text
        return f'<w:t xml:space="preserve">{changed.replace("&", "&amp;")}</w:t>'

    beside = "<w:r><w:t>words &amp; more</w:t></w:r>" if around else ""
    space = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    given = drawing("<w:t>in a box</w:t>").replace("AlternateContent>", f"AlternateContent {space}>", 1)
    found = paragraph_of(f"{beside}<w:r>{given}</w:r>", tmp_path, any_rule)
    expected = drawing(said("in a box")).replace("AlternateContent>", f"AlternateContent {space}>", 1)
    assert expected in found
    assert not around or said("words & more") in found
    assert [call.count("in a box") for call in any_rule.calls] == [1]


def test_words_that_were_cut_in_runs_are_whole(tmp_path: Path, upper: Any) -> None:
    paragraph_of("<w:r w:rsidR='1'><w:t>hel</w:t></w:r><w:r w:rsidR='2'><w:t>lo you</w:t></w:r>", tmp_path, upper)
    assert "hello you" in upper.calls[-1]


def test_a_bomb_is_refused(tmp_path: Path, upper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * 10**6)
    (tmp_path / "a.docx").write_bytes(packed.getvalue())
    monkeypatch.setattr(module, "LARGEST", 10**5)
    with pytest.raises(InputError, match=r"a\.docx unpacks to 1,000,000 bytes in 1 files, where a document"):
        translate_file(upper, tmp_path / "a.docx", tmp_path / "b.docx")


def test_letters_that_a_part_cannot_hold_are_entities(tmp_path: Path, made_up: Any) -> None:
    xml = '<?xml version="1.0" encoding="iso-8859-1"?><w:p xmlns:w="w"><w:r><w:t>two</w:t></w:r></w:p>'
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:
        archive.writestr("word/document.xml", xml)
    translate_file(made_up(lambda text: "\u201e\u00f6"), tmp_path / "a.docx", tmp_path / "b.docx")
    with zipfile.ZipFile(tmp_path / "b.docx") as archive:
        assert b">&#8222;\xf6</w:t>" in archive.read("word/document.xml")


def test_more_text_than_memory_stands_is_refused(tmp_path: Path, upper: Any) -> None:
    with zipfile.ZipFile(tmp_path / "a.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("document", "header1"):
            archive.writestr(f"word/{name}.xml", b"<a>" + b" " * 2**23 + b"</a>")
    with pytest.raises(InputError, match=r"a\.docx has 16,777,230 bytes of text and at most 16,777,216 are read"):
        translate_file(upper, tmp_path / "a.docx", tmp_path / "b.docx")


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("other.xml", b"<a/>", "a.docx has no word/document.xml in it; save it as a Word document"),
        ("word/document.xml", b"<w:document>", r"a.docx \(word/document.xml\) line 1 is not sound XML"),
        ("word/document.xml", b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', r"\(word/document.xml\) uses XML entities"),
    ],
)
def test_mistakes(name: str, data: bytes, sentence: str, tmp_path: Path, upper: Any) -> None:
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:
        archive.writestr(name, data)
    with pytest.raises(InputError, match=sentence):
        translate_file(upper, tmp_path / "a.docx", tmp_path / "b.docx")
