"""A request that gets no translation, and the status and sentence that it gets instead."""


class Refusal(Exception):  # noqa: N818 - being full is no error
    """The status, the one sentence, and after how many seconds another try makes sense (0 for never)."""

    def __init__(self, status: int, sentence: str, retry_after: int = 0) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.retry_after = status, sentence, retry_after
