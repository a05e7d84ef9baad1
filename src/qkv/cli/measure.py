"""qkv measure: what attention costs on this machine as texts grow."""

import sys
from typing import TYPE_CHECKING, Literal

from qkv.cli.app import Flag, Output, Several, print_json, print_table
from qkv.errors import InputError

if TYPE_CHECKING:
    from qkv.look.cost import Cost

HEAD = ("attention", "tokens", "multiply-adds", "scores", "MB", "seconds", "growth")


def measure(
    what: Literal["attention"] = "attention", *, lengths: str = "512..16384", attention: Several = None,
    width: int = 256, heads: int = 4, causal: Flag = False, rounds: int = 1, output: Output = None, json: Flag = False,
) -> None:  # fmt: skip
    """What attentions cost as texts grow: multiply-adds, scores and bytes, counted while they run, and seconds.

    One text is read forward and backward; the projections, which all have, are left out. Growth is the power of the
    length with which the multiply-adds grow from the length before.

    For example:
      qkv measure attention
      qkv measure attention --lengths 1024..4096 -o cost.png
      qkv measure attention --attention "window(radius=64)" --lengths 700,2000

    Args:
      what: What is measured.
      lengths: In tokens, each twice the one before, 512..16384; or a list of them, 512,1000.
      attention: Which one, by any name that `qkv list attention` prints, or recurrent for an LSTM; it can be given
        several times. Without it, the usual ones.
      width: Of the model.
      heads: So many.
      causal: Let no token see what follows; attentions that cannot are left out.
      rounds: The seconds are the median of so many runs.
      output: Draw a picture of it, .png or .svg.
      json: Print a JSON object for each line.
    """
    from qkv.look.cost import CAUSAL, USUAL, Cost, cost, draw_costs, read_lengths
    from qkv.look.picture import check_suffix

    if output is not None:
        check_suffix(output)
    if width < 1 or heads < 1 or width % heads or rounds < 1:
        raise InputError(
            f"--width {width}, --heads {heads} and --rounds {rounds} do not fit; heads must divide the width"
        )
    found: list[Cost] = []
    for spec in attention or (CAUSAL if causal else USUAL):
        for length in read_lengths(lengths):
            if sys.stderr.isatty():
                print(f"\r{spec}, {length:,} tokens\x1b[K", end="", file=sys.stderr, flush=True)
            found.append(cost(spec, length, width=width, heads=heads, causal=causal, rounds=rounds))
            if json:
                print_json(found[-1].to_tree())
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    if not json:
        befores = [None, *found]
        print_table(
            (shown(one, before) for one, before in zip(found, befores, strict=False)), HEAD, range(1, len(HEAD))
        )
    if output is not None:
        print(draw_costs(found, output), file=sys.stderr if json else sys.stdout)


def shown(one: "Cost", before: "Cost | None") -> list[str]:
    from qkv.look.cost import slope

    growth = f"{slope(before, one):.2f}" if before is not None and before.attention == one.attention else ""
    counts = (f"{one.length:,}", f"{one.operations:,}", f"{one.scores:,}", f"{one.bytes / 2**20:,.0f}")
    return [one.attention, *counts, f"{one.seconds:.3f}", growth]
