"""Pictures of a trained model on one sentence: who "it" looks at, by which head; one query against every key."""

import torch
from torch import Tensor

from qkv.errors import InputError
from qkv.look.explain import explain
from qkv.look.heatmap import compose
from qkv.look.picture import (
    COLOURS,
    Axes,
    Given,
    Picture,
    blank,
    boxed,
    canvas,
    lined,
    name,
    sheet,
    table,
    whole_ticks,
    write,
)  # fmt: skip
from qkv.look.sentence import look_at

ANIMAL = "The animal didn't cross the street because it was too tired"
CELLS, CELL = 0.56, 0.022  # where the heads of each token stand, and how wide each is
JANE = "Jane visite l'Afrique en septembre"


def pointing(given: Given) -> tuple[list[str], Tensor, dict[str, int]]:
    """The tokens, and what each head of each layer gave them: (layers, H, T, T); a translator's encoder, or a backbone.

    Then the places of "it" and "animal" (else of the last word and the second), and the head that links them best.
    """
    look = look_at(given.trained, given.text or ANIMAL)
    maps = look.of_kind("encoder") or ([] if look.target else look.of_kind("decoder"))
    if not maps:
        raise InputError("the encoder of this model has no self-attention; give a transformer with --model")
    weights = torch.stack(maps).double()
    words = [token.strip("▁").lower() for token in look.source]
    asked = words.index("it") if "it" in words else len(words) - 2
    wanted = next((words.index(noun) for noun in ("animal", "dog") if noun in words), min(1, len(words) - 1))
    layer, head = divmod(int(weights[:, :, asked, wanted].argmax()), weights.size(1))
    return look.source, weights, {"query": asked, "key": wanted, "layer": layer, "head": head}


def heat_map(given: Given) -> Picture:
    """Vaswani et al. 2017, Figure 3: who looks at whom in the encoder; the head that takes "it" for "animal" best."""
    tokens, weights, found = pointing(given)
    shown = weights[found["layer"], found["head"]]
    share = shown[found["query"], found["key"]].item()
    pair = f"{tokens[found['query']]} -> {tokens[found['key']]}".replace("▁", "")
    title = f"layer {found['layer'] + 1}, head {found['head'] + 1}: {pair} {share:.2f}"
    figure = compose(shown[None], tokens, tokens, title, spell=given.spell)
    focus = weights[:, :, found["query"]]  # (layers, H, T)
    return Picture([figure], {"tokens": tokens, **found, "weights": shown, "focus": focus})


def heads(given: Given) -> Picture:
    """Lines from one word to all others (tensor2tensor's picture), and beside each a cell for every head in its colour.

    A cell is as strong as its weight."""
    tokens, weights, found = pointing(given)
    focus = weights[found["layer"], :, found["query"]]  # (H, T)
    shown = focus[:, found["key"]].topk(min(len(COLOURS), len(focus))).indices.sort().values  # as there are colours
    rows = focus[shown]
    figure, axes = sheet(7, max(3.0, 0.34 * len(tokens)))
    high = 1 / (len(tokens) + 1)  # the uppermost line names the columns
    height = [1 - (i + 1.5) * high for i in range(len(tokens))]
    for head, row in enumerate(rows.tolist()):
        beside = CELLS + CELL * head
        for y, weight in zip(height, row, strict=True):
            lift = high * (0.6 * (head + 0.5) / len(rows) - 0.3)  # no line lies on another head's
            ends = [height[found["query"]] + lift, y + lift]
            axes.plot([0.28, CELLS - 0.01], ends, color=COLOURS[head], alpha=min(1, weight), lw=1.6)
            square(axes, beside, y - 0.4 * high, CELL, 0.8 * high, COLOURS[head], weight)
        write(axes, beside + CELL / 2, 1 - high / 2, str(int(shown[head]) + 1), color=COLOURS[head], fontsize=8)
        axes.plot([], [], color=COLOURS[head], lw=3, label=f"head {int(shown[head]) + 1}")
    for y, token in zip(height, tokens, strict=True):
        write(axes, 0.26, y, token, ha="right", spell=given.spell)
        write(axes, CELLS + CELL * len(rows) + 0.01, y, token, ha="left", spell=given.spell)
    write(axes, 0.26, 1 - high / 2, "query", ha="right", fontsize=8)
    write(axes, CELLS + CELL * len(rows) + 0.01, 1 - high / 2, "keys", ha="left", fontsize=8)
    name(axes, f"layer {found['layer'] + 1}: where “{tokens[found['query']].strip('▁')}” looks", spell=given.spell)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8, title="full colour: weight 1", title_fontsize=8)
    return Picture([figure], {"tokens": tokens, **found, "heads": shown + 1, "weights": rows})


def square(axes: Axes, x: float, y: float, width: float, height: float, colour: str, weight: float) -> None:
    """A cell of one colour, as strong as its weight, with a thin edge so that a weight of 0 is seen to be one."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, alpha=min(1.0, weight), lw=0))
    axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor="#d0d0d0", lw=0.5))


def jane(given: Given) -> Picture:
    """One query against every key: q<3> · k<j>, its weights, and A<3>, the values mixed by them (layer 1, head 1)."""
    steps = {step.title: step for step in explain(given.translator, given.text or JANE)}
    words = steps["weights"].rows
    begins = [i for i, word in enumerate(words) if word.startswith("▁")]
    third = begins[min(2, len(begins) - 1)]
    score = "scaled scores" if "scaled scores" in steps else "scores"
    dots, scores, weights = (steps[title].values[third] for title in ("products", score, "weights"))
    context = steps["context"].values[third]
    figure = canvas(max(7, 1.1 * len(words)), 6)
    above, below = figure.subplots(2, 1, height_ratios=[3, 2])
    labels = [f"q⟨{third + 1}⟩·k⟨{j + 1}⟩, {word}" for j, word in enumerate(words)]
    values = torch.stack((dots, scores, weights))  # (3, S)
    by = "/ sqrt(d_k)" if score == "scaled scores" else steps[score].equation
    names = ["product", by, steps["weights"].equation.partition(",")[0]]
    title = f"the query of “{words[third]}” against every key"
    table(
        above, values, names, labels, title=title, across="key", down="its numbers", colours="RdBu", spell=given.spell
    )
    above.tick_params(axis="x", rotation=90)
    below.bar(range(len(context)), context.tolist(), color=COLOURS[0])
    below.xaxis.set_major_locator(whole_ticks())
    lined(below, "dimension", f"A⟨{third + 1}⟩ = Σ weights · v⟨j⟩")
    return Picture([figure], {"words": words, "query": third, "products": dots, "scores": scores, "weights": weights,
                              "context": context})  # fmt: skip


def shopping(given: Given) -> Picture:
    """A soft dictionary: a query is compared with every key, and gets the values mixed by how well each answers.

    Attention as a lookup (Graves et al. 2014, section 3.3.1; Vaswani et al. 2017, section 3.2), with three goods.
    """
    goods, price = ["red shirt", "blue shirt", "red shoes"], torch.tensor([[20], [25], [60]]).double()
    keys = torch.tensor([[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]]).double()
    query = torch.tensor([[1, 0, 1, 0]]).double()  # something red, a shirt
    scores = query @ keys.T  # (1, 3)
    weights = scores.softmax(dim=-1)
    value = weights @ price
    figure = canvas(8.5, 4)
    left, right = figure.subplots(1, 2, width_ratios=[2, 3])
    table(left, torch.cat((query, keys)), ["query", *goods], ["red", "blue", "shirt", "shoes"], title="query and keys",
          across="dimension", down="vector", digits=0)  # fmt: skip
    blank(right)
    for i, good in enumerate(goods):
        y = 0.85 - 0.25 * i
        write(right, 0.02, y, f"{good}: q·k = {scores[0, i]:.0f}, weight {weights[0, i]:.3f}, value {price[i, 0]:.0f}",
              ha="left")  # fmt: skip
        right.plot([0.02, 0.02 + 0.9 * weights[0, i].item()], [y - 0.08] * 2, color=COLOURS[i], lw=7)
    boxed(right, 0.5, 0.08, f"what is found: {value.item():.2f}, the prices mixed by the weights")
    return Picture([figure], {"query": query, "keys": keys, "values": price, "scores": scores, "weights": weights,
                              "found": value})  # fmt: skip
