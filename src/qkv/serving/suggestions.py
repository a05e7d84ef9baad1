"""Better translations that people sent, kept as JSON lines: a file that `qkv train` reads."""

import json
import os
import threading
from pathlib import Path

from qkv.errors import InputError
from qkv.serving.limits import Limits, Refusal


class Suggestions:
    """Appends whole lines and syncs each, so that a crash leaves no half of one that was confirmed."""

    def __init__(self, path: Path, most: int = Limits.suggestion_bytes) -> None:
        self.path, self.most, self.lock = path, most, threading.Lock()
        try:
            with path.open("ab+") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(end - 1, 0))
                if end and file.read() != b"\n":  # a line that a crash cut short
                    file.write(b"\n")
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}; give --suggestions another place") from None

    def add(self, source: str, target: str, text: str, better: str) -> None:
        line = json.dumps({source: text, target: better}, ensure_ascii=False) + "\n"
        with self.lock, self.path.open("ab") as file:
            if file.tell() + len(line) > self.most:
                raise Refusal(503, f"the server keeps {self.most} bytes of suggestions; ask its operator for more room")
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
