"""qkv compare: variations of a recipe, trained for the same budget, in one table."""

from pathlib import Path

from rich.console import Console

from qkv.cli.app import Files, Flag, Several, print_json, print_table
from qkv.errors import InputError

WIDE = 400  # columns: figures are never cut; a narrow terminal folds the lines


def compare(
    recipe: str = "", *, papers: Flag = False, vary: Several = None, one_by_one: Flag = False, seeds: int = 1,
    steps: int | None = None, epochs: float | None = None, minutes: float | None = None, text: Files = None,
    beam: int = 5, alpha: float = 1.0, jobs: int = 1, skip_impossible: Flag = False,
    out: Path = Path("comparison"), json: Flag = False,
) -> int:  # fmt: skip
    """Train variations of a recipe for the same budget, and put their figures in one table, the best row first.

    The recipe may be of any task: translations are told apart by BLEU, answers of other tasks by their accuracy.

    The same command again goes on where it stopped, and runs nothing twice.

    For example:
      qkv compare recipe.toml --vary position=learned,t5 --epochs 5 --seeds 3
      qkv compare recipe.toml --vary architecture=transformer,recurrent --minutes 10
      qkv compare recipe.toml --vary model.n_heads=1,2,8 --one-by-one
      qkv compare table3-multi30k --out table3
      qkv compare ewt-genre-han --vary model.pooling=attention,mean --seeds 2
      qkv compare --papers --minutes 10 --seeds 3
      qkv compare --papers --text book.txt --steps 20 --epochs 1 --out try

    Args:
      recipe: A TOML file of settings, or the name of one that `qkv list recipes` shows; its [[vary]] rows are compared.
      papers: The recipe `papers`: the pre-trained family, from ELMo to XLNet, each pre-trained for the same budget,
        then fine-tuned on the same two sets.
      vary: KEY=A,B in their place: attention, position, architecture, or a setting such as model.d_model; may be
        repeated.
      one_by_one: Each variation alone, after the recipe as it is; not every combination.
      seeds: Runs of each row, for a mean and a spread.
      steps: Budget of each run in steps, in place of the recipe's own; of a recipe with stages, that of all stages
        before a row.
      epochs: Budget of each run in passes over the data; of a recipe with stages, that of the rows' own runs.
      minutes: Budget in training time, of the same runs as --steps.
      text: Files for the stages in place of the recipe's: what is pre-trained on.
      beam: Hypotheses kept in beam search when BLEU is measured; 1 is greedy.
      alpha: Length penalty.
      jobs: Runs at a time; several have one thread each.
      skip_impossible: Leave out combinations that cannot be built; without it they are refused before anything trains.
      out: The folder to write: runs, table.md, table.json, table.png.
      json: Print the table as one JSON object.
    """
    from qkv.comparing import compare as run

    if papers == bool(recipe):
        raise InputError("give the name of one recipe, or --papers for the one of that name")
    found = run(
        recipe or "papers", vary=vary or (), one_by_one=one_by_one, seeds=seeds, steps=steps, epochs=epochs,
        minutes=minutes, text=text or (), beam=beam, alpha=alpha, jobs=jobs, skip_impossible=skip_impossible, out=out,
    )  # fmt: skip
    if json:
        print_json(found.table.tree())
    else:
        titles = found.table.header()
        wide = Console(highlight=False, width=WIDE)
        print_table(found.table.cells(), titles, range(1, len(titles)), wide)
        for line in [*found.table.notes(), f"saved in {found.out}: table.md, table.json, table.png and the runs"]:
            print(line)
    return 130 if found.interrupted else 1 if found.failed else 0
