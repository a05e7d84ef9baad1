"""What one request, one client and the whole server may ask for, each with a default; and the refusal of more."""

from dataclasses import dataclass
from typing import Any

from qkv.errors import InputError

BYTES_OF_A_CHARACTER = 12  # at most: a character beyond U+FFFF is two escapes in JSON, four %XX in a form
CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}  # OpenAI's
ENVELOPE = 2**16  # bytes of a request that are neither text nor file: names, boundaries, settings


class Refusal(Exception):  # noqa: N818 - being full is no error
    """The status, the one sentence, and after how many seconds another try makes sense (0 for never)."""

    def __init__(self, status: int, sentence: str, retry_after: int = 0) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.retry_after = status, sentence, retry_after


def told(path: str, status: int, sentence: str) -> dict[str, Any]:
    """An error as clients of an address read it: under /v1, as OpenAI writes it."""
    if not path.startswith("/v1/"):
        return {"error": sentence}
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    return {"error": {"message": sentence, "type": kind, "param": None, "code": CODES.get(status)}}


def share_of(places: int) -> int:
    """How many of them one client may have, so that it cannot keep all others out."""
    return max(places // 2, 1)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The server's limits. A request that passes one is refused with a sentence that names it."""

    characters: int = 20_000  # of all texts of a request
    items: int = 100  # texts in one request
    alternatives: int = 10  # answers to one text
    beam: int = 20
    tokens: int = 1024  # that a language model writes of one text
    requests: int = 128  # answered at the same time; half of them still arriving, if they are of one client
    queue: int = 1024  # sentences that wait; half of them, if they are of one client
    per_minute: int = 0  # requests of one client; 0 for any number
    seconds: int = 60  # until a request has its answer
    file_bytes: int = 2 * 2**20
    file_seconds: int = 600
    connections: int = 1024  # open at the same time; more are closed at once
    header_seconds: int = 20  # until the headers of a request have ended
    kept_files: int = 32  # translated files that wait to be fetched; half of them, if they are of one client
    kept_seconds: int = 1800  # that each waits
    holes: int = 16  # of a text that are filled jointly: each is a reading of the text for every way that is followed
    suggestion_bytes: int = 2**26  # of the file of suggestions; beyond, it is full

    def __post_init__(self) -> None:
        for name, given in vars(self).items():
            if given < (0 if name == "per_minute" else 1):
                raise InputError(f"the limit {name} is {given}, which lets nothing through; give 1 or more")

    @property
    def body_bytes(self) -> int:
        """The largest body of a request without a file."""
        return BYTES_OF_A_CHARACTER * self.characters + ENVELOPE
