"""Models as files of the native engine, and back."""

from qkv.convert.native.layout import ACTIVATIONS, checksum
from qkv.convert.native.parts import blocks_of, can_write, has_native_form, products_of, stacks_of
from qkv.convert.native.reader import read
from qkv.convert.native.writer import as_file, quantised, write
