"""Documents with their summaries: out of records, and out of articles that begin with one."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from qkv.errors import InputError
from qkv.text.examples import Summarised
from qkv.text.lines import read_lines, suffix
from qkv.text.records import find_columns, read_objects, read_table, texts_at
from qkv.text.sentences import split_sentences

DOCUMENTS, SUMMARIES = ("document", "source", "article", "text"), ("summary", "target", "tldr", "highlights")
OBJECT = 'write {"document": "...", "summary": "..."} on each line'
ROW = "give each line two cells, the document and its summary, or name the columns document and summary in the first"
HEADING = re.compile(r"\s*(=(?: =)*) (\S.*?) \1\s*")  # of WikiText: " = Title = ", " = = Section = = "


def read_summary_records(path: Path, skipped: Counter[str]) -> Iterator[Summarised]:
    """Rows of a table, or objects, of which a document may be a list of sentences, and each of a list of summaries
    makes an example."""
    if suffix(path) == ".jsonl":
        records = objects(path, skipped)
    else:
        rows = read_table(path, lambda cells: find_columns(cells, DOCUMENTS, SUMMARIES), 2, ROW, skipped)
        records = (Summarised(document, summary, place) for place, (document, summary) in rows)
    for one in records:
        if not one.document.strip() or not one.summary.strip():
            raise InputError(f"{one.place} has no {'summary' if one.document.strip() else 'document'}; {OBJECT}")
        yield one


def objects(path: Path, skipped: Counter[str]) -> Iterator[Summarised]:
    for place, record in read_objects(path, OBJECT, skipped):
        document, summary = (next((name for name in names if name in record), names[0])
                             for names in (DOCUMENTS, SUMMARIES))  # fmt: skip
        text = " ".join(texts_at(record, document, place, OBJECT))
        yield from (Summarised(text, one, place) for one in texts_at(record, summary, place, OBJECT))


def read_leads(path: Path, skipped: Counter[str]) -> Iterator[Summarised]:
    """Articles with headings as WikiText has them: the title and all sections, and the first sentence of what stands
    before them."""
    title, place, parts = "", "", list[list[str]]()

    def article() -> Iterator[Summarised]:
        lead, *sections = ["\n\n".join(part) for part in parts]
        body = "\n\n".join(section for section in sections if section)
        if lead and body:
            yield Summarised(f"{title}.\n\n{body}", split_sentences(lead)[0].strip(), place)
        else:
            skipped["articles without a lead or without sections"] += 1

    for number, line in enumerate(read_lines(path), start=1):
        heading = HEADING.fullmatch(line)
        if heading and heading[1] == "=":
            if title:
                yield from article()
            title, place, parts = heading[2], f"{path} line {number}", [[]]
        elif heading and title:
            parts.append([])
        elif line.strip():
            if not title:
                raise InputError(
                    f"{path} line {number} stands before any title; articles have headings as WikiText has them "
                    f"( = Title = ,  = = Section = = ), and other files of summaries end in .jsonl, .tsv or .csv"
                )
            parts[-1].append(line.strip())
    if title:
        yield from article()
