"""What `qkv translate` does with files of a format, and with --format: whole documents instead of lines."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

from qkv.cli.app import print_json
from qkv.cli.lines import Remarks, beside, is_path
from qkv.decoding import Translator
from qkv.documents import FORMATS, translate_file, translate_text
from qkv.documents.file import has_lines, no_format, read, write
from qkv.documents.format import decode
from qkv.documents.html import translate_pages
from qkv.errors import InputError, nearest

How = dict[str, Any]
KINDS = ("text", "html")


def is_document(text: tuple[str, ...]) -> bool:
    """One file of a format; plain text is translated line by line, as standard input is."""
    return is_path(text) and Path(text[0]).suffix.lower() in FORMATS.keys() - {".txt"}


def check_lines(text: tuple[str, ...], language: str) -> None:
    """Refuse a file of a format that is not known here: line by line, all that is not language would be lost."""
    if is_path(text) and not has_lines(path := Path(text[0]), language):
        said = no_format(path.name, path.suffix)
        raise InputError(f"{said}, or its lines on standard input: qkv translate < {path.name}")


def give_file(translator: Translator, source: Path, target: Path | None, how: How, *, json: bool) -> None:
    """Translate a file into a file, and say what was done."""
    if target is None:
        target = name_for(source, translator.about.get("source", ""), translator.about.get("target", ""))
        if target.exists():
            raise InputError(f"{target} is there already; name the file to write with -o")
    report = translate_file(translator, source, target, **how)
    remarks = Remarks(beside(target))
    for remark in report.remarks:
        remarks.add(remark)
    remarks.close()
    print(f"{target}: {report}", file=sys.stderr)
    if json:
        print_json(dataclasses.asdict(report))


def name_for(source: Path, from_language: str, to_language: str) -> Path:
    """messages.po -> messages.de.po, page.en.html -> page.de.html."""
    stem = source.stem.removesuffix(f".{from_language}") if from_language else source.stem
    return source.with_name(f"{stem}.{to_language or 'translated'}{source.suffix}")


def give_texts(translator: Translator, kind: str, text: tuple[str, ...], output: Path | None, how: How) -> None:
    """Arguments, a file or standard input as whole texts of this kind."""
    if kind not in KINDS:
        raise InputError(f"--format {kind}: there is no such format; {nearest(kind, KINDS)}")
    if is_path(text):
        texts, end = [decode(read(Path(text[0])), text[0])[2]], ""
    elif text:
        texts, end = list(text), "\n"
    else:
        texts, end = [decode(sys.stdin.buffer.read(), "standard input")[2]], ""
    found = (translate_pages if kind == "html" else translate_text)(translator, texts, **how)
    for remark in (remark for one in found for remark in one.remarks):
        print(f"a sentence {remark}", file=sys.stderr)
    written = "".join(one.text + end for one in found)
    if output is None:
        sys.stdout.write(written)
    else:
        write(output, written.encode("utf-8"))
