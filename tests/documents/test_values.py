"""Files of keys and values: other programs read the same keys in the same order, and only the values are new."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit import refused
from qkv.documents import translate_file
from qkv.documents.format import Languages
from qkv.documents.values import Properties

yaml = pytest.importorskip("yaml", reason="YAML needs PyYAML; pip install 'qkv[formats]'")
QUIET = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
STRING = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?')
WORDS = st.text(alphabet=st.sampled_from("ab cDé日:#'\"\\{}[]&*-?|>!%@`,=~.1\n\t😀"), max_size=12)
TREES = st.recursive(WORDS | st.integers() | st.booleans() | st.none(), lambda inner: st.lists(inner, max_size=3)
                     | st.dictionaries(st.text("ab :é", max_size=3), inner, max_size=3), max_leaves=6)  # fmt: skip


def run(translator: Any, folder: Path, name: str, data: str | bytes) -> bytes:
    (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    translate_file(translator, folder / name, folder / f"new-{name}")
    return (folder / f"new-{name}").read_bytes()


def shape(tree: Any) -> Any:
    """Keys in their order, and what is no text; of a text only that it is one."""
    if isinstance(tree, dict):
        return [(key, shape(value)) for key, value in tree.items()]
    return [shape(one) for one in tree] if isinstance(tree, list) else type(tree) if isinstance(tree, str) else tree


@given(tree=TREES, indent=st.sampled_from([None, 1, 4]), is_ascii=st.booleans())
@QUIET
def test_json_is_read_as_before(tree: Any, indent: int | None, is_ascii: bool, any_rule: Any, tmp_path: Path) -> None:
    text = json.dumps(tree, indent=indent, ensure_ascii=is_ascii)
    written = run(any_rule, tmp_path, "a.json", text).decode()
    assert shape(json.loads(written)) == shape(tree)
    before, after = (STRING.sub(lambda found: found[0] if found[1] else "", one) for one in (text, written))
    assert after == before, "every key and every space"


@given(tree=TREES, flow=st.sampled_from([None, True, False]), style=st.sampled_from([None, '"', "'", "|", ">"]))
@QUIET
def test_yaml_is_read_as_before(tree: Any, flow: bool | None, style: str | None, any_rule: Any, tmp_path: Path) -> None:
    """A text stays a text, even where the translator makes "Ja" of it, or words with signs of YAML in them."""
    text = yaml.safe_dump(tree, default_flow_style=flow, default_style=style, allow_unicode=True, sort_keys=False)
    written = run(any_rule, tmp_path, "a.yaml", text).decode()
    assert shape(yaml.safe_load(written)) == shape(yaml.safe_load(text))


def test_yaml_takes_quotes_where_it_needs_them(made_up: Any, tmp_path: Path) -> None:
    answers = {"one": "yes", "two": "a: b", "three": "# no", "four": "it's", "five": "12"}
    text = "".join(f"{name}: {name}\n" for name in answers) + "six: 'four'\n"
    written = run(made_up(answers.get), tmp_path, "a.yml", text).decode()
    assert yaml.safe_load(written) == {**answers, "six": "it's"}
    assert written == 'one: "yes"\ntwo: "a: b"\nthree: "# no"\nfour: it\'s\nfive: "12"\nsix: \'it\'\'s\'\n'


JAVA = b"""# c\\u00e9
a=two\\
   words
b : caf\\u00e9 \\uD83D\\uDE00 \\=\\: end
c=\\ lead {0} it''s
d=
e"""


def test_properties(made_up: Any, tmp_path: Path) -> None:
    """Escapes, a value of two lines, an emoji of two escapes, and the apostrophes of a pattern."""
    upper = made_up(lambda text: text.upper().replace("S", "ß"))
    written = run(upper, tmp_path, "a.properties", JAVA)
    assert upper.calls[0][0] == "twowords"
    assert written == (
        b"# c\\u00e9\na=TWOWORD\\u00df\nb : CAF\\u00c9 \\ud83d\\ude00 =: END\nc=\\ LEAD {0} IT''\\u00df\nd=\ne"
    )
    assert run(upper, tmp_path, "b.properties", "a=é us\n") == "a=É Uß\n".encode()
    assert run(upper, tmp_path, "c.properties", "# é\na=é us\n".encode("latin-1")) == b"# \xe9\na=\\u00c9 U\\u00df\n"


@given(st.text(alphabet="ab \\\n\r\t=:#!'{0}u", max_size=30))
@QUIET
def test_any_properties_come_back(text: str) -> None:
    """With nothing to say, to the letter."""
    document = Properties(text.encode(), "a.properties", Languages())
    assert document.write([None] * len(document.segments)) == text.encode()


def test_strings_of_apple_in_utf_16(upper: Any, tmp_path: Path) -> None:
    text = '/* a */\n"k" = "Caf\\U00e9 \\"%@\\"\\n%1$@ = \\\\ b";\nk2 = "it\'s"; "k3"="";\n'
    written = run(upper, tmp_path, "a.strings", text.encode("utf-16"))
    assert written.decode("utf-16") == text.replace("Caf\\U00e9", "CAFÉ").replace('b"', 'B"').replace("it's", "IT'S")


@refused(
    {
        ("a.json", '{"a": }'): "a.json line 1 is not sound JSON (Expecting value",
        ("a.json", "[" * 100_000): "a.json is not sound JSON (",
        ("a.yaml", "a: 'b\n"): "a.yaml line 2 is not sound YAML (found unexpected end of stream); check the file",
        ("a.strings", "hello"): 'a.strings has no line "key" = "value"; check that it is a strings file',
        ("a.ts", "<TS/>"): "a.ts: there is no format '.ts'; give a file whose name ends in .txt, .srt",
    },
    "name text",
    plain=True,
)
def test_mistakes(name: str, text: str, upper: Any, tmp_path: Path) -> None:
    run(upper, tmp_path, name, text)
