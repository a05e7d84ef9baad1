"""Files: sent, translated, fetched once, and nothing of them left anywhere."""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from qkv.serving import Limits
from qkv.serving.limits import Refusal
from qkv.serving.uploads import PREFIX, Uploads, remove_left_over

PAIR = {"source": "en", "target": "de"}


def send(client: Any, name: str, data: bytes, **fields: str) -> Any:
    return client.post("/translate_file", files={"file": (name, data)}, data={**PAIR, **fields})


def on_the_disk(client: Any) -> list[Path]:
    return sorted(client.app.state.service.uploads.folder.rglob("*"))


def test_a_file_comes_back_translated_once_and_leaves_nothing(serve: Any) -> None:
    client = serve()
    sent = send(client, "my dog.txt", b"dog and cat.\n\nsnow.\n")
    assert sent.status_code == 200
    url = sent.json()["translatedFileUrl"]
    assert re.fullmatch(r"http://testserver/download_file/[0-9a-f]{32}\.my%20dog\.txt", url)
    assert len(on_the_disk(client)) == 1, "the file that was sent is gone"
    fetched = client.get(url)
    assert fetched.text == "Hund und Katze.\n\nSchnee.\n"
    assert fetched.headers["content-disposition"] == "attachment; filename*=UTF-8''my%20dog.txt"
    assert on_the_disk(client) == []
    again = client.get(url)
    assert (again.status_code, set(again.json())) == (404, {"error"})


def test_formats_and_detection(serve: Any) -> None:
    client = serve()
    url = send(client, "a.srt", b"1\n00:00:01,000 --> 00:00:02,000\ndog and cat.\n").json()["translatedFileUrl"]
    assert "00:00:01,000 --> 00:00:02,000\nHund und Katze." in client.get(url).text
    german = b"der alte Hund und das Kind sehen den Schnee"
    url = send(client, "b.TXT", german, source="auto").json()["translatedFileUrl"]
    assert client.get(url).content == german, "German needs no translation into German"


@pytest.mark.parametrize(
    "name",
    ["../../../evil.txt", "/etc/passwd.txt", "..\\..\\evil.txt", "a\x00b.txt", "x" * 300 + ".txt", "\u202etxt.txt"],
)
def test_no_name_leads_anywhere(name: str, serve: Any) -> None:
    client = serve()
    before = set(Path(tempfile.gettempdir()).iterdir())
    sent = send(client, name, b"dog.")
    if sent.status_code == 200:
        (kept,) = on_the_disk(client)
        assert re.fullmatch("[0-9a-f]{32}", kept.name)
        assert client.get(sent.json()["translatedFileUrl"]).text == "Hund."
    else:
        assert sent.status_code == 400
    assert on_the_disk(client) == []
    assert {path for path in set(Path(tempfile.gettempdir()).iterdir()) - before if "evil" in path.name} == set()


@pytest.mark.parametrize("one", ["../../x", "%2e%2e%2fapp.py", "x", "0" * 32, "a" * 5000])
def test_only_ids_that_were_given_out_fetch_anything(one: str, serve: Any) -> None:
    answer = serve().get(f"/download_file/{one}")
    assert answer.status_code == 404


def test_what_is_wrong_is_said_in_one_sentence(serve: Any) -> None:
    client = serve(limits=Limits(file_bytes=1000))
    missing = client.post("/translate_file", data=PAIR)
    assert (missing.status_code, missing.json()) == (400, {"error": "Invalid request: missing file parameter"})
    unknown = send(client, "a.exe", b"x")
    assert unknown.status_code == 400
    assert unknown.json()["error"].startswith("Invalid request: file format not supported; send one of .arb, .docx, ")
    large = send(client, "a.txt", b"x" * 1001)
    assert (large.status_code, large.json()) == (413, {"error": "the file has more than 1000 bytes; send it in parts"})
    larger = send(client, "a.txt", b"x" * 100_000)
    assert larger.status_code == 413
    broken = send(client, "a.docx", b"PK no zip at all")
    assert (broken.status_code, set(broken.json())) == (400, {"error"})
    assert "qkv-serve" not in broken.json()["error"]
    lone = send(client, "a.txt", b'<?xml version="1.0" encoding="raw_unicode_escape"?>\nhello \\ud800 world')
    assert (lone.status_code, lone.json()["error"].split(",")[1]) == (400, " which is unknown; save it as UTF-8")
    pair = send(client, "a.txt", b"dog.", target="fr")
    assert (pair.status_code, pair.json()) == (400, {"error": "fr is not supported"})
    assert on_the_disk(client) == []


def test_files_that_nobody_fetches_are_bounded(serve: Any) -> None:
    """Half of the places are one client's, and what has none is not translated."""
    client = serve(limits=Limits(kept_files=4))
    sent = [send(client, "a.txt", b"dog.") for _ in range(3)]
    assert [one.status_code for one in sent] == [200, 200, 429]
    assert client.app.state.service.metrics.total("qkv_batch_sentences_sum") == 2
    client.get(sent[0].json()["translatedFileUrl"])
    assert send(client, "a.txt", b"dog.").status_code == 200


def test_a_file_that_is_being_translated_has_its_place() -> None:
    uploads = Uploads(Limits(kept_files=3))
    with uploads.new(b"", ".txt", "a"):
        for client, status in (("a", 429), ("b", None), ("c", None), ("d", 503)):
            if status is None:
                uploads.begin(client)
                continue
            with pytest.raises(Refusal) as refused:
                uploads.begin(client)
            assert refused.value.status == status
    uploads.begin("d")
    uploads.close()


def test_asking_about_a_file_does_not_fetch_it(serve: Any) -> None:
    client = serve()
    url = send(client, "a.txt", b"dog.").json()["translatedFileUrl"]
    assert client.head(url).status_code == 200
    assert client.get(url).text == "Hund."


def test_a_file_that_waited_too_long_is_gone(serve: Any) -> None:
    client = serve(limits=Limits(kept_seconds=7))
    url = send(client, "a.txt", b"dog.").json()["translatedFileUrl"]
    kept = client.app.state.service.uploads.kept
    ((name, file),) = kept.items()
    assert 0 < file.until - time.monotonic() <= 7
    kept[name] = file._replace(until=file.until - 7)
    assert client.get(url).status_code == 404
    assert on_the_disk(client) == []


def test_the_folder_goes_with_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    uploads = Uploads(Limits())
    assert (uploads.folder.stat().st_mode & 0o777) == 0o700
    uploads.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_server_left_is_removed(tmp_path: Path) -> None:
    """And nothing else: no folder of a server that runs, no other folder, no link."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = tmp_path / f"{PREFIX}{dead.pid}-abc"
    running = tmp_path / f"{PREFIX}{os.getpid()}-abc"
    other = tmp_path / f"{PREFIX}elsewhere"
    for folder in (left, running, other):
        folder.mkdir()
        (folder / "private.txt").touch()
    link = tmp_path / f"{PREFIX}{dead.pid}-link"
    link.symlink_to(other)
    remove_left_over(tmp_path)
    assert not left.exists()
    assert (running / "private.txt").exists()
    assert (other / "private.txt").exists()
    assert link.is_symlink()
