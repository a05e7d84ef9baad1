"""CoNLL-U: what is read, what is left out, and what is refused."""

from pathlib import Path

from kit import real, refused
from qkv.text.conllu import read_conllu


def line(number: str, form: str, head: str) -> str:
    return "\t".join([number, form, "_", "X", "_", "_", head, "dep", "_", "_"])


def written(folder: Path, *lines: str) -> Path:
    path = folder / "some.conllu"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_words_and_heads_are_read_and_the_rest_is_left_out(tmp_path: Path) -> None:
    path = written(
        tmp_path, "# sent_id = 1", line("1", "I", "4"), line("2-3", "don't", "_"), line("2", "do", "4"),
        line("3", "n't", "4"), line("4", "know", "0"), line("4.1", "that", "_"), "", "", "# text = New York",
        line("1", "New York", "0"),
    )  # fmt: skip
    first, second = read_conllu(path)
    assert (first.words, first.heads) == (["I", "do", "n't", "know"], [4, 4, 4, 0])
    assert first.place == f"{path} line 2"
    assert (second.words, second.heads) == (["New York"], [0])


@refused(
    [
        (["1\tword\t0"], "line 1 has 3 of the 10"),
        ([line("1", "a", "0"), line("3", "b", "1")], "line 2 is word '3' where 2 was expected"),
        ([line("1", "a", "_")], "line 1 has '_' as its head"),
        ([line("1", "a", "-1")], "line 1 has '-1' as its head"),
        (["", line("1-2", "ab", "_")], "line 2 begins a sentence that has no words"),
    ],
    "lines",
)
def test_bad_lines_are_refused_by_their_number(tmp_path: Path, lines: list[str]) -> None:
    list(read_conllu(written(tmp_path, *lines)))


def test_the_english_web_treebank_has_the_words_that_its_readme_counts() -> None:
    path = real("ud-english-ewt", "en_ewt-ud-dev.conllu.gz")
    sentences = list(read_conllu(path))
    assert len(sentences) == 2001
    assert sum(len(sentence.words) for sentence in sentences) == 25147
    assert sentences[0].words == ["From", "the", "AP", "comes", "this", "story", ":"]
    assert sentences[0].heads == [3, 3, 4, 0, 6, 4, 4]
