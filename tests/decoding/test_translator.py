"""A translator: as many lines out as in, whatever the lines; long ones in parts, loops caught, mistakes refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import qkv
from kit import refused, tokenizer
from qkv import folder
from qkv.decoding import Search, Translator
from qkv.decoding.hypothesis import loops
from qkv.decoding.searcher import by_length
from qkv.decoding.translator import longest_targets
from qkv.errors import InputError
from qkv.models import Transformer
from qkv.text.sentences import split_sentences, split_to_fit
from qkv.text.tokenizer import EOS, RESERVED

TEXTS = ["the cat sat on the mat", "a dog ran in the park", "cats and dogs, rain and sun.", "Where is the cat?"]
TOKENIZER = tokenizer(*TEXTS)
Make = Callable[..., Transformer]
FAST = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def translator(make_model: Make) -> Translator:
    return Translator(make_model(len(TOKENIZER), end=3.0), TOKENIZER, {"longest_source": 30})


def one_note(make_model: Make, likes: dict[int, float]) -> Transformer:
    """A model that has these logits, and 0 for all other words, at every step of every sentence."""
    model = make_model(len(TOKENIZER))
    with torch.no_grad():
        model.vocabulary.weight.zero_()
        model.vocabulary.bias.zero_()
        for word, logit in likes.items():
            model.vocabulary.bias[word] = logit
    return model


class TestLines:
    @given(st.lists(st.one_of(st.sampled_from(["", " ", "\t \n", "🙂", "the cat " * 60, "a\nb", "\u200b"]), st.text())))
    @FAST
    def test_as_many_lines_out_as_in(self, translator: Translator, texts: list[str]) -> None:
        found = translator.translate(texts, beam=1)
        assert len(found) == len(texts)
        for text, line in zip(texts, found, strict=True):
            lines = line.text.split("\n")
            assert len(lines) == len(text.strip().split("\n"))
            assert all(len(one.splitlines()) <= 1 for one in lines)  # none ends in any other way
            assert line.text == line.alternatives[0].text
            if not text.strip():
                assert (line.text, line.score, line.remarks()) == ("", 0.0, [])

    def test_a_text_is_a_list_of_one(self, translator: Translator) -> None:
        assert [translator.translate(TEXTS[0])] == translator.translate([TEXTS[0]])

    def test_no_line_gives_no_line(self, translator: Translator) -> None:
        assert translator.translate([]) == []

    def test_order_and_neighbours_do_not_matter(self, translator: Translator) -> None:
        texts = [*TEXTS, "", "cat", "the " * 40, "🙂🙂"]
        alone = [translator.translate(text) for text in texts]
        for order in ([7, 6, 5, 4, 3, 2, 1, 0], [2, 2, 6, 0], [4, 1]):
            found = translator.translate([texts[i] for i in order])
            assert [line.text for line in found] == [alone[i].text for i in order]
            assert [line.score for line in found] == pytest.approx([alone[i].score for i in order], abs=1e-4)

    def test_white_space_and_composition_do_not_matter(self, translator: Translator) -> None:
        one, other = translator.translate(["the café  is\tnear\n", "the café is near"])
        assert one == other

    def test_a_newline_that_the_model_writes_is_a_space(self, make_model: Make) -> None:
        newline, word = RESERVED.index("<0x0A>"), TOKENIZER.encode("cat")[-1]
        translator = Translator(one_note(make_model, {newline: 9.0, word: 8.0}), TOKENIZER, {})
        found = translator.translate("the cat", sampling=True, temperature=0.5)
        assert len(found.text.split()) > 1
        assert "\n" not in found.text

    def test_half_a_character_is_refused(self, translator: Translator) -> None:
        with pytest.raises(InputError, match="half a surrogate pair"):
            translator.translate(["fine", "\ud800"])


class TestLongLines:
    def test_they_are_translated_in_parts_and_joined(self, make_model: Make) -> None:
        translator = Translator(make_model(len(TOKENIZER), end=3.0), TOKENIZER, {"longest_source": 12})
        text = "The cat sat. A dog ran. Where is the park? The sun, the rain and the cats are near the mat."
        assert len(split_sentences(text)) == 4
        fits = lambda piece: len(TOKENIZER.encode(piece.strip())) <= 12  # noqa: E731
        pieces = [piece for sentence in split_sentences(text) for piece in split_to_fit(sentence, fits)]
        whole = translator.translate(text)
        assert (whole.sentences, whole.parts) == (4, len(pieces))
        assert len(pieces) > 4
        assert any(f"in {whole.parts} parts" in remark for remark in whole.remarks())
        alone = translator.translate(pieces)
        assert whole.text.split() == " ".join(line.text for line in alone).split()
        assert whole.score == pytest.approx(sum(line.score for line in alone) / len(alone), abs=1e-4)

    @pytest.mark.parametrize(("target", "gap"), [("de", " "), ("zh", ""), ("", " ")])
    def test_parts_are_joined_as_the_language_writes(self, make_model: Make, target: str, gap: str) -> None:
        """A model that answers every sentence alike: three of them give its answer three times."""
        letter, sentence = TOKENIZER.encode("a")[-1], "Where is the cat?"
        about = {"longest_source": len(TOKENIZER.encode(sentence)), "target": target}
        translator = Translator(one_note(make_model, {letter: 5.0, EOS: 4.0}), TOKENIZER, about)
        one = translator.translate(sentence, beam=1)
        three = translator.translate(" ".join([sentence] * 3), beam=1)
        assert (one.parts, three.parts, three.sentences) == (1, 3, 3)
        assert one.text
        assert three.text == gap.join([one.text] * 3)

    def test_the_models_own_length_is_a_limit_too(self, make_model: Make) -> None:
        translator = Translator(make_model(len(TOKENIZER), end=3.0), TOKENIZER, {})
        found = translator.translate("the cat sat on the mat and " * 40)
        assert found.parts > found.sentences == 1
        assert translator.translate("the cat sat on the mat.").parts == 1


class TestSentences:
    LINE = "The cat sat. A dog ran. Where is the cat?"

    def test_each_is_translated_by_itself(self, translator: Translator) -> None:
        sentences = split_sentences(self.LINE)
        alone = translator.translate(sentences)
        found = translator.translate(self.LINE)
        assert found.text.split() == " ".join(line.text for line in alone).split()
        assert (found.sentences, found.parts, found.remarks()) == (3, 3, [])

    def test_unless_the_line_is_to_stay_whole(self, translator: Translator) -> None:
        whole = translator.translate(self.LINE, split=False, beam=1)
        (tokens,) = (
            some[0].tokens for some in translator.engine.decode([TOKENIZER.encode(self.LINE)], [70], Search(beam=1))
        )
        assert whole.text == TOKENIZER.decode(tokens).strip()
        assert (whole.sentences, whole.parts) == (1, 1)

    def test_what_is_one_sentence_is_translated_as_ever(self, translator: Translator) -> None:
        for text in ("z. B. the cat", "The cat, e.g. the dog, ran.", "No. 5 is a dog", "cat"):
            assert translator.translate(text) == translator.translate(text, split=False)


class TestLoops:
    def test_a_loop_is_decoded_again_without_repetitions(self, make_model: Make) -> None:
        cat, dog = (TOKENIZER.encode(word)[-1] for word in ("cat", "dog"))
        translator = Translator(one_note(make_model, {cat: 9.0, dog: 8.0, EOS: 2.0}), TOKENIZER, {})
        for beam in (1, 4):
            found = translator.translate("Where is the park?", beam=beam)
            assert found.looped
            assert any("ran in a loop" in remark for remark in found.remarks())
            assert not loops(TOKENIZER.encode(found.text))

    def test_a_source_that_repeats_itself_may_be_answered_so(self, make_model: Make) -> None:
        word = TOKENIZER.encode("cat")[-1]
        translator = Translator(one_note(make_model, {word: 9.0}), TOKENIZER, {})
        found = translator.translate("cat cat cat cat cat cat", beam=1)
        assert not found.looped
        assert loops(TOKENIZER.encode(found.text))

    def test_only_the_sentence_that_loops_is_decoded_again(self, make_model: Make) -> None:
        word = TOKENIZER.encode("cat")[-1]
        translator = Translator(one_note(make_model, {word: 9.0}), TOKENIZER, {})
        found = translator.translate(["Where is the park?", "cat cat cat cat cat cat"], beam=1)
        assert [line.looped for line in found] == [True, False]


class TestLimits:
    def test_a_translation_that_never_ends_is_cut_and_says_so(self, make_model: Make) -> None:
        translator = Translator(one_note(make_model, {EOS: -50.0}), TOKENIZER, {})
        found = translator.translate("the cat", beam=1)
        assert found.cut
        assert "reached the length limit before its end" in found.remarks()
        # Vaswani et al. 2017, section 6.1: the input's length and 50, of which the end is one.
        assert longest_targets([[9, 10, 11]], 128) == [53]
        assert longest_targets([[9, 10, 11]], 40) == [39]  # or what the model can read
        (hypothesis,) = translator.engine.decode([[9, 10, 11]], [53], Search(beam=1))[0]
        assert len(hypothesis.tokens) == 3 + 50 - 1

    def test_one_that_ends_is_not(self, translator: Translator) -> None:
        found = translator.translate(TEXTS)
        assert not any(line.cut for line in found)
        assert [line.remarks() for line in found] == [[]] * len(TEXTS)


class TestSearch:
    def test_the_n_best_come_best_first(self, translator: Translator) -> None:
        for line in translator.translate(TEXTS, beam=4, n_best=3):
            scores = [scored.score for scored in line.alternatives]
            assert len(scores) == 3
            assert scores == sorted(scores, reverse=True)
            assert (line.text, line.score) == line.alternatives[0]

    def test_a_seed_gives_the_same_samples_again(self, translator: Translator) -> None:
        how = {"sampling": True, "n_best": 3, "temperature": 1.5}
        first = translator.translate(TEXTS, seed=1, **how)
        assert translator.translate(TEXTS, seed=1, **how) == first
        assert translator.translate(TEXTS, seed=2, **how) != first
        assert all(len(line.alternatives) == 3 for line in first)

    def test_a_line_draws_the_same_whatever_the_lines_beside_it(self, translator: Translator) -> None:
        how = {"sampling": True, "n_best": 2, "temperature": 1.5, "seed": 4}
        texts = [*TEXTS, "the cat " * 40, "dog"]
        expected = translator.translate(texts, **how)
        for others in (["cat"], ["", "the park, the sun and the rain"], ["the dog " * 50] * 9):
            for i, text in enumerate(texts):
                beside = (others * len(texts))[: len(texts)]
                beside[i] = text
                found = translator.translate(beside, **how)[i]
                assert [one.text for one in found.alternatives] == [one.text for one in expected[i].alternatives]

    @refused(
        [
            ({"beam": 0}, "beam=0 and n_best=1 must be at least 1"),
            ({"n_best": 0}, "must be at least 1"),
            ({"n_best": 6}, "n_best=6 needs a beam of at least 6, not 5"),
            ({"alpha": 500.0}, "alpha must be a number such as 0.6 or 1, from -20 to 20, not 500.0"),
            ({"alpha": -500.0}, "from -20 to 20, not -500.0"),
            ({"alpha": float("nan")}, "from -20 to 20, not nan"),
            ({"sampling": True, "temperature": 0.0}, "give a temperature above 0"),
            ({"sampling": True, "top_p": 2.0}, "up to 1"),
            ({"sampling": True, "top_k": -2}, "top_k of 0"),
            ({"no_repeat": -1}, "no_repeat must be a number of tokens"),
            ({"prefix": [7, EOS]}, r"prefix=\(7, 2\) holds a token that stands for no word; give the tokens of a text"),
            ({"beems": 4}, "unknown key 'beems'; did you mean 'beam'"),
        ],
    )
    def test_settings_that_cannot_be_are_refused(self, translator: Translator, wrong: dict[str, float]) -> None:
        translator.translate("the cat", **wrong)

    @given(st.lists(st.integers(1, 50)), st.integers(1, 200))
    def test_batches_hold_every_sentence_once_within_the_budget(self, lengths: list[int], cells: int) -> None:
        batches = by_length(lengths, cells)
        assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
        assert all(len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= cells for batch in batches)


def test_a_folder_is_all_it_needs(translator: Translator, tmp_path: Path) -> None:
    folder.save(tmp_path, translator.model, TOKENIZER, {"longest_source": 30, "source": "en", "target": "de"})
    loaded = qkv.load(tmp_path)
    for found, expected in zip(loaded.translate(TEXTS), translator.translate(TEXTS), strict=True):
        assert found.text == expected.text
        assert found.score == pytest.approx(expected.score, abs=1e-5)
    assert loaded.longest == translator.longest
    assert loaded.about["target"] == "de"
