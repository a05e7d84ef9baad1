"""The glossary: terms found as whole words, put where the model's own word stood, and counted."""

from pathlib import Path
from typing import Any

import pytest

from kit import refused
from qkv import Translator
from qkv.serving import Glossary, Models, read_glossaries
from qkv.serving.glossary import Term, absent, count_of, replace_aligned, rewritten
from qkv.serving.server import summary

PAIR = {"source": "en", "target": "de"}


def test_the_longest_term_at_each_word_whatever_its_case() -> None:
    glossary = Glossary({"dog": "Köter", "hot dog": "Würstchen", "C++": "C++"})
    found = glossary.find("Hot dog, hotdog and a DOG in C++ dogs")
    assert [(term.source, term.target) for term in found] == [
        ("Hot dog", "Würstchen"),
        ("DOG", "Köter"),
        ("C++", "C++"),
    ]
    assert all("Hot dog, hotdog and a DOG in C++ dogs"[term.start : term.end] == term.source for term in found)


def test_terms_of_a_language_without_spaces() -> None:
    assert [term.target for term in Glossary({"狗": "dog", "雪地": "snow"}, "zh").find("两只狗在雪地里玩耍。")] == [
        "dog",
        "snow",
    ]


def test_ten_thousand_terms_take_no_longer_to_find() -> None:
    """Each place is looked up, no term is searched for: 20,000 words and 10,000 terms in one go."""
    glossary = Glossary({f"word{i} more{i}": "x" for i in range(10_000)})
    assert len(glossary.find("word7 more7 other " * 6000)) == 6000


@pytest.mark.parametrize(
    ("term", "text", "count"),
    [
        ("Hund", "Hund, Hunde, hund.", 2),
        ("C++", "C++ und C++.", 2),
        ("狗", "两只狗狗", 2),
        ("alter Kahn", "Alter Kahn!", 1),
    ],
)
def test_a_term_counts_as_whole_words(term: str, text: str, count: int) -> None:
    assert count_of(term, text) == count


def test_what_is_absent_is_asked_for_as_often_as_it_stood() -> None:
    terms = [Term(0, 3, "dog", "Hund"), Term(4, 7, "dog", "Hund"), Term(8, 11, "cat", "Katze")]
    assert absent(terms, "Hund Hund Katze") == []
    assert absent(terms, "Hund Katze") == terms[:2]


def test_words_change_and_what_stands_around_them_stays() -> None:
    assert rewritten("Hund, Katze.", {(0, 5): "köter", (6, 12): "Kater"}) == "Köter, Kater."
    assert rewritten("das „rote Haus“!", {(4, 15): "Heim"}) == "das „Heim“!"


def test_the_word_that_is_replaced_is_the_one_that_translates_the_term(
    translator: Translator, sentences: list[str]
) -> None:
    """The model knows a language of word by word: the truth is the place in the sentence."""
    tried = right = 0
    for source in sentences[:25]:
        words, own = source.rstrip(".").split(), translator.translate(source).text.rstrip(".").split()
        if len(words) != len(own):
            continue
        for place, word in enumerate(words):
            start = sum(len(other) + 1 for other in words[:place])
            term = Term(start, start + len(word), word, "XYZ")
            changed = replace_aligned(translator, source, " ".join(own) + ".", [term])
            tried, right = tried + 1, right + (changed.rstrip(".").split() == [*own[:place], "XYZ", *own[place + 1 :]])
    assert tried > 60
    assert right / tried > 0.7, f"{right} of {tried}; by chance a third"


def test_the_server_uses_its_glossary_and_says_how_often(serve: Any, translator: Translator) -> None:
    client = serve(glossaries={"en-de": Glossary({"boat": "Kahn", "snow": "Schnee", "old dog": "Opa"})})
    answer = client.post("/translate", json={"q": ["the boat.", "snow.", "cat."], **PAIR}).json()
    assert answer == {"translatedText": ["das Kahn.", "Schnee.", "Katze."]}
    (own,) = client.post("/api/translate", json={"q": "red boat and snow.", **PAIR}).json()["translations"]
    plain = translator.translate("red boat and snow.").text
    assert "Boot" in plain
    assert own["translation"] == plain.replace("Boot", "Kahn")
    assert own["glossary"] == [
        {"source": "boat", "target": "Kahn", "used": True},
        {"source": "snow", "target": "Schnee", "used": True},
    ]
    assert own["alternatives"][0]["text"] == own["translation"]
    text = client.get("/metrics").text
    assert 'qkv_glossary_terms_total{used="yes"} 4.0' in text
    assert summary(client.app.state.service).endswith("4 of 4 glossary terms were used")


def test_a_sentence_that_is_too_long_to_look_at_is_left_and_counted(serve: Any) -> None:
    client = serve(glossaries={"en-de": Glossary({"boat": "Kahn"})})
    q = "cat and " * 60 + "boat."
    (own,) = client.post("/api/translate", json={"q": q, **PAIR}).json()["translations"]
    assert own["glossary"] == [{"source": "boat", "target": "Kahn", "used": False}]
    assert 'qkv_glossary_terms_total{used="no"} 1.0' in client.get("/metrics").text


# -- files -----------------------------------------------------------------------------------------------------------


def test_a_file_of_terms(tmp_path: Path, model_folder: Path) -> None:
    models = Models.load([model_folder])
    (tmp_path / "terms.csv").write_text('boat,Kahn\n"dog, old",Opa\n')
    found = read_glossaries(tmp_path / "terms.csv", models)["en-de"]
    assert [term.target for term in found.find("a boat, a dog, old")] == ["Kahn", "Opa"]
    (tmp_path / "named.csv").write_text("fr,de,en\nbateau,Kahn,boat\n")
    assert [term.target for term in read_glossaries(tmp_path / "named.csv", models)["en-de"].find("boat")] == ["Kahn"]


@refused(
    {
        ("missing.csv", None): "there is no file",
        ("empty.csv", ""): "has no terms; write a source term and a target term on each line",
        ("one.csv", "a,b\nonly\n"): "line 2 has 1 cell where 2 were expected",
        ("other.csv", "fr,it\nbateau,barca\n"): "'en'|en",
        ("plain.txt", "boat\n"): "1 plain file given",
    },
    "name content",
)
def test_a_file_of_no_use(name: str, content: str | None, tmp_path: Path, model_folder: Path) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    read_glossaries(tmp_path / name, Models.load([model_folder]))


def test_a_look_inside_says_that_it_has_no_glossary(serve: Any) -> None:
    client = serve(glossaries={"en-de": Glossary({"dog": "Vierbeiner"})})

    def remarks(q: str) -> Any:
        return client.post("/api/translate", json={"q": q, "tokens": True}).json()["translations"][0]["remarks"]

    assert remarks("the dog.") == ["is the model's own, without the server's glossary (dog: Vierbeiner)"]
    assert remarks("the cat.") == []
