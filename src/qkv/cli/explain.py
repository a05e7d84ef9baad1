"""qkv explain: the Q, K, V computation of one sentence, step by step."""

from pathlib import Path
from typing import Annotated, Literal

from qkv.cli.app import OUTPUT, Flag, out, print_json
from qkv.errors import InputError

EXAMPLE = "I am good"


def explain(
    text: str = EXAMPLE,
    *,
    model: Path | None = None,
    stack: Literal["encoder", "decoder"] = "encoder",
    layer: int = 1,
    head: int = 1,
    unscaled: Flag = False,
    causal: Flag = False,
    json: Flag = False,
    output: Annotated[Path | None, OUTPUT] = None,
) -> None:
    """Show how attention is computed: embeddings, q, k, v, scores, softmax, values, heads, residual, feed-forward.

    For example:
      qkv explain
      qkv explain "Two dogs play." --model model --layer 2 --head 3
      qkv explain "Two dogs play." --model model --stack decoder -o steps.html

    Args:
      text: The sentence.
      model: A model folder; without one, the worked example is shown.
      stack: The encoder, which reads the sentence, or the decoder, which writes its translation.
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
        from qkv.opening import load_translator

        steps = explain_model(load_translator(model), text, stack=stack, layer=layer, head=head)
    if output is not None:
        print(page.save(steps, output, f"How attention reads: {text}"))
    elif json:
        print_json([step.to_tree() for step in steps])
    else:
        for step in steps:
            out.print(page.as_table(step))
            out.print()
