"""The official OpenAI client, as its users have it, against a running gateway.

    client.py SCENE

`OPENAI_BASE_URL` and `OPENAI_API_KEY` say where the gateway is and who calls, as they do for any program that uses the
library. What each scene needs of the gateway's configuration stands with its test.
"""

import sys
import time

import openai

# On top of what a wait must take: a machine that is busy with other tests.
LATE_SECONDS = 3.0

HELLO = [{"role": "user", "content": "hello there, gateway"}]


def answers(client):
    """Everything that the embedded backend offers comes through, parsed."""
    completion = client.chat.completions.create(model="echo-small", messages=HELLO)
    assert completion.model == "echo-small", completion
    assert completion.choices[0].message.content == "hello there, gateway", completion
    assert completion.choices[0].finish_reason == "stop", completion
    # A token for every four bytes.
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (5, 5), completion
    assert completion._request_id, "the library finds no request id"

    chunks = list(
        client.chat.completions.create(
            model="echo-small",
            messages=HELLO,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert streamed(chunks) == "hello there, gateway", chunks
    assert chunks[-1].choices == [], chunks
    assert chunks[-1].usage == completion.usage, chunks
    assert all(chunk.usage is None for chunk in chunks[:-1]), chunks

    # The library asks for base64 unless told otherwise, and decodes it.
    embeddings = client.embeddings.create(model="echo-small", input=["one", "two", "one"])
    first, second, third = (entry.embedding for entry in embeddings.data)
    assert all(isinstance(number, float) for number in first), first
    assert first == third != second, embeddings
    plain = client.embeddings.create(model="echo-small", input="one", encoding_format="float")
    assert all(abs(a - b) < 1e-6 for a, b in zip(plain.data[0].embedding, first, strict=True)), plain

    models = sorted(model.id for model in client.models.list())
    assert models == ["echo-large", "echo-small"], models


def queued(client):
    """A request that has to wait is held, not refused: the caller sees one slow answer, and why it was slow."""
    first = client.chat.completions.with_raw_response.create(model="slow", messages=HELLO)
    assert "x-fair-queue-position" not in first.headers, first.headers

    begun = time.monotonic()
    second = client.chat.completions.with_raw_response.create(model="slow", messages=HELLO)
    took = time.monotonic() - begun
    waited(second, took)
    assert second.parse().choices[0].message.content == "hello there, gateway"

    begun = time.monotonic()
    third = client.chat.completions.with_raw_response.create(model="slow", messages=HELLO, stream=True)
    waited(third, time.monotonic() - begun)
    assert streamed(third.parse()) == "hello there, gateway"


def recovers(client):
    """A refusal tells a time after which the library's own, single retry passes."""
    client.chat.completions.create(model="echo", messages=HELLO)
    begun = time.monotonic()
    told = refusal(client).headers["retry-after-ms"]

    recovered = client.chat.completions.with_raw_response.create(model="echo", messages=HELLO)
    took = time.monotonic() - begun
    # Its own backoff begins with half a second: one retry after that would have been refused again.
    assert recovered.retries_taken == 1, recovered.retries_taken
    told = int(told) / 1000
    assert told <= took <= told + LATE_SECONDS, (told, took)
    assert recovered.parse().choices[0].message.content == "hello there, gateway"


def refused(client):
    """A caller who does not retry gets the library's own error, with all its fields."""
    client.chat.completions.create(model="echo", messages=HELLO)
    try:
        client.with_options(max_retries=0).chat.completions.create(model="echo", messages=HELLO)
    except openai.RateLimitError as error:
        assert error.status_code == 429, error
        assert error.code == "rate_limit_exceeded", error.code
        assert error.type == "requests", error.type
        assert error.param is None, error.param
        assert error.request_id and error.request_id == error.response.headers["x-request-id"], error.request_id
        assert error.body["details"]["limit_type"] == "user", error.body
        told = int(error.response.headers["retry-after-ms"])
        assert error.body["details"]["retry_after_ms"] == told, (error.body, told)
        assert int(error.response.headers["retry-after"]) == -(-told // 1000), error.response.headers
    else:
        raise AssertionError("it was not refused")

    stranger = client.with_options(api_key="nobody's key")
    try:
        stranger.chat.completions.create(model="echo", messages=HELLO)
    except openai.AuthenticationError as error:
        assert error.code == "invalid_api_key", error.code
    else:
        raise AssertionError("a stranger was let in")


def refusal(client):
    """The response that refuses a request of a caller who does not retry."""
    try:
        client.with_options(max_retries=0).chat.completions.create(model="echo", messages=HELLO)
    except openai.RateLimitError as error:
        return error.response
    raise AssertionError("it was not refused")


def waited(response, took):
    """Checks what a response tells about its time in the queue, in milliseconds, against what it took in seconds."""
    assert response.retries_taken == 0, "it was refused before it was served"
    told = {name: int(response.headers[f"x-fair-queue-{name}"]) for name in ("position", "wait-ms", "estimated-wait-ms")}
    assert told["position"] == 1, told
    assert 0 < told["wait-ms"] <= took * 1000, (told, took)
    assert abs(told["estimated-wait-ms"] - told["wait-ms"]) <= LATE_SECONDS * 1000, told


def streamed(chunks):
    """The text of a streamed completion."""
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


SCENES = {scene.__name__: scene for scene in (answers, queued, recovers, refused)}

if __name__ == "__main__":
    # No option is given: retries, timeouts and transport are the library's own.
    SCENES[sys.argv[1]](openai.OpenAI())
