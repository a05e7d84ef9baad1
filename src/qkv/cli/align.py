"""qkv align: which source word each target word comes from, as a model's attention has it."""

from pathlib import Path
from typing import Annotated

from qkv.cli.app import PLAIN, print_json

CHUNK = 1000  # pairs aligned at a time, so that long files need little memory


def align(
    *files: Path,
    model: Path = Path("model"),
    tune: Annotated[bool, PLAIN] = False,
    layer: int | None = None,
    threshold: float = 0.0,
    json: Annotated[bool, PLAIN] = False,
    device: str = "cpu",
) -> None:
    """Print word alignments of sentence pairs, one line for each pair: 0-0 1-2 links source word 1 to target word 2.

    Words are what spaces part, counted from 0. First choose the layer that suits the model, once, with --tune.

    For example:
      qkv align --model model --tune val.en val.de
      qkv align --model model news.en news.de > news.align

    Parameters
    ----------
    files
        A source and a target file, or files of pairs.
    model
        The model folder.
    tune
        Choose the decoder layer whose links agree best with which words stand together in these pairs, and keep it in
        the model folder as alignment.json; a few hundred pairs are enough.
    layer
        Another decoder layer, counted from 1.
    threshold
        Leave a target word without a link if less than this share of its attention goes to any one source word.
    json
        With --tune: print what was chosen as JSON; else a list of links for each pair.
    device
        cpu, cuda or mps.
    """
    from qkv.decoding.alignment import align as find_links
    from qkv.decoding.alignment import best_layer, save_readout, to_pharaoh
    from qkv.opening import load_translator
    from qkv.text import read_pairs

    translator = load_translator(model, device)
    source, target = translator.about.get("source", ""), translator.about.get("target", "")
    read = read_pairs(list(files), source=source or None, target=target or None)
    pairs = [(pair.source, pair.target) for pair in read]
    if tune:
        chosen = best_layer(translator, pairs)
        save_readout(model, chosen)
        row = "reads" if chosen.shift else "predicts"
        facts = f"layer {chosen.layer}, the row that {row} a word; agreement {chosen.agreement:.3f}"
        print_json(vars(chosen)) if json else print(f"{model}: {facts}")
        return
    for start in range(0, len(pairs), CHUNK):
        for links in find_links(translator, pairs[start : start + CHUNK], layer=layer, threshold=threshold):
            print_json(links) if json else print(to_pharaoh(links))
