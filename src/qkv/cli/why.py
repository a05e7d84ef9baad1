"""qkv why and qkv picture: the claims of the lecture notes, measured, and their pictures, drawn from real numbers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from qkv.cli.app import OUTPUT, Flag, out, print_json, print_table
from qkv.errors import InputError, nearest

if TYPE_CHECKING:
    from qkv.why import Claim, Measured


def why(
    name: str = "",
    *,
    output: Annotated[Path | None, OUTPUT, Parameter(help="save the picture here, .png or .svg")] = None,
    json: Flag = False,
) -> int:
    """Why it is built so: measure a claim of the lecture notes; without a name, list them all.

    Each takes less than a minute, and the exit code is 1 if an effect has the wrong sign.

    For example:
      qkv why
      qkv why scale -o scale.png
      qkv why N11 --json
    """
    from qkv.look.picture import check_suffix
    from qkv.why import CLAIMS, find

    if not name:
        claims = [{"number": c.number, "name": c.name, "claim": c.words} for c in CLAIMS]
        print_json(claims) if json else print_table(list(claim.values()) for claim in claims)
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


def show(claim: "Claim", measured: "Measured") -> None:
    out.print(f"{claim.number} {claim.name}: {claim.words}\n", markup=False)
    numbers = [i for i, cell in enumerate(measured.rows[0]) if not isinstance(cell, str)]
    print_table(measured.shown(), measured.columns, numbers)
    out.print(f"\n{measured.verdict}: {measured.why}", markup=False)
    if not measured.holds:
        out.print("This time the numbers do not show it: the effect has the wrong sign.")


def picture(
    name: str = "",
    *,
    output: Annotated[Path | None, OUTPUT] = None,
    model: Path | None = None,
    text: str = "",
) -> None:
    """Draw a picture of the lecture notes from real numbers; without a name, list them all.

    The numbers drawn are written beside it, in a .json of the same name.

    For example:
      qkv picture
      qkv picture positions -o positions.svg
      qkv picture heads --model model --text "A dog ate"
      qkv picture decoding --model model -o decoding.gif

    Args:
      name: Which picture.
      output: The file to write: .png or .svg, for an animation .gif; its name and .png or .gif if none is given.
      model: A model folder, for pictures of a trained model.
      text: The sentence that such a picture shows, in place of its own.
    """
    from qkv.look.fonts import require_matplotlib
    from qkv.look.gallery import ANIMATIONS, Given, check_ending
    from qkv.opening import load_translator
    from qkv.why.pictures import PICTURES

    if not name:
        return print_table((one, (draw.__doc__ or "").split("\n")[0]) for one, draw in PICTURES.items())
    if name not in PICTURES:
        raise InputError(f"there is no picture {name!r}; {nearest(name, PICTURES)}")
    path = output or Path(f"{name}.{'gif' if name in ANIMATIONS else 'png'}")
    check_ending(path, is_animation=name in ANIMATIONS)
    require_matplotlib()
    translator = load_translator(model) if model else None
    given = Given(translator, text, spell=path.suffix.lower() != ".svg")
    print(PICTURES[name](given).save(path))
