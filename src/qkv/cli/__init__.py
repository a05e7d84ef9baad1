"""The command line: one function for each command; each parses, calls and prints."""

import gc
import os
import sys
from importlib import import_module

from cyclopts import CycloptsError

from qkv.cli.app import app
from qkv.errors import InputError, nearest
from qkv.models import MODELS

# Each command and its module. Only the one that is asked for is imported: all of them take some 0.1 s more.
COMMANDS = {
    "align": "align",
    "average": "show",
    "check": "show",
    "compare": "compare",
    "demo": "train",
    "explain": "explain",
    "export": "export",
    "info": "show",
    "list": "show",
    "look": "look",
    "picture": "picture",
    "predict": "train",
    "quantize": "quantize",
    "score": "translate",
    "serve": "serve",
    "shortlist": "shortlist",
    "train": "train",
    "translate": "translate",
    "why": "why",
}
SECTIONS = {
    "--model": "--model.d-model 256",
    "--data": "--data.vocab-size 4000",
    "--objective": "--objective.label-smoothing 0",
    "--training": "--training.learning-rate 0.001",
}


def main() -> None:
    """Run a command; whatever a person did wrong ends in one sentence and a non-zero exit."""
    try:
        join(sys.argv[1:])
        gc.freeze()  # what was imported stays; without a last search in it for garbage, the end comes 0.4 s sooner
        arguments = spell_out(sys.argv[1:])
        code = app(arguments, result_action="return_value", exit_on_error=False, print_error=False)
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
        if "memory" not in str(error).lower() and not isinstance(error, MemoryError):
            raise
        code = fail("not enough memory; use a smaller --data.batch-tokens, --beam or model")
    raise SystemExit(code if isinstance(code, int) else 0)


def join(arguments: list[str]) -> None:
    """Let the command that is asked for join `app`; all of them for --help, or where a name is mistaken."""
    asked = COMMANDS.get(arguments[0]) if arguments else None
    for module in [asked] if asked else sorted(set(COMMANDS.values())):
        import_module(f"qkv.cli.{module}")


def spell_out(arguments: list[str]) -> list[str]:
    """`train --model recurrent` names an architecture; alone, other sections would take it as their first setting."""
    if arguments[:1] != ["train"]:
        return arguments
    spelled: list[str] = []
    for i, argument in enumerate(arguments):
        name, has_value, value = argument.partition("=")
        if name not in SECTIONS:
            spelled.append(argument)
            continue
        given = value if has_value else next(iter(arguments[i + 1 : i + 2]), "")
        if name != "--model":
            raise InputError(f"{name} is a section of settings; name one of them, for example {SECTIONS[name]}")
        if given not in MODELS:
            raise InputError(
                f"--model {given}: there is no such architecture; {nearest(given, MODELS)} "
                "(for sizes use --model.d-model 256 and the like, for the folder --out)"
            )
        spelled.append(f"--architecture={value}" if has_value else "--architecture")
    return spelled


def fail(sentence: str, code: int = 1) -> int:
    print(f"qkv: {sentence}", file=sys.stderr)
    return code
