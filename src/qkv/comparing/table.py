"""The table of a comparison: the best row first, each figure as mean and spread over seeds."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qkv.comparing.plan import Row
from qkv.config import Tree
from qkv.evaluation import FIGURES, Figure, better, figure, in_words, is_of_part
from qkv.tasks import Task

BEHIND = "{} behind the best, seed by seed"
OVER = "{} over its counterpart, seed by seed"
MOST = ("parameters", "stage_steps", "stage_minutes", "peak_memory")  # what is the most of several runs
BESIDE = {name for name, one in FIGURES.items() if one.beside}
MOST_FLIPS = 16  # seeds of which all signs are tried


@dataclass
class Entry:
    """A row and what became of its runs."""

    row: Row
    results: list[Tree] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)  # seed -> why
    waiting: int = 0
    left_out: list[str] = field(default_factory=list)  # settings of the recipe that its architecture does not have
    of_sets: dict[int, dict[str, Tree]] = field(default_factory=dict)  # by seed and set, what `results` are made of

    def values(self, name: str) -> list[float]:
        return [result[name] for result in self.results if result.get(name) is not None]

    def mean(self, name: str) -> float | None:
        values = self.values(name)
        return statistics.fmean(values) if values else None

    def spread(self, name: str) -> float | None:
        """The sample's standard deviation; one run has none."""
        values = self.values(name)
        return statistics.stdev(values) if len(values) > 1 else None

    def behind(self, best: "Entry", name: str) -> str:
        """How much less this row has than the best one."""
        return "" if self is best else best.over(self, name)

    def over(self, other: "Entry", name: str) -> str:
        """How much more this row has than another with the same seeds: mean and spread, in how many seeds, and how
        probable as much would be if either row could have been the other; nothing of one seed."""
        more = self.differences(other, name)
        if len(more) < 2:
            return ""
        figure, seen = FIGURES[name], sum(one > 0 for one in more)
        mean, spread = figure.text(statistics.fmean(more)), figure.text(statistics.stdev(more))
        return f"{mean} ± {spread}, {seen} of {len(more)}, p = {by_sign_flips(more):.2f}"

    def differences(self, other: "Entry", name: str) -> list[float]:
        """How much more this row has than another, for each seed that both have."""
        mine, theirs = (
            {result["seed"]: float(result[name]) for result in entry.results if result.get(name) is not None}
            for entry in (self, other)
        )
        return [better(name, mine[seed]) - better(name, theirs[seed]) for seed in theirs if seed in mine]

    def cell(self, name: str) -> str:
        mean, spread, known = self.mean(name), self.spread(name), shown(name)
        if mean is None:
            return ""
        around = f" ± {known.text(spread)}" if spread is not None and name != "parameters" else ""
        return known.text(mean) + around + known.after


def shown(name: str) -> Figure:
    """A figure that has a column."""
    known = figure(name)
    assert known
    return known


def combined(of_sets: Mapping[str, Tree], scores: Mapping[str, str]) -> Tree:
    """What one row comes to on several sets with one seed: the score of each under its name, and their mean; and the
    baselines of each set under their own names."""
    parts = {f"{name}.{scores[name]}": result[scores[name]] for name, result in of_sets.items()}
    simple: dict[str, Tree] = {}
    for name, result in of_sets.items():
        for baseline, value in result.get("baselines", {}).items():
            simple.setdefault(baseline, {})[f"{name}.{scores[name]}"] = value
    first, *_ = of_sets.values()
    most = {key: max(result[key] for result in of_sets.values()) for key in MOST if first.get(key) is not None}
    found = {**most, "mean": statistics.fmean(parts.values()), **parts, "simple": simple}
    return {"seed": first["seed"], "threads": first["threads"], "measured_on": first["measured_on"], **found}


def by_sign_flips(differences: Sequence[float]) -> float:
    """Fisher 1935: the share of all ways to give the differences signs whose sum is as far from 0; exact."""
    kept, sums = differences[:MOST_FLIPS], [0.0]
    seen = abs(sum(kept)) * (1 - 1e-9)
    for one in kept:
        sums = [total + signed for total in sums for signed in (one, -one)]
    return statistics.fmean(abs(total) >= seen for total in sums)


@dataclass(frozen=True)
class Table:
    """All rows, and the sentences that belong below them."""

    recipe: str
    task: type[Task]
    search: Tree
    entries: Sequence[Entry]
    impossible: dict[str, str] = field(default_factory=dict)  # row -> why it cannot be built

    def sorted(self) -> list[Entry]:
        """The best score first; rows without one last, in their own order."""

        def key(entry: Entry) -> float:
            mean = entry.mean(self.task.score)
            return math.inf if mean is None else -better(self.task.score, mean)

        return sorted([*self.entries, *self.simple], key=key)

    @property
    def simple(self) -> list[Entry]:
        """What is simple, and has to be beaten, as rows of their own where there are several sets."""
        found: dict[str, dict[int, Tree]] = {}
        for result in [result for entry in self.entries for result in entry.results]:
            for name, figures in result.get("simple", {}).items():
                found.setdefault(name, {})[result["seed"]] = {"seed": result["seed"], **figures}
        return [Entry(Row(f"baseline: {name}"), [*by_seed.values()]) for name, by_seed in found.items()]

    def figures(self) -> list[str]:
        """The figures that any run has; before there is one, those that its task will have."""
        names = [n for n in FIGURES if n not in BESIDE and any(entry.values(n) for entry in self.entries)]
        found = dict.fromkeys(name for entry in self.entries for result in entry.results for name in result)
        after = names.index(self.task.score) + 1 if self.task.score in names else len(names)
        names[after:after] = [name for name in found if is_of_part(name)]
        return names or [name for name in FIGURES if name in ("parameters", *self.task.figures, "peak_memory")]

    def learning(self) -> dict[str, dict[int, list[float]]]:
        """Of rows that are points of learning curves: the scores of all runs, by curve and number of examples."""
        found: dict[str, dict[int, list[float]]] = {}
        for entry in self.entries:
            if entry.row.curve and (values := entry.values(self.task.score)):
                unit = FIGURES[self.task.score].unit
                found.setdefault(entry.row.curve, {})[entry.row.examples] = [value / unit for value in values]
        return found

    def header(self) -> list[str]:
        published = ["published"] if any(entry.row.published for entry in self.entries) else []
        paired = [BEHIND.format(FIGURES[self.task.score].title)] if self.are_paired else []
        over = [OVER.format(FIGURES[self.task.score].title)] * bool(self.over())
        return ["row", *(shown(name).title for name in self.figures()), *over, *paired, *published]

    def over(self) -> dict[str, str]:
        """Of rows that are set against another one: how much more they have."""
        pairs = self.pairs().values()
        return {one.row.name: said for one, other in pairs if (said := one.over(other, self.task.score))}

    def pairs(self) -> dict[str, tuple[Entry, Entry]]:
        """Rows that are set against another one, and that one."""
        entries = {entry.row.name: entry for entry in self.entries}
        return {name: (one, entries[one.row.against]) for name, one in entries.items() if one.row.against in entries}

    @property
    def are_paired(self) -> bool:
        """Whether some row has seeds in common with the best one."""
        ranked = self.sorted()
        return any(entry.behind(ranked[0], self.task.score) for entry in ranked)

    def cells(self) -> list[list[str]]:
        names, has_published, over, rows = self.figures(), self.header()[-1] == "published", self.over(), []
        for entry in (ranked := self.sorted()):
            paired = [entry.behind(ranked[0], self.task.score)] * self.are_paired
            more = [over.get(entry.row.name, "")] * bool(over)
            told = [*more, *paired, *[entry.row.published] * has_published]
            rows.append([entry.row.name, *map(entry.cell, names), *told])
            if not entry.results:
                rows[-1][1] = "failed" if entry.failed else "waiting"
        return rows

    def notes(self) -> list[str]:
        results = [result for entry in self.entries for result in entry.results]
        seeds, notes = sorted({result["seed"] for result in results}), []
        if results:
            said = "mean ± standard deviation over seeds" if len(seeds) > 1 else "no spread is known of one seed:"
            notes.append(f"{said} {', '.join(map(str, seeds))}")
        if self.are_paired:
            notes.append("behind the best: mean ± deviation, in how many seeds, and p by sign flips, of two sides")
        for signature, where in sorted({(r["bleu_signature"], r["measured_on"]) for r in results if "bleu" in r}):
            how = ", ".join(f"{key} {value}" for key, value in self.search.items())
            notes.append(f"BLEU of the {where}, {how}: {signature}")
        simple = sorted({in_words({n: result[n] for n in result if n in BESIDE}) for result in results} - {""})
        title = FIGURES[self.task.score].title
        places = {r["measured_on"] for r in results if {"baselines", "simple"} & r.keys()}
        notes += [f"{title} of the {where}" for where in sorted(places)]
        notes += [f"beside them, without a model: {said}" for said in simple] or self.baselines()
        threads = sorted({result["threads"] for result in results})
        if len(threads) > 1:
            notes.append(f"runs had {' or '.join(map(str, threads))} threads: do not compare their speeds")
        if over := self.over():
            pairs = self.pairs()
            notes.append("counterparts: " + "; ".join(f"of {name}, {pairs[name][1].row.name}" for name in over))
        for entry in self.entries:
            if entry.row.note:
                notes.append(f"{entry.row.name}: {entry.row.note}")
            if entry.left_out:
                notes.append(f"{entry.row.name}: this architecture has no {', '.join(entry.left_out)}")
            notes += [f"{entry.row.name}, seed {seed}: failed: {why}" for seed, why in entry.failed.items()]
            if entry.waiting:
                notes.append(f"{entry.row.name}: runs still to be done: {entry.waiting}")
        return notes + [f"{name}: left out, cannot be built: {why}" for name, why in self.impossible.items()]

    def baselines(self) -> list[str]:
        """What is simple, and has to be beaten: a mean over the runs of a row. Of rows that learned from other examples
        it is said how far their means go."""
        rows = [[one for result in entry.results if (one := result.get("baselines"))] for entry in self.entries]
        score, said = FIGURES[self.task.score], []
        for name in dict.fromkeys(name for row in rows for one in row for name in one):
            found = ([one[name] for one in row if name in one] for row in rows)
            means = [statistics.fmean(values) for values in found if values]
            lowest, highest = score.text(min(means)), score.text(max(means))
            said.append(f"{name} {lowest}{f' to {highest}' * (highest != lowest)}{score.after}")
        return [f"baselines on the validation examples: {', '.join(said)}"] * bool(said)

    def markdown(self) -> str:
        header = self.header()
        rule = ["---", *["---:"] * (len(header) - 1)]
        lines = [" | ".join(cell.replace("|", r"\|") for cell in row) for row in (header, rule, *self.cells())]
        notes = "".join(f"- {note}\n" for note in self.notes())
        return f"# Comparison: {self.recipe}\n\n" + "".join(f"| {line} |\n" for line in lines) + f"\n{notes}"

    def tree(self) -> Tree:
        """Everything, as plain data."""
        rows = []
        for entry in self.sorted():
            figures = {name: {"mean": entry.mean(name), "spread": entry.spread(name)} for name in self.figures()}
            failed = {str(seed): why for seed, why in entry.failed.items()}
            rest = {"runs": entry.results, "failed": failed, "waiting": entry.waiting, "left_out": entry.left_out}
            rows.append({**vars(entry.row), "figures": figures, **rest})
        return {"recipe": self.recipe, "search": self.search, "rows": rows, "impossible": self.impossible}
