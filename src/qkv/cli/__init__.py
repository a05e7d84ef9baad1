"""The command line: one function for each command; each parses, calls and prints."""

import os
import re
import sys
from pathlib import Path

from cyclopts import App, CycloptsError

from qkv import __version__, parts
from qkv.errors import InputError
from qkv.memory import check_addresses

ABOUT = """Train a Transformer on your own text, translate or write with it, look inside it.

For example:
  qkv demo                                three minutes, English words to sounds
  qkv train pairs.tmx --from en --to de   learn from a translation memory
  qkv train train.en train.de --valid val.en val.de --out model
  qkv translate "Two dogs play in the snow." --model model
  qkv score --model model test.en test.de
  qkv train book.txt --out lm             plain text: a language model
  qkv generate "Once upon a time" --model lm
  qkv train ... --import my_parts.py      with any command: parts of your own, see qkv.register
"""
# The functions of each module. Only the module of the command that is asked for is imported; what a function needs
# beside, torch above all, it imports when it runs: a mistaken flag is answered without.
MODULES = {
    "compare": ["compare"],
    "embed": ["embed"],
    "export": ["export"],
    "generate": ["fill", "generate"],
    "look": ["explain", "look", "picture", "why"],
    "measure": ["measure"],
    "predict": ["predict"],
    "quantize": ["quantize_", "shortlist_"],
    "serve": ["serve"],
    "show": ["average", "check", "completion", "info", "list_"],
    "summarise": ["summarise"],
    "train": ["demo", "train"],
    "translate": ["align", "score", "translate"],
}
COMMANDS = {name.rstrip("_"): f"{module}:{name}" for module, functions in MODULES.items() for name in functions}
LIGHT = {"check", "completion", "list"}  # commands that need no torch,
LATE = {"embed", "fill", "generate", "predict", "score", "serve", "translate"}  # ... and those that may need none
OUT_OF_MEMORY = ("memory", "bad_alloc", "could not create a primitive")  # as torch, C++ and oneDNN say it
LEAST = 2**29  # bytes of addresses: with fewer, one library or another aborts or cannot be imported
SECTIONS = {
    "--model": "--model.d-model 256; the folder to write is --out, and what to train --architecture",
    "--data": "--data.vocab-size 4000",
    "--training": "--training.learning-rate 0.001",
}


def main() -> None:
    """Run a command; whatever a person did wrong ends in one sentence and a non-zero exit."""
    try:
        check_addresses(LEAST, "qkv")
        arguments = with_file(spell_out(imported(checked(sys.argv[1:]))))
        app = application(with_help=not arguments or arguments[0] in ("--help", "-h"))
        command, given, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
        if command.__module__.startswith("qkv.cli.") and arguments[0] not in LIGHT | LATE:
            from qkv.cli.app import import_torch

            import_torch()
        code = command(*given.args, **given.kwargs)
        sys.stdout.flush()
    except CycloptsError as error:
        code = fail(" ".join(str(error).split()), 2)
    except InputError as error:
        code = fail(str(error))
    except KeyboardInterrupt:
        code = fail("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except UnicodeDecodeError as error:
        code = fail(f"the input is not UTF-8 text (byte {error.start}: {error.reason}); convert it to UTF-8")
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        code = fail(f"{name}{error.strerror or error}; check the path, its permissions and the space that is left")
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(said in str(error).lower() for said in OUT_OF_MEMORY):
            raise
        code = fail("not enough memory; use a smaller --data.batch-tokens, --beam or model")
    raise SystemExit(code if isinstance(code, int) else 0)


def application(*, with_help: bool = False) -> App:
    """All commands, none of them imported yet; `with_help`, each has the first paragraph of its function's docstring,
    which would stand for its whole help if it were run."""
    # Plain text keeps the lines of the examples; "Examples:" would be read as a section of a docstring, and left out.
    app = App(
        name="qkv", version=__version__, help=ABOUT, help_format="plaintext",
        suppress_keyboard_interrupt=False,  # `main` says that it was interrupted
    )  # fmt: skip
    if with_help:
        from qkv import contents
    for name, place in COMMANDS.items():
        module, _, function = place.partition(":")
        about = contents.part(f"qkv.cli.{module}", function).summary if with_help else None
        app.command(f"qkv.cli.{place}", name=name, help=about)
    return app


def checked(arguments: list[str]) -> list[str]:
    """Text that can be written and names that can be files; a byte that is no UTF-8 comes as half a surrogate pair."""
    for argument in arguments:
        if odd := re.search("[\0\ud800-\udfff]", argument):
            what = "a NUL character" if odd[0] == "\0" else "a byte that is not UTF-8"
            raise InputError(f"{argument!a} has {what} in it; give text in UTF-8")
    return arguments


def with_file(arguments: list[str]) -> list[str]:
    """The arguments of qkv serve, with those of the file that its --config names."""
    if arguments[:1] != ["serve"]:
        return arguments
    from qkv.cli import serve

    return serve.with_file(arguments)


def imported(arguments: list[str]) -> list[str]:
    """The arguments without `--import FILE`, which any command takes; these files are run first, and name parts."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name == "--import":
            parts.import_file(Path(value if equals else next(rest, "")))
        else:
            kept.append(argument)
    return kept


def spell_out(arguments: list[str]) -> list[str]:
    """The old `--model recurrent` of train and demo as `--architecture recurrent`; no section stands by itself."""
    if arguments[:1] not in (["train"], ["demo"]):
        return arguments
    from qkv import contents

    spelled: list[str] = []
    for i, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        given = value if equals else "".join(arguments[i + 1 : i + 2])
        if name == "--model" and (arguments[0] == "demo" or given in contents.table("qkv.models", "MODELS")):
            print(f"--model {given} is now --architecture {given}; the next version has no other", file=sys.stderr)
            argument = f"--architecture{equals}{value}"
        elif name == "--help-all":  # which `qkv.cli.train` looks for itself
            argument = "--help"
        elif name == "--objective":  # a text; its options are a section
            argument = f"--objective-text{equals}{value}"
        elif name in SECTIONS:
            raise InputError(f"{name} is a section of settings; name one of them, for example {SECTIONS[name]}")
        spelled.append(argument)
    return spelled


def fail(sentence: str, code: int = 1) -> int:
    print(f"qkv: {sentence}", file=sys.stderr)
    return code
