"""`qkv serve` as a process: real clients, unchanged; many at once; signals and a kill."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

MODULES = Path(__file__).parents[2] / "build" / "clients" / "node_modules"
SOON = 60  # seconds: the machine may have much else to do


@dataclass
class Server:
    """A running `qkv serve`, and the address that it printed."""

    process: subprocess.Popen[str]
    url: str

    def post(self, path: str, **fields: Any) -> Any:
        data = json.dumps(fields).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=SOON) as answer:
            return json.loads(answer.read())

    def get(self, path: str, key: str) -> Any:
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {key}"})
        with urllib.request.urlopen(request, timeout=SOON) as answer:
            return json.loads(answer.read())

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=SOON)
        return self.process.returncode, out, err


Start = Callable[..., Server]


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def start(model_folder: Path, environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    running: list[Server] = []

    def run(*flags: str, model: bool = True, **more: str) -> Server:
        folder = ["--model", str(model_folder)] if model else []
        command = [sys.executable, "-m", "qkv", "serve", *folder, "--port", "0", *flags]
        env = {**environment, "TMPDIR": str(tmp_path), **more}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        assert process.stdout is not None
        line = process.stdout.readline()
        url = re.match(r"(http://127\.0\.0\.1:\d+)/ is the page", line)
        if not url:
            process.kill()
            raise AssertionError(line + process.communicate()[1])
        running.append(Server(process, url[1]))
        return running[-1]

    yield run
    for server in running:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


@pytest.fixture(scope="module")
def one(model_folder: Path, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the clients, which change nothing in it."""
    command = [sys.executable, "-m", "qkv", "serve", "--model", str(model_folder), "--port", "0"]
    env = {**environment, "TMPDIR": str(tmp_path_factory.mktemp("files"))}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    server = Server(process, process.stdout.readline().split("/ is")[0])
    yield server
    code, out, err = server.stop()
    assert (code, err) == (0, "")
    assert re.fullmatch(r"stopped after \d+ requests, \d+ sentences in \d+ batches\n", out)


# -- clients, unchanged ----------------------------------------------------------------------------------------------


def test_libretranslatepy(one: Server) -> None:
    from libretranslatepy import LibreTranslateAPI

    api = LibreTranslateAPI(one.url)
    assert api.translate("dog and cat.", "en", "de") == "Hund und Katze."
    assert [language["code"] for language in api.languages()] == ["en", "de"]
    assert api.detect("Two dogs play in the snow and look at the sea.")[0]["language"] == "en"


def test_deep_translator(one: Server) -> None:
    """Everything in the query of a POST without a body."""
    from deep_translator import LibreTranslator

    client = LibreTranslator(source="en", target="de", api_key="any", custom_url=one.url + "/")
    assert client.translate("dog and cat.") == "Hund und Katze."
    assert client.translate_batch(["snow.", "boat."]) == ["Schnee.", "Boot."]


JAVASCRIPT = """
const { translate } = require("libretranslate");
const { libreTranslate } = require("libretranslate-ts");
(async () => {
  const apiurl = process.argv[2];
  libreTranslate.setApiEndpoint(apiurl);
  const said = await libreTranslate.translate("dog and cat.", "en", "de", 2);
  console.log(JSON.stringify({
    old: await translate({ query: "dog and cat.", source: "en", target: "de", apiurl }),
    said,
    languages: (await libreTranslate.listLanguages()).map((language) => language.code),
    detected: (await libreTranslate.detect("Two dogs play in the snow and look at the sea.")).language,
    wrong: (await libreTranslate.translate("dog and cat.", "en", "fr")).error,
  }));
})();
"""


HAVE_NPM = shutil.which("node") and (MODULES / "libretranslate-ts").exists()


@pytest.mark.skipif(not (HAVE_NPM or os.environ.get("CI")), reason="the clients of npm are not installed: make clients")
def test_two_clients_of_npm(one: Server) -> None:
    done = subprocess.run(
        ["node", "-", one.url], input=JAVASCRIPT, capture_output=True, text=True, timeout=SOON,
        env={**os.environ, "NODE_PATH": str(MODULES)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    said = found.pop("said")
    assert (said["status"], said["translatedText"], len(said["alternatives"])) == (200, "Hund und Katze.", 2)
    assert found == {
        "old": "Hund und Katze.",
        "languages": ["en", "de"],
        "detected": "en",
        "wrong": "fr is not supported",
    }


def test_many_clients_at_once_get_what_they_would_get_alone(one: Server, sentences: list[str]) -> None:
    texts = sentences[:40]
    alone = [one.post("/translate", q=text, source="en", target="de") for text in texts]
    with ThreadPoolExecutor(10) as threads:
        together = list(threads.map(lambda text: one.post("/translate", q=text, source="en", target="de"), texts))
    assert together == alone
    assert len({answer["translatedText"] for answer in alone}) > 20


def test_a_long_text_fits_into_the_query(one: Server) -> None:
    """20,000 characters of three bytes each, as deep-translator would send them."""
    query = urllib.parse.urlencode({"q": "雪" * 500, "source": "en", "target": "de"}, encoding="utf-8")
    padding = "&" + "x" * 150_000 + "=1"
    request = urllib.request.Request(f"{one.url}/translate?{query}{padding}", data=b"", method="POST")
    with urllib.request.urlopen(request, timeout=SOON) as answer:
        assert "translatedText" in json.loads(answer.read())


# -- the process -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_it_finishes_what_it_has_begun(how: signal.Signals, start: Start, tmp_path: Path) -> None:
    server = start()
    answers: list[Any] = []
    text = "\n".join(f"the old dog sees {i} boat." for i in range(300))
    asking = threading.Thread(
        target=lambda: answers.append(server.post("/translate", q=text, source="en", target="de"))
    )
    asking.start()
    active = b"qkv_active_requests 2.0"  # this one, too
    wait_until(lambda: active in urllib.request.urlopen(server.url + "/metrics").read())
    code, out, err = server.stop(how)
    asking.join(SOON)
    assert len(answers[0]["translatedText"].split("\n")) == 300
    assert (code, err) == (0, "")
    assert out.startswith("stopped after ")
    assert list(tmp_path.iterdir()) == [], "no file is left"


def test_killed_in_the_middle_it_leaves_nothing_half_written(start: Start, tmp_path: Path) -> None:
    """A file is being translated and a suggestion was confirmed; after a kill, the next server begins clean."""
    better = tmp_path / "better.jsonl"
    server = start("--suggestions", str(better))
    assert server.post("/suggest", q="boat", s="Kahn", source="en", target="de") == {"success": True}
    long = b"".join(b"the dog sees %d boats.\n" % i for i in range(9000))
    body = b"".join(
        b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name, value)
        for name, value in [(b"source", b"en"), (b"target", b"de"), (b'file"; filename="a.txt', long)]
    )
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    request = urllib.request.Request(server.url + "/translate_file", body + b"--x--\r\n", headers)
    with ThreadPoolExecutor(1) as threads:
        sent = threads.submit(urllib.request.urlopen, request, timeout=SOON)
        wait_until(lambda: bool(list(tmp_path.glob("qkv-serve-*/*/source.txt"))))
        server.stop(signal.SIGKILL)
        assert isinstance(sent.exception(SOON), OSError)
    assert list(tmp_path.glob("qkv-serve-*"))
    again = start("--suggestions", str(better))
    assert not list(tmp_path.glob("qkv-serve-*/*"))
    assert again.post("/translate", q="dog and cat.", source="en", target="de") == {"translatedText": "Hund und Katze."}
    assert again.post("/suggest", q="tree", s="Bäume", source="en", target="de") == {"success": True}
    kept = [json.loads(line) for line in better.read_text(encoding="utf-8").splitlines()]
    assert kept == [{"en": "boat", "de": "Kahn"}, {"en": "tree", "de": "Bäume"}]


@pytest.mark.parametrize(("flags", "status"), [([], 429), (["--trust-proxy", "127.0.0.1"], 200)], ids=["", "proxy"])
def test_a_dripping_body_loses_its_place_whoever_says_to_send_it(flags: list[str], status: int, start: Start) -> None:
    """Of two places one client may have one. Who asks is told by X-Forwarded-For only behind a proxy."""
    server = start("--requests", "2", "--seconds", "2", *flags)

    def asked(address: str) -> int:
        request = urllib.request.Request(server.url + "/languages", headers={"X-Forwarded-For": address})
        try:
            return int(urllib.request.urlopen(request, timeout=SOON).status)
        except urllib.error.HTTPError as refused:
            return refused.code

    def is_refused() -> bool:
        try:
            slow.sendall(b"{")
            return slow.recv(12) == b"HTTP/1.1 408"
        except TimeoutError:
            return False
        except ConnectionError:  # it was closed while this was sent
            return True

    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=0.1) as slow:
        head = "POST /detect HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 10.0.0.1\r\nContent-Length: 999\r\n\r\n"
        slow.sendall(head.encode())
        wait_until(lambda: asked("10.0.0.1") == 429)
        assert asked("10.0.0.2") == status
        wait_until(is_refused)
    wait_until(lambda: asked("10.0.0.1") == 200)


def test_a_key_from_the_environment(start: Start) -> None:
    server = start(QKV_API_KEY="secret")
    with pytest.raises(urllib.error.HTTPError) as refused:
        server.post("/translate", q="snow.", source="en", target="de")
    assert refused.value.code == 400
    answer = server.post("/translate", q="snow.", source="en", target="de", api_key="secret")
    assert answer == {"translatedText": "Schnee."}


def test_a_file_of_flags_and_a_signal_that_reads_it_again(
    start: Start, model_folder: Path, lm_folder: Path, tmp_path: Path
) -> None:
    """The flags of the command line win over the file; its models are named anew when it is read again."""
    file, named = tmp_path / "serve.toml", f'api-key = "sesame"\nport = 1\nmodel = ["{model_folder}"]\n'
    file.write_text(named)
    server = start("--config", str(file), "--keep", "10m", model=False)
    names = lambda: [one["id"] for one in server.get("/v1/models", key="sesame")["data"]]  # noqa: E731
    assert names() == ["en-de"]
    file.write_text(named.replace("]", f', "{lm_folder}"]'))
    server.process.send_signal(signal.SIGHUP)
    assert server.process.stdout is not None
    assert server.process.stdout.readline() == "reloaded: en-de, lm\n"
    assert names() == ["en-de", "lm"]
    server.process.send_signal(signal.SIGHUP)  # and the end may come while they are opened once more
    code, out, err = server.stop()
    assert (code, err) == (0, "")
    assert "reloaded: en-de, lm\n" in out
