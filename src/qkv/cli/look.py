"""qkv look, explain, why and picture: what attention did with one sentence, and what the lecture notes say of it."""

import json as json_module
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from qkv.cli.app import OUTPUT, Beam, Device, Flag, Model, Output, console, print_json, print_table
from qkv.errors import InputError, nearest
from qkv.files import write_text

if TYPE_CHECKING:
    from qkv.look.sentence import Look
    from qkv.why import Claim, Measured

Kind = Literal["memory", "encoder", "decoder", "entities"]
KINDS: tuple[Kind, ...] = ("memory", "encoder", "decoder", "entities")
EXAMPLE = "I am good"
ENDINGS = (".html", ".png", ".svg", ".gif")
WIDEST = 10_000  # characters of a table
MOST_EXPLAINED = 64  # tokens of a text whose computation a page holds


def look(
    text: str, second: str = "", *, model: Model = Path("model"), output: Annotated[Path, OUTPUT] = Path("look.html"),
    kind: Kind | None = None, layer: int | Literal["all"] | None = None, heads: Flag = False,
    beam: Beam = 5, n_best: int = 3, device: Device = "cpu",
) -> None:  # fmt: skip
    """Show what a model looked at: a translator while it wrote, any other while it read; with the numbers as JSON.

    The ending of the output's name chooses: .html is a page that needs nothing from outside, .png and .svg a heat map,
    .gif an animation of a translator, with a frame for each token that is written.

    For example:
      qkv look "Two dogs play in the snow." --model model
      qkv look "Two dogs." --model model -o heads.png --heads --layer 2
      qkv look "Two dogs play in the snow." --model model -o look.gif
      qkv look "A dog ate it." --model bert -o all.png --heads --layer all

    Args:
      text: The sentence.
      second: A second text, for a model that reads two, such as BERT.
      output: The file to write: .html, .png, .svg or .gif.
      kind: Of a heat map: the decoder over the source (memory), or the self-attention of the encoder or the decoder;
        what the model has, unless given.
      layer: Of a heat map or an animation: which layer, counted from 1; or all of them.
      heads: Of a heat map: each head by itself, not their mean.
      beam: Of a translator: hypotheses kept in beam search; 1 is greedy.
      n_best: Of a page of a translator: how many translations it lists.
    """
    ending = output.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"{output} ends in none of {', '.join(ENDINGS)}; choose one of them for the output's name")
    from qkv.decoding import Translator
    from qkv.opening import load

    opened = load(model, device)
    is_translator = isinstance(opened, Translator)
    if is_translator and second:
        raise InputError("a translator reads one sentence; leave out the second text, or look at two texts one by one")
    how = {"beam": beam, "n_best": min(n_best, beam)} if is_translator else {"second": second}
    if ending == ".html":
        save_page(opened, text, output, model, how)
    else:
        save_picture(opened, text, output, kind, layer, how, heads=heads)
    print(output)


def save_page(opened: Any, text: str, output: Path, folder: Path, how: dict[str, Any]) -> None:
    from qkv.look.single import single_file
    from qkv.look.view import architecture_view, curves_view, explain_view, positions_view, view
    from qkv.models import EncoderDecoder, Transformer

    shown = view(opened, text, **how)
    extras: dict[str, Any] = positions_view(opened) | architecture_view(opened) | curves_view(folder)
    is_long = len(shown.get("tokens", ())) > MOST_EXPLAINED  # each number of it stands in the file
    if not is_long and (isinstance(opened.model, Transformer) or not isinstance(opened.model, EncoderDecoder)):
        extras["explain"] = explain_view(opened, text)["steps"]
    write_text(output, single_file(shown, extras))
    write_text(output.with_suffix(".json"), json_module.dumps(shown, ensure_ascii=False))


def save_picture(
    opened: Any, text: str, output: Path, kind: Kind | None, layer: int | Literal["all"] | None, how: dict[str, Any],
    *, heads: bool,
) -> None:  # fmt: skip
    from qkv.decoding import Translator
    from qkv.decoding.trace import trace
    from qkv.look import draw
    from qkv.look.animation import animate
    from qkv.look.sentence import look_at_ids, look_while_reading

    is_animation = output.suffix.lower() == ".gif"
    if is_animation and (kind not in (None, "memory") or heads or layer == "all"):
        raise InputError("an animation shows the mean of the decoder's heads over the source; leave out the others")
    if isinstance(opened, Translator):
        traced = trace(opened, text, beam=how["beam"])
        seen, title = (
            look_at_ids(opened, traced.source_ids, traced.target_ids),
            f"{traced.text} → {traced.translated.text}",
        )
    elif is_animation:
        raise InputError(f"{output} is an animation of a translation, and this model reads; let it end in .png or .svg")
    else:
        seen, title = look_while_reading(opened, text, how["second"]), f"{text} {how['second']}"
    if is_animation and not seen.of_kind("memory"):
        raise InputError(f"{output} is an animation of a decoder over its source, which this model has not; use .png")
    kind, weights = chosen(opened, seen, kind, layer)
    (animate if is_animation else draw)(
        weights if heads else weights.mean(dim=-3, keepdim=layer == "all"),
        *seen.labels[kind],
        output,
        title=title.strip(),
    )


def chosen(opened: Any, seen: "Look", kind: Kind | None, layer: int | Literal["all"] | None) -> tuple[Kind, Any]:
    """Which kind, and its weights (H, T, S), or (layers, H, T, S) of all layers.

    Unless something else is asked for, those of the decoder over the source, of the layer that aligns words; of a model
    that only reads, its last layer's.
    """
    import torch

    from qkv.decoding.alignment import check_layer, readout_of

    which: Kind = kind if kind is not None else next(one for one in KINDS if seen.of_kind(one))
    maps = seen.of_kind(which)
    if not maps:
        raise InputError(f"this model has no attention of the kind {which}; look at another --kind")
    if layer == "all":
        return which, torch.stack(maps)
    if which == "memory":
        return which, maps[check_layer(opened, readout_of(opened).layer if layer is None else layer)]
    number = len(maps) if layer is None else layer
    if not 1 <= number <= len(maps):
        raise InputError(f"there is no layer {number} in this {which}; give 1 to {len(maps)}")
    return which, maps[number - 1]


def explain(
    text: str = EXAMPLE, *, model: Path | None = None,
    stack: Literal["encoder", "decoder"] = "encoder", layer: int = 1, head: int = 1,
    unscaled: Flag = False, causal: Flag = False, json: Flag = False, output: Output = None,
) -> None:  # fmt: skip
    """Show how attention is computed: embeddings, q, k, v, scores, softmax, values, heads, residual, feed-forward.

    For example:
      qkv explain
      qkv explain "Two dogs play." --model model --layer 2 --head 3
      qkv explain "Two dogs play." --model model --stack decoder -o steps.html
      qkv explain "Two dogs <mask>." --model bert --layer 4 --head 2

    Args:
      text: The sentence.
      model: A model folder; without one, the worked example is shown.
      stack: Of a translator: the encoder, which reads the sentence, or the decoder, which writes its translation.
      layer: Which block, counted from 1.
      head: Which head, counted from 1.
      unscaled: Of the worked example: leave out the division by sqrt(d_k), as in the lecture.
      causal: Of the worked example: mask the future, as in a decoder.
      json: Print the numbers as JSON.
      output: Write a page (.html) or a picture (.svg) instead of tables.
    """
    from qkv.look import page
    from qkv.look.steps import worked_example

    if model is None:
        if text != EXAMPLE:
            raise InputError(f'the worked example is "{EXAMPLE}"; for another sentence give a trained --model')
        steps = worked_example(scaled=not unscaled, causal=causal)
    elif unscaled or causal:
        raise InputError("--unscaled and --causal are of the worked example; a model has its own scaling and masks")
    else:
        from qkv.look.explain import explain as explain_model
        from qkv.opening import load

        steps = explain_model(load(model), text, stack=stack, layer=layer, head=head)
    if output is not None:
        print(page.save(steps, output, f"How attention reads: {text}"))
    elif json:
        print_json([step.to_tree() for step in steps])
    else:
        for step in steps:
            shown = page.as_table(step)
            whole = console().measure(shown, options=console().options.update(width=WIDEST)).maximum
            shown.width = whole if whole > console().width else None  # a terminal folds long rows; no number is cut
            console().print(shown)
            console().print()


# -- the lecture notes -----------------------------------------------------------------------------------------------


def why(name: str = "", *, output: Output = None, json: Flag = False, language: Literal["en", "zh"] = "en") -> int:
    """Why it is built so: measure a claim of the lecture notes on attention and the Transformer; without a name, list
    them all by topic, each with its verdict: true, true with a correction, or wrong.

    Each takes less than a minute, and the exit code is 1 if an effect has the wrong sign.

    For example:
      qkv why
      qkv why scale -o scale.png
      qkv why N11 --json
      qkv why N11 --language zh

    Args:
      output: Save the picture here, .png or .svg.
      language: Say the claim, its verdict and the reason in English or in Chinese.
    """
    from qkv.look.picture import check_suffix
    from qkv.why import find

    if not name:
        list_claims(json, language)
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
        show(claim, measured, language)
    return 0 if measured.holds else 1


def list_claims(as_json: bool, language: str) -> None:
    from qkv.why import CLAIMS, TOPICS, said_in, topic_of, verdict_of

    claims = [
        {"number": c.number, "name": c.name, "verdict": verdict_of(c), "claim": c.words, "topic": topic_of(c)}
        for c in CLAIMS
    ]
    if as_json:
        return print_json(claims)
    say = said_in(language)
    for i, topic in enumerate(TOPICS):
        print("\n" * bool(i) + say(topic))
        print_table([*map(say, claim.values())][:-1] for claim in claims if claim["topic"] == topic)
    counts = Counter(claim["verdict"] for claim in claims)
    if language == "zh":
        said = "，".join(f"{say(verdict)} {count} 个" for verdict, count in counts.items())
        return print(f"\n共 {len(claims)} 个论断：{said}。qkv why 名字 --language zh 会重新测量其中一个。")
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    print(f"\n{len(claims)} claims: {said}. qkv why NAME measures one again; docs/why.md has all the numbers.")


def show(claim: "Claim", measured: "Measured", language: str) -> None:
    from qkv.why import said_in

    say = said_in(language)
    print(f"{claim.number} {claim.name}: {say(claim.words)}\n")
    numbers = [i for i, cell in enumerate(measured.rows[0]) if not isinstance(cell, str)]
    print_table(measured.shown(), measured.columns, numbers)
    why = say(f"{claim.number} why") if language == "zh" else measured.why
    print(f"\n{say(measured.verdict)}: {why}")
    if not measured.holds:
        print("This time the numbers do not show it: the effect has the wrong sign.")


def picture(name: str = "", *, output: Output = None, model: Path | None = None, text: str = "") -> None:
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
    from qkv.opening import load
    from qkv.why.pictures import PICTURES

    if not name:
        return print_table((one, (draw.__doc__ or "").split("\n")[0]) for one, draw in PICTURES.items())
    if name not in PICTURES:
        raise InputError(f"there is no picture {name!r}; {nearest(name, PICTURES)}")
    path = output or Path(f"{name}.{'gif' if name in ANIMATIONS else 'png'}")
    check_ending(path, is_animation=name in ANIMATIONS)
    require_matplotlib()
    given = Given(load(model) if model else None, text, spell=path.suffix.lower() != ".svg")
    print(PICTURES[name](given).save(path))
