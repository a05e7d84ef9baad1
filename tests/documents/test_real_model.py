"""With real models: marks follow their words by attention, and whatever a model says, nothing else is lost."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qkv.decoding import Translator
from qkv.documents import translate_file, translate_html, translate_text

FEW = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
HOLDERS = ["{{x}}", "{name}", "%1$s", "%(n)s", "https://a.org/b?c=1", "me@a.org", "🙂", "`A B`"]


class TestTagsFollowTheirWords:
    @pytest.mark.parametrize(
        ("page", "expected"),
        [
            ("<p><b>A</b> B C</p>", "<p>two one <b>zero</b></p>"),
            ("<p>A B <b>C</b></p>", "<p><b>two</b> one zero</p>"),
            ("<p><i>C</i> <b id='1'>B A</b></p>", "<p><b id='1'>zero one</b> <i>two</i></p>"),
            ("<p><b>A <i>B</i></b> C</p>", "<p>two <b><i>one</i> zero</b></p>"),
            ("<p><b>A B C</b></p>", "<p><b>two one zero</b></p>"),
        ],
    )
    def test_a_model_that_turns_sentences_around(self, backwards: Translator, page: str, expected: str) -> None:
        assert translate_html(backwards, [page]) == [expected]

    def test_runs_of_a_word_file(self, backwards: Translator, tmp_path: Path) -> None:
        docx = pytest.importorskip("docx")
        document = docx.Document()
        paragraph = document.add_paragraph("A B ")
        paragraph.add_run("C").bold = True
        document.save(str(tmp_path / "a.docx"))
        translate_file(backwards, tmp_path / "a.docx", tmp_path / "b.docx")
        runs = docx.Document(str(tmp_path / "b.docx")).paragraphs[0].runs
        assert [(run.text, run.bold) for run in runs] == [("two", True), (" one zero", None)]


class TestAModelThatBabbles:
    @given(st.lists(st.sampled_from([*HOLDERS, "the", "cat", "one", "\n", "\t", "  ", ". ", ", "]), max_size=12))
    @FEW
    def test_placeholders_lines_and_spaces(self, babbler: Translator, words: list[str]) -> None:
        text = " ".join(words)
        (found,) = translate_text(babbler, [text], beam=1)
        for holder in HOLDERS:
            assert found.text.count(holder) == text.count(holder)
        assert len(found.text.splitlines()) == len(text.splitlines())
        assert found.text[: len(found.text) - len(found.text.lstrip())] == text[: len(text) - len(text.lstrip())]
        assert found.text[len(found.text.rstrip()) :] == text[len(text.rstrip()) :]

    def test_every_tag_once(self, babbler: Translator) -> None:
        page = "<p>the <a href='x'>cat <b>one</b> two</a> three<br>four <i>five</i> {x} <code>cat</code></p>"
        (found,) = translate_html(babbler, [page], beam=1)
        assert sorted(re.findall(r"<[^>]*>", found)) == sorted(re.findall(r"<[^>]*>", page))
        assert "<code>cat</code>" in found
        assert found != page
        assert found.count("{x}") == 1

    def test_alternatives_keep_placeholders_too(self, babbler: Translator) -> None:
        (found,) = translate_text(babbler, ["the cat {x} one. two {y}"], beam=4, n_best=3)
        assert len(found.alternatives) == 3
        assert found.text == found.alternatives[0]
        for text in found.alternatives:
            assert text.count("{x}") == text.count("{y}") == 1

    def test_what_a_person_should_know(self, babbler: Translator) -> None:
        (found,) = translate_text(babbler, ["the cat " * 60], beam=1)
        assert "was longer than the model's training sentences" in " ".join(found.remarks)

    def test_searches_are_refused_as_ever(self, babbler: Translator) -> None:
        with pytest.raises(ValueError, match="beam"):
            translate_text(babbler, ["the cat"], beam=0)
