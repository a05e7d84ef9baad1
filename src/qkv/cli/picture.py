"""qkv picture: the pictures of the lecture notes, drawn from real numbers."""

from pathlib import Path
from typing import Annotated

from qkv.cli.app import OUTPUT, print_rows
from qkv.errors import InputError, nearest


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
        return print_rows({one: (draw.__doc__ or "").split("\n")[0] for one, draw in PICTURES.items()})
    if name not in PICTURES:
        raise InputError(f"there is no picture {name!r}; {nearest(name, PICTURES)}")
    path = output or Path(f"{name}.{'gif' if name in ANIMATIONS else 'png'}")
    check_ending(path, is_animation=name in ANIMATIONS)
    require_matplotlib()
    translator = load_translator(model) if model else None
    given = Given(translator, text, spell=path.suffix.lower() != ".svg")
    print(PICTURES[name](given).save(path))
