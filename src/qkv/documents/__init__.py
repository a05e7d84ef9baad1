"""Documents: whole texts and files translated, with everything that is not language kept as it is."""

from qkv.documents.file import FORMATS, FileReport, has_lines, translate_file, translate_lines
from qkv.documents.format import Format
from qkv.documents.html import translate_html
from qkv.documents.protect import Patterns, compiled
from qkv.documents.text import TranslatedText, translate_text
