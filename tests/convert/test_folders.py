"""Where an export goes, what is refused, and the CTranslate2 folder that an engine keeps inside a model folder."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import qkv
from qkv import folder
from qkv.convert import EXPORTS, digest, exporting, mark
from qkv.convert.plain import check_plain
from qkv.errors import InputError
from qkv.models import Recurrent, RecurrentConfig, Transformer, TransformerConfig
from qkv.text.tokenizer import Tokenizer

TINY = {"vocab_size": 20, "d_model": 8, "d_ff": 8, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
CANNOT: dict[str, dict[str, Any]] = {
    r"attention='dot'": {"attention": "dot"},
    r"attention='scaled_dot', memory_attention='additive'": {"memory_attention": "additive"},
    r"attention='window\(radius=2\)'": {"attention": "window(radius=2)"},
    r"position='rotary'": {"position": "rotary"},
    r"position='alibi'": {"position": "alibi"},
    r"position='learned\(length=9\)' with max_length=1024": {"position": "learned(length=9)"},
    r"d_k=5": {"d_k": 5},
}


@pytest.mark.parametrize("setting", CANNOT)
def test_what_no_format_holds_is_refused_by_its_name(setting: str) -> None:
    model = Transformer(TransformerConfig(**(TINY | CANNOT[setting])))
    with pytest.raises(InputError, match=f"onnx cannot hold this model because of its setting {setting};"):
        check_plain(model, "onnx")


def test_another_architecture_is_refused() -> None:
    model = Recurrent(RecurrentConfig(vocab_size=20, d_model=8))
    with pytest.raises(InputError, match="ctranslate2 cannot hold recurrent models, only a transformer"):
        check_plain(model, "ctranslate2")


def test_dropout_of_attention_is_no_obstacle() -> None:
    check_plain(Transformer(TransformerConfig(**TINY, attention="scaled_dot(dropout=0.1)")), "onnx")


def test_a_failed_check_leaves_everything_as_it_was(
    model_folder: Path, model: Transformer, tokenizer: Tokenizer
) -> None:
    out = model_folder.parent / "out"
    with exporting("huggingface", model_folder, out, model, tokenizer, {}):
        assert not out.exists()  # it is put in its place at the end
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert mark(out) == {"format": "huggingface", "weights": digest(model_folder), "quantization": ""}
    with (
        pytest.raises(RuntimeError, match="no"),
        exporting("huggingface", model_folder, out, model, tokenizer, {"a": 1}),
    ):
        raise RuntimeError("no")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert sorted(path.name for path in model_folder.parent.iterdir()) == ["model", "out"]


def test_a_strangers_folder_is_never_overwritten(model_folder: Path, model: Transformer, tokenizer: Tokenizer) -> None:
    (model_folder.parent / "letters").mkdir()
    (model_folder.parent / "letters" / "dear.txt").write_text("Dear")
    for out in (model_folder.parent / "letters", model_folder.parent / "letters" / "dear.txt"):
        with (
            pytest.raises(InputError, match="exists and is no export, so it is not overwritten"),
            exporting("huggingface", model_folder, out, model, tokenizer, {}),
        ):
            pass
    assert (model_folder.parent / "letters" / "dear.txt").read_text() == "Dear"


@pytest.mark.parametrize(("to", "module"), [("ctranslate2", "ctranslate2"), ("onnx", "onnx")])
def test_a_missing_library_is_named_with_its_extra(
    to: str, module: str, model: Transformer, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [module, *(name for name in sys.modules if name.startswith(f"{module}."))]:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not there
    with pytest.raises(InputError, match=rf'is not installed; run: pip install "qkv\[{to}\]"'):
        EXPORTS[to](tmp_path, model, tokenizer, {}, "")


# -- the engine's own folder -----------------------------------------------------------------------------------------


def test_the_engine_keeps_its_folder_and_notices_other_weights(
    model_folder: Path, model: Transformer, tokenizer: Tokenizer
) -> None:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; pip install 'qkv[ctranslate2]'")
    kept = model_folder / "ctranslate2"
    texts = ["two dogs", "snow", "a man sleeps"]
    first = qkv.load(model_folder, engine="ctranslate2")
    assert first.engine.name == "ctranslate2"
    assert [x.text for x in first.translate(texts)] == [x.text for x in qkv.load(model_folder).translate(texts)]
    written = (kept / "model.bin").stat().st_mtime_ns
    qkv.load(model_folder, engine="ctranslate2")
    assert (kept / "model.bin").stat().st_mtime_ns == written  # used as it is
    other = Transformer(model.config)
    other.load_state_dict({name: value + 0.05 for name, value in model.state_dict().items()})
    folder.save(model_folder, other, tokenizer, {})
    again = qkv.load(model_folder, engine="ctranslate2")
    assert json.loads((kept / "qkv.json").read_text())["weights"] == digest(model_folder)
    assert [x.text for x in again.translate(texts)] == [x.text for x in qkv.load(model_folder).translate(texts)]


def test_a_damaged_folder_of_the_engine_is_told(model_folder: Path) -> None:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; pip install 'qkv[ctranslate2]'")
    qkv.load(model_folder, engine="ctranslate2")
    kept = model_folder / "ctranslate2"
    (kept / "model.bin").write_bytes((kept / "model.bin").read_bytes()[:1000])
    with pytest.raises(
        InputError, match=r"^CTranslate2 cannot open .*ctranslate2 \(.*\); delete it, and it is made anew$"
    ):
        qkv.load(model_folder, engine="ctranslate2")
    shutil.rmtree(kept)
    assert qkv.load(model_folder, engine="ctranslate2").translate("two dogs")


def test_a_folder_that_cannot_be_written_to_still_serves(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export that fails for want of permission or space is made elsewhere, for a moment."""
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; pip install 'qkv[ctranslate2]'")
    mkdir = Path.mkdir

    def forbidden(self: Path, *args: Any, **kwargs: Any) -> None:
        if model_folder in self.parents:
            raise PermissionError(13, "Permission denied", str(self))
        mkdir(self, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", forbidden)
    assert qkv.load(model_folder, engine="ctranslate2").translate("two dogs").text is not None
    assert not (model_folder / "ctranslate2").exists()


def test_an_unknown_engine_is_refused(model_folder: Path) -> None:
    with pytest.raises(InputError, match="unknown engine 'ctranslate'; did you mean 'ctranslate2'"):
        qkv.load(model_folder, engine="ctranslate")
