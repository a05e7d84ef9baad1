"""python -m qkv is the command qkv."""

from qkv.cli import main

main()
