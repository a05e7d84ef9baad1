"""qkv why: the claims of the lecture notes, measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.table import Table

from qkv.cli.app import Flag, out, print_json
from qkv.errors import InputError

if TYPE_CHECKING:
    from qkv.why import Claim, Measured


def why(
    name: str = "",
    *,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="save the picture here, .png or .svg")
    ] = None,
    json: Flag = False,
) -> int:
    """Why it is built so: measure a claim of the lecture notes; without a name, list them all.

    Each takes less than a minute, and the exit code is 1 if an effect has the wrong sign.

    For example:
      qkv why
      qkv why scale -o scale.png
      qkv why N11 --json
    """  # fmt: skip
    from qkv.look.picture import check_suffix
    from qkv.why import find

    if not name:
        list_claims(as_json=json)
        return 0
    claim = find(name)
    if output is not None:
        check_suffix(output)
    measured = claim.run()
    if output is not None:
        if measured.picture is None:
            raise InputError(f"{claim.name} has no picture; leave out -o, its numbers say it all")
        measured.picture(output)
    if json:
        print_json({"number": claim.number, "name": claim.name, "claim": claim.words, **measured.to_tree()})
    else:
        show(claim, measured)
    return 0 if measured.holds else 1


def list_claims(*, as_json: bool) -> None:
    from qkv.why import CLAIMS

    if as_json:
        print_json([{"number": c.number, "name": c.name, "claim": c.words} for c in CLAIMS])
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for claim in CLAIMS:
        table.add_row(claim.number, claim.name, claim.words)
    out.print(table)


def show(claim: "Claim", measured: "Measured") -> None:
    out.print(f"{claim.number} {claim.name}: {claim.words}\n", markup=False)
    table = Table(box=None, pad_edge=False)
    for i, column in enumerate(measured.columns):
        table.add_column(column, justify="left" if isinstance(measured.rows[0][i], str) else "right")
    for row in measured.shown():
        table.add_row(*row)
    out.print(table)
    out.print(f"\n{measured.verdict}: {measured.why}", markup=False)
    if not measured.holds:
        out.print("This time the numbers do not show it: the effect has the wrong sign.")
