"""OpenAI's API: its official client, unchanged, on a real `qkv serve`; and every field, answer and error of it."""

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from starlette.testclient import TestClient

import qkv
from qkv.decoding.generator import Generated, Increment
from qkv.serving.completions import Completed

Serve = Callable[..., TestClient]
SOON = 60  # seconds
WISH: dict[str, Any] = {"model": "lm", "prompt": "the old king", "max_tokens": 12}


@pytest.fixture(scope="module")
def writer(lm_folder: Path) -> Any:
    return qkv.load(lm_folder)


@pytest.fixture(scope="module")
def process(lm_folder: Path, critic_folder: Path, bert_folder: Path) -> Iterator[openai.OpenAI]:
    """The official client of a server that wants a key."""
    folders = map(str, (lm_folder, critic_folder, bert_folder))
    command = [sys.executable, "-m", "qkv", "serve", "--port", "0", "--model", *folders]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "QKV_API_KEY": "secret"}
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert running.stdout
    try:
        url = re.match(r"http://127\.0\.0\.1:\d+", running.stdout.readline())
        assert url
        yield openai.OpenAI(base_url=f"{url[0]}/v1", api_key="secret", timeout=SOON, max_retries=0)
    finally:
        running.terminate()
        running.communicate(timeout=SOON)


# -- the official client -----------------------------------------------------------------------------------------------


def test_a_completion(process: openai.OpenAI, writer: Any) -> None:
    own = writer.generate("the old king", tokens=12)
    found = process.completions.create(**WISH, temperature=0)
    (choice,) = found.choices
    assert (choice.text, choice.index) == (own.continuation, 0)
    assert choice.finish_reason == ("stop" if own.ended else "length")
    assert (found.object, found.model) == ("text_completion", "lm")
    assert found.usage
    prompt = len(writer.tokenizer.encode("the old king"))
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (prompt, own.tokens)
    assert found.usage.total_tokens == prompt + own.tokens


def test_a_stream(process: openai.OpenAI) -> None:
    """Several prompts and several texts of each: put together, they are what comes without a stream."""
    wish = {**WISH, "prompt": ["the old king", "a queen"], "n": 2, "seed": 7, "temperature": 0.9}
    whole = process.completions.create(**wish)
    texts, ends = [""] * 4, [""] * 4
    for chunk in process.completions.create(**wish, stream=True, stream_options={"include_usage": True}):
        if chunk.usage:
            assert chunk.choices == []
            assert chunk.usage == whole.usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            ends[choice.index] += choice.finish_reason or ""
    assert texts == [choice.text for choice in whole.choices]
    assert ends == [choice.finish_reason for choice in whole.choices]
    assert len(set(texts)) > 1


@pytest.mark.parametrize("coded", [openai.NOT_GIVEN, "float", "base64"], ids=["the client's own", "float", "base64"])
def test_embeddings(coded: Any, process: openai.OpenAI, bert_folder: Path) -> None:
    """The client asks for base64, unless told otherwise, and reads numbers from it by itself."""
    texts, embedder = ["the old king", "a queen"], qkv.load(bert_folder, task="embed")
    found = process.embeddings.create(model="bert", input=texts, encoding_format=coded)
    vectors = [one.embedding for one in found.data]
    if coded == "base64":
        vectors = [np.frombuffer(base64.b64decode(str(one)), "<f4") for one in vectors]
    np.testing.assert_allclose(vectors, embedder.embed(texts), atol=1e-5)
    assert [one.index for one in found.data] == [0, 1]
    tokens = sum(len(embedder.tokenizer.encode(text)) + 2 for text in texts)  # with <s> and </s>
    assert (found.usage.prompt_tokens, found.usage.total_tokens) == (tokens, tokens)


def test_models(process: openai.OpenAI) -> None:
    assert [one.id for one in process.models.list()] == ["lm", "critic", "bert"]
    assert process.models.retrieve("lm").owned_by == "qkv"


def test_errors_are_the_clients_own(process: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="there is no model 'ml' on this server; did you mean 'lm'") as none:
        process.completions.create(model="ml", prompt="x")
    assert (none.value.code, none.value.type) == ("model_not_found", "invalid_request_error")
    with pytest.raises(openai.BadRequestError, match="critic is a model of the task 'classify' and cannot generate"):
        process.completions.create(model="critic", prompt="x")
    with pytest.raises(openai.AuthenticationError, match="Invalid API key"):
        process.with_options(api_key="wrong").models.list()
    with pytest.raises(openai.NotFoundError, match="there is nothing at this address"):
        process.chat.completions.create(model="lm", messages=[{"role": "user", "content": "hello"}])


def test_embeddings_of_ids_and_what_cannot_be(mixed: TestClient, bert_folder: Path) -> None:
    def embed(**wish: Any) -> Any:
        return mixed.post("/v1/embeddings", json={"model": "bert", **wish}).json()

    ids = qkv.load(bert_folder).tokenizer.encode("the old king")
    assert embed(input=ids)["data"] == embed(input=[ids])["data"] == embed(input="the old king")["data"]
    assert embed(input="x", dimensions=16)["data"] == embed(input="x")["data"]
    for wish, sentence in (
        ({"input": "x", "dimensions": 8}, "bert has vectors of 16 numbers, not 8"),
        ({"input": []}, "a list without a text was given"),
        ({"input": "king " * 40}, "text 1 has 40 tokens, but bert reads 32 at once"),
        ({"input": "x", "model": "critic"}, "cannot embed; use POST /api/predict"),
        ({"input": "x", "encoding_format": "hex"}, "encoding_format"),
        ({"input": [10**6]}, "there is no token 1000000"),
    ):
        assert sentence in embed(**wish)["error"]["message"]


# -- fields -----------------------------------------------------------------------------------------------------------


def complete(client: TestClient, **wish: Any) -> Any:
    answer = client.post("/v1/completions", json={**WISH, **wish})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_draws_are_those_of_the_seed(mixed: TestClient, writer: Any) -> None:
    (first,) = complete(mixed, seed=3)["choices"]
    assert first["text"] == writer.generate("the old king", tokens=12, temperature=1.0, seed=3).continuation
    drawn = {complete(mixed)["choices"][0]["text"] for _ in range(8)}
    assert len(drawn) > 1, "without a seed, another one each time"


def test_ids_are_the_models_own(mixed: TestClient, writer: Any) -> None:
    ids = writer.tokenizer.encode("the old king")
    by_text = complete(mixed, temperature=0, echo=True)
    for prompt in (ids, [ids]):
        by_ids = complete(mixed, prompt=prompt, temperature=0, echo=True)
        assert (by_ids["choices"], by_ids["usage"]) == (by_text["choices"], by_text["usage"])
    assert by_text["choices"][0]["text"].startswith("the old king")


def test_no_prompt_begins_a_text(mixed: TestClient, writer: Any) -> None:
    answer = mixed.post("/v1/completions", json={"model": "lm", "temperature": 0}).json()
    assert answer["choices"][0]["text"] == writer.generate("", tokens=16).continuation
    assert answer["usage"]["prompt_tokens"] == 1, "the end of the text before"


def test_an_answer_ends_before_a_stop(mixed: TestClient, writer: Any) -> None:
    whole = writer.generate("the old king", tokens=40).continuation
    stop = whole[len(whole) // 2 :][:3]
    found = complete(mixed, max_tokens=40, temperature=0, stop=[stop, "no such text"])
    (choice,) = found["choices"]
    assert (choice["text"], choice["finish_reason"]) == (whole[: whole.index(stop)], "stop")
    assert found["usage"]["completion_tokens"] < 40, "nothing more was written"
    wish = {**WISH, "max_tokens": 40, "temperature": 0, "stop": stop, "stream": True}
    lines = mixed.post("/v1/completions", json=wish).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(line[6:]) for line in lines[:-2]]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == choice["text"]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]


def test_each_of_several_answers_ends_by_itself(mixed: TestClient, writer: Any) -> None:
    """One has its stop early, while another that is written beside it goes on."""
    prompts = ["the old king saw 3 stars and", "the", "the old king saw"]
    own = [one.continuation for one in writer.generate(prompts, tokens=24)]
    wish: dict[str, Any] = {"max_tokens": 24, "temperature": 0, "stop": "queen"}
    answer = complete(mixed, prompt=prompts, **wish)
    found, used = answer["choices"], [complete(mixed, prompt=one, **wish)["usage"] for one in prompts]
    assert answer["usage"]["completion_tokens"] == sum(one["completion_tokens"] for one in used)
    assert [one["text"] for one in found] == [text.partition("queen")[0] for text in own]
    assert len({text.find("queen") for text in own}) > 1, "they end at different times"
    assert [one["finish_reason"] == "stop" for one in found] == ["queen" in text for text in own]


@pytest.mark.parametrize(
    ("pieces", "stops", "told"),
    [
        (["a", "b", "c"], [], ["a", "b", "c"]),
        (["a\n", "\nb"], ["\n\n"], ["a", ""]),
        (["a\n", "b"], ["\n\n"], ["a", "\nb"]),
        (["one tw", "o three"], ["two"], ["one ", ""]),
        (["one tw", "in"], ["two"], ["one ", "twin"]),
        (["abcabd"], ["d", "ca"], ["ab"]),
        (["aa", "ab"], ["aab"], ["", "a"]),
        (["x tw"], ["two"], ["x tw"]),
    ],
)
def test_what_may_begin_a_stop_is_kept_back(pieces: list[str], stops: list[str], told: list[str]) -> None:
    choice, found = Completed(stops), []
    for i, text in enumerate(pieces):
        last = Generated("", "", 0.0, i + 1) if i + 1 == len(pieces) else None
        found.append(choice.add(Increment(0, text, i + 1, last)))
    assert found == told


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"max_tokens": 62}, "this model's context is 64 tokens, but the prompt has "),
        ({"max_tokens": 5000}, "5000 tokens are more than this server's 1024"),
        ({"max_tokens": 0}, "tokens must be at least 1, not 0"),
        ({"n": 3, "temperature": 0}, "n is 3, but with a temperature of 0 all texts are the same; ask for one"),
        ({"n": 0, "temperature": 0}, "n_best=0 must be at least 1"),
        ({"n": 11}, "n_best=11 are more than this server's 20 and 10"),
        ({"best_of": 4}, "best_of is something that this server cannot do; leave it out, or make it equal to n"),
        ({"logprobs": 0}, "logprobs is something that this server cannot do; leave it out"),
        ({"frequency_penalty": 0.5}, "frequency_penalty is something that this server cannot do"),
        ({"logit_bias": {"5": 1}}, "logit_bias is something that this server cannot do"),
        ({"suffix": "end"}, "suffix is something that this server cannot do"),
        ({"top_k": 5}, "unknown key 'top_k'; did you mean 'top_p'?"),
        ({"stop": ["a"] * 5}, "stop has up to 4 texts, none of them empty"),
        ({"stop": ""}, "stop has up to 4 texts, none of them empty"),
        ({"prompt": [5, 100_000]}, "there is no token 100000; lm has 320, counted from 0"),
        ({"prompt": []}, "a list without a text was given; give at least one"),
        ({"prompt": ["x"] * 101}, "request (101) exceeds batch limit (100)"),
        ({"prompt": [5] * 20_001}, "exceeds text limit"),
        ({"top_p": 0}, "top_p above 0"),
        ({"seed": -1}, "seed must be a number from 0"),
        ({"temperature": "hot"}, "request: temperature: Input should be a valid number"),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_one_sentence_for_what_cannot_be(
    wish: dict[str, Any], sentence: str, is_stream: bool, mixed: TestClient
) -> None:
    """With its status even where a stream was asked for."""
    answer = mixed.post("/v1/completions", json={**WISH, **wish, "stream": is_stream})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert sentence in error["message"]
    assert error["type"] == "invalid_request_error"


def test_what_changes_nothing_is_taken(mixed: TestClient) -> None:
    plain = complete(mixed, temperature=0)["choices"]
    same = {"user": "me", "best_of": 1, "n": 1, "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {},
            "suffix": None, "logprobs": None, "stop": None, "seed": None, "top_p": 1, "echo": False}  # fmt: skip
    assert complete(mixed, temperature=0, **same)["choices"] == plain


def test_the_key_is_asked_for_as_openai_does(serve: Serve) -> None:
    client = serve(key="secret")
    for headers, message in (({}, "this server needs an API key"), ({"Authorization": "Bearer no"}, "Invalid API key")):
        answer = client.get("/v1/models", headers=headers)
        assert answer.status_code == 401
        assert message in answer.json()["error"]["message"]
        assert answer.json()["error"]["code"] == "invalid_api_key"
    assert client.get("/v1/models", headers={"Authorization": "Bearer secret"}).status_code == 200
