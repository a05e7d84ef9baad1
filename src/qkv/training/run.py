"""A whole training run, from files of pairs to a model folder: what `qkv train` and `qkv.train` do."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from qkv.config import Tree, merge
from qkv.data import Batches, Corpus
from qkv.errors import InputError
from qkv.files import write_text
from qkv.models import MODELS
from qkv.text import languages
from qkv.text.tokenizer import Tokenizer
from qkv.training import checkpoint, prepare
from qkv.training.choose import Corpus as Known
from qkv.training.choose import choose
from qkv.training.course import Course, Trained, Work, alone_in, asked_for, check_out
from qkv.training.device import choose_device
from qkv.training.display import Display
from qkv.training.judge import Judge
from qkv.training.settings import Settings, check, complete, paths
from qkv.training.toml import to_toml

__all__ = ["Run", "Trained", "check_out", "train"]


def train(
    *files: str | Path, source: str = "", target: str = "", out: str | Path = "model",
    valid: Sequence[str | Path] = (), test: Sequence[str | Path] = (), recipe: str | Path | None = None,
    restart: bool = False, quiet: bool = False, **settings: Any,
) -> Trained:  # fmt: skip
    """Train a translator on files of sentence pairs; the same call again goes on where it stopped.

    >>> qkv.train("pairs.tmx", source="en", target="de", out="model", training={"minutes": 30}, model={"d_model": 256})

    `settings` are trees of the sections data, model, objective and training, as in a recipe.
    """
    languages = {name: value for name, value in (("source", source), ("target", target)) if value}
    asked = asked_for(files, valid, test, recipe, {**languages, **settings})
    where = str(recipe) if recipe else "settings"
    check(asked, where)
    with alone_in(Path(out)):
        return Run(Path(out), asked, Display(quiet), restart, where).go()


class Run(Course):
    """A translator's run: pairs are examined, encoded and written to shards, which need no memory to read."""

    def complete(self, tree: Tree, where: str) -> Settings:
        return complete(tree, where)

    def work(self, settings: Settings, tokenizer: Tokenizer) -> Work:
        train, valid = (Corpus.open(self.place / "data" / name, tokenizer.fingerprint) for name in ("train", "valid"))
        longest = max(int(train.lengths(shard)[:, 0].max(initial=0)) for shard in range(train.shards))
        direction = f"{settings.source or 'source'} -> {settings.target or 'target'}"
        return Work(
            Batches(train, settings.data.batch_tokens, settings.data.seed),
            Judge(settings, tokenizer, valid),
            {"source": settings.source, "target": settings.target, "longest_source": longest},
            f"{direction}: {len(train):,} pairs to train on, {len(valid):,} to validate",
        )

    def prepared(self) -> Settings:
        """Read, examine and encode the files; choose what was not given; write down the settings."""
        if not self.asked.get("train"):
            raise InputError("no file was given; for example: qkv train pairs.tmx --from en --to de")
        # Sizes follow the corpus; until it is read, the smallest stand for them, which divide all others.
        partial = complete(merge({"model": {"preset": "tiny"}}, self.asked), self.where)
        train, valid, test = (paths(several) for several in (partial.train, partial.valid, partial.test))
        found = languages(train, partial.source or None, partial.target or None)
        names = {"source": found[0] or "", "target": found[1] or ""}
        source = prepare.Source(train, valid, test, names["source"], names["target"], partial.data.doctor)
        with self.display.counting("reading", None) as tick:
            survey = source.survey(tick)
        self.tell_findings(survey)
        device = choose_device(partial.training.device)
        chosen = choose(Known(survey.report.kept, survey.characters), device, partial.training)
        known = ["preset", *(field.name for field in fields(partial.model))]
        chosen["model"] = {key: value for key, value in chosen["model"].items() if key in known}
        tree = merge(chosen, self.asked, names)
        settings = complete(tree, self.where)
        MODELS[settings.architecture](settings.model)  # what cannot be built is refused before anything is written
        tokenizer = prepare.learn_tokenizer(settings.data, survey.sample)
        tree = merge(tree, {"model": self.fitting(settings, tokenizer)})
        settings = complete(tree, self.where)
        with checkpoint.explained(self.out), self.display.counting("encoding", survey.report.kept) as tick:
            self.clear()
            tokenizer.save(self.place / "tokenizer.json")
            ready = prepare.write(self.place / "data", source, survey, tokenizer, settings.data, tick)
            write_text(self.recipe, to_toml(settings, survey.files))
        for which, corpus in (("", ready.train), ("validation: ", ready.valid)):
            if corpus.written.duplicates:
                self.say(f"  {which}{corpus.written.duplicates:,} pairs repeated another pair exactly: dropped")
            if long := corpus.written.too_long:
                self.say(f"  {which}{long:,} pairs had over {settings.data.max_length} tokens on a side: dropped")
        return settings

    def fitting(self, settings: Settings, tokenizer: Tokenizer) -> Tree:
        """What of the model follows from the data."""
        asked, vocabulary = self.asked.get("model", {}), len(tokenizer)
        if asked.get("vocab_size", vocabulary) != vocabulary:
            raise InputError(
                f"model.vocab_size is {asked['vocab_size']}, but the tokenizer has {vocabulary} entries; leave it out"
            )
        longest = settings.data.max_length + 2
        if asked.get("max_length", longest) < longest:
            raise InputError(f"model.max_length must be at least {longest}: data.max_length and two more; leave it out")
        fitted: Tree = {"vocab_size": vocabulary, "max_length": asked.get("max_length", max(longest, 256))}
        chosen = (getattr(settings.model, key, "") for key in ("attention", "encoder_attention"))
        if any("scope" in name for name in chosen):
            fitted["sentence_ends"] = tokenizer.sentence_ends()
        return fitted

    def tell_findings(self, survey: prepare.Survey) -> None:
        report = survey.report
        self.say(f"{report.read:,} pairs read, {report.kept:,} kept")
        for line in report.lines():
            self.say(f"  {line}")
        for line in survey.valid_report.lines():
            self.say(f"  validation: {line}")
