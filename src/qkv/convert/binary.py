"""Reading other programs' binary files: every size is checked against what is left before anything is made of it."""

import struct
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from qkv.errors import InputError

VARINT = 10  # bytes of the longest number of a protobuf


class Bytes:
    """What is left of a file, taken from its front; taking more than there is says that the file is damaged."""

    def __init__(self, data: bytes | memoryview, name: str) -> None:
        self.data, self.name, self.at = memoryview(data), name, 0

    def damaged(self, why: str) -> InputError:
        return InputError(f"{self.name} is damaged: {why}; copy it again")

    def take(self, count: int) -> memoryview:
        if not 0 <= count <= len(self.data) - self.at:
            left = len(self.data) - self.at
            raise self.damaged(f"{count:,} bytes should follow byte {self.at:,}, and {left:,} do")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> int:
        """Little-endian, by a letter of `struct`: B, H, I, Q or i."""
        return int(struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0])

    def text(self, count: int) -> str:
        try:
            return bytes(self.take(count)).decode()
        except UnicodeDecodeError:
            raise self.damaged(f"what stands before byte {self.at:,} is no text") from None

    def varint(self) -> int:
        """Seven bits of each byte, the lowest first; the eighth says that another follows."""
        value = 0
        for place in range(VARINT):
            byte = self.number("B")
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value
        raise self.damaged(f"the number before byte {self.at:,} has no end")

    def fields(self) -> Iterator[tuple[int, int | memoryview]]:
        """The fields of a protobuf message: the number of each, and its value or its bytes."""
        while self.at < len(self.data):
            key = self.varint()
            match key & 7:
                case 0:
                    yield key >> 3, self.varint()
                case 1:
                    yield key >> 3, self.take(8)
                case 2:
                    yield key >> 3, self.take(self.varint())
                case 5:
                    yield key >> 3, self.take(4)
                case kind:
                    raise self.damaged(f"there is no field of the kind {kind}, before byte {self.at:,}")


def tensor(data: memoryview, dtype: str, shape: list[int]) -> Tensor:
    """A copy in float32 of numbers of a numpy type, or of bfloat16; `data` has just as many bytes as the shape asks."""
    if dtype == "bfloat16":
        return torch.frombuffer(bytearray(data), dtype=torch.bfloat16).reshape(shape).float()
    return torch.from_numpy(np.frombuffer(data, dtype).reshape(shape).astype(np.float32))
