"""Documents: whole texts and files translated, with everything that is not language kept as it is."""

from qkv.documents.file import FORMATS, Report, translate_file
from qkv.documents.format import Format
from qkv.documents.html import translate_html
from qkv.documents.text import Translation, translate_text

__all__ = ["FORMATS", "Format", "Report", "Translation", "translate_file", "translate_html", "translate_text"]
