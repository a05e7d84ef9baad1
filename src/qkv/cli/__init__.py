"""The command line: one function for each command; each parses, calls and prints."""

import os
import sys

from cyclopts import CycloptsError

from qkv.cli import show, train, translate  # noqa: F401 - their commands join the application
from qkv.cli.app import app
from qkv.errors import InputError

SECTIONS = ("--model", "--data", "--objective", "--training")


def main() -> None:
    """Run a command; whatever a person did wrong ends in one sentence and a non-zero exit."""
    try:
        check_sections(sys.argv[1:])
        code = app(sys.argv[1:], result_action="return_value", exit_on_error=False, print_error=False)
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


def check_sections(arguments: list[str]) -> None:
    """`train --model x` would be read as the first setting of that section."""
    for argument in arguments[1:] if arguments[:1] == ["train"] else []:
        name = argument.partition("=")[0]
        if name in SECTIONS:
            raise InputError(
                f"{name} is a section of settings; name one of them, for example --model.d-model 256, "
                "or give --out to name the model folder"
            )


def fail(sentence: str, code: int = 1) -> int:
    print(f"qkv: {sentence}", file=sys.stderr)
    return code
