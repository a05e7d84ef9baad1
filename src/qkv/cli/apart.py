"""How far what another program says of texts is from what qkv says: of exports of models that do not translate."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from qkv.convert import need
from qkv.convert.onnx_reader import OnnxReader
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.models import GPT2, Headed
from qkv.text.tokenizer import BOS, PAD


def by_transformers(written: Path, loaded: Loaded, texts: list[str]) -> float | None:
    """How far the last states that transformers has of some texts are from ours, relative to their size."""
    transformers = their_library()
    if transformers is None:
        return None
    [name] = json.loads((written / "config.json").read_text(encoding="utf-8"))["architectures"]
    theirs: Any = getattr(transformers, name).from_pretrained(written, local_files_only=True).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(written, local_files_only=True)
    model: Any = loaded.model.backbone if isinstance(loaded.model, Headed) else loaded.model
    apart = [0.0]
    with torch.inference_mode():
        for text in texts:
            given = tokenizer(text, return_tensors="pt", truncation=True, max_length=model.config.max_length)
            if not given["input_ids"].numel():
                continue
            state = theirs(**given, output_hidden_states=True).hidden_states[-1][0]
            ids = loaded.tokenizer.encode(text)
            if tokenizer.num_special_tokens_to_add():
                [ids] = framed(loaded, [text])
            own = model.encode(torch.tensor([ids[: model.config.max_length]]))[0]
            if own.shape != state.shape:
                raise InputError(
                    f"the export reads {len(state)} tokens in {text[:40]!r}, not {len(own)}; it was removed"
                )
            apart.append(furthest(own, state))
    return float(np.max(apart))


def by_onnx(written: Path, loaded: Loaded, texts: list[str]) -> float:
    """The same of all that an ONNX graph says, of texts side by side, the shorter ones padded."""
    session = need("onnxruntime", "qkv[onnx]").InferenceSession(str(written / "model.onnx"))
    reader, apart = OnnxReader(loaded.model.eval(), str(loaded.about.get("task", ""))), [0.0]
    with torch.inference_mode():
        rows = framed(loaded, texts)
        for some in (rows[i : i + 2] for i in range(0, len(rows), 2)):
            ids = pad_sequence([torch.tensor(row) for row in some], batch_first=True)
            given = [ids, *([torch.zeros_like(ids)] if reader.has_segments else [])]
            said = session.run(None, {name: one.numpy() for name, one in zip(reader.inputs, given, strict=True)})
            for name, own, theirs in zip(reader.outputs, reader(*given), said, strict=True):
                here = ids != PAD if name in ("hidden", "logits", "tags") else torch.ones(len(own), dtype=torch.bool)
                apart.append(furthest(own[here], torch.from_numpy(theirs)[here]))
    return float(np.max(apart))


def by_ctranslate2(written: Path, loaded: Loaded, texts: list[str]) -> float:
    """The same of the states that CTranslate2 has of texts, or of the logits of a model that writes."""
    library, apart = need("ctranslate2", "qkv[ctranslate2]"), [0.0]
    model: Any = loaded.model.backbone if isinstance(loaded.model, Headed) else loaded.model
    writes = isinstance(model, GPT2)
    opened = (library.Generator if writes else library.Encoder)(str(written), intra_threads=torch.get_num_threads())
    with torch.inference_mode():
        for ids in framed(loaded, texts):
            said = model(torch.tensor([ids]))
            theirs = opened.forward_batch([ids])
            found = torch.from_numpy(np.array(theirs if writes else theirs.last_hidden_state))
            apart.append(furthest(said.logits if writes else said.hidden, found))
    return float(np.max(apart))  # which is no number if one of them is none


def framed(loaded: Loaded, texts: list[str]) -> list[list[int]]:
    """The ids of texts as the model reads them."""
    model: Any = loaded.model.backbone if isinstance(loaded.model, Headed) else loaded.model
    rows, most = loaded.tokenizer.encode_batch(texts), model.config.max_length
    if isinstance(loaded.model, GPT2):  # which writes on: the frame is for heads
        begin = [BOS] if loaded.about.get("bos") else []
        return [[*begin, *ids][:most] for ids in rows if begin or ids]
    return [model.frame.join(loaded.tokenizer, [ids], most)[0] for ids in rows]


def furthest(own: Tensor, theirs: Tensor) -> float:
    """The largest difference, relative to the largest number; of those that mean "never", none is counted."""
    counted = own.isfinite() & (own > -1e3)
    return float((own - theirs)[counted].abs().max() / own[counted].abs().max())


APART: dict[str, Callable[[Path, Loaded, list[str]], float | None]] = {
    "ctranslate2": by_ctranslate2,
    "onnx": by_onnx,
    "huggingface": by_transformers,
}


def their_library() -> Any:
    """transformers, silent; None where it is not installed: writing its format does not need it."""
    try:
        transformers = need("transformers", "transformers")
    except InputError:
        return None
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers
