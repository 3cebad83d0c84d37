"""The official OpenAI and Anthropic clients, as their users have them, against a gateway with token budgets.

    budgets.py SCENE

The libraries find the gateway and the caller's key in their own environment variables. The embedded backend says the
prompt again, and counts a token for every four bytes. What each scene needs of the gateway's configuration stands with
its test.
"""

import sys
import time

import anthropic
import openai

# On top of what a wait must take: a machine that is busy with other tests.
LATE_SECONDS = 3.0

TEXT = "hello there, gateway"
HELLO = [{"role": "user", "content": TEXT}]
# Five tokens of prompt, and as many of output.
USED = 10


def openai_answers():
    """All kinds of answers are parsed as they are without a budget, and each costs what it used."""
    client = openai.OpenAI()
    spent = Budget(assumed_output=50)

    completion = spent.of(USED, client.chat.completions.with_raw_response.create(model="echo", messages=HELLO))
    assert completion.choices[0].message.content == TEXT, completion
    assert completion.usage.total_tokens == USED, completion

    chunks = spent.of(USED, client.chat.completions.with_raw_response.create(model="echo", messages=HELLO, stream=True))
    chunks = list(chunks)
    assert chat_text(chunks) == TEXT, chunks
    # What only the gateway asked for is not for the caller.
    assert all(chunk.choices and chunk.usage is None for chunk in chunks), chunks

    asked = client.chat.completions.with_raw_response.create(
        model="echo", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(spent.of(USED, asked))
    assert chat_text(chunks) == TEXT, chunks
    assert (chunks[-1].choices, chunks[-1].usage.total_tokens) == ([], USED), chunks[-1]

    text = spent.of(USED, client.completions.with_raw_response.create(model="echo", prompt=TEXT))
    assert text.choices[0].text == TEXT, text
    chunks = list(spent.of(USED, client.completions.with_raw_response.create(model="echo", prompt=TEXT, stream=True)))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == TEXT, chunks

    response = spent.of(USED, client.responses.with_raw_response.create(model="echo", input=TEXT))
    assert (response.output_text, response.usage.total_tokens) == (TEXT, USED), response
    events = list(spent.of(USED, client.responses.with_raw_response.create(model="echo", input=TEXT, stream=True)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == TEXT, events
    assert events[-1].response.usage.total_tokens == USED, events[-1]

    for _ in range(2):
        raw = client.embeddings.with_raw_response.create(model="echo", input=TEXT)
        embeddings = spent.of(USED // 2, raw, output=0)
        assert embeddings.usage.total_tokens == USED // 2, embeddings


def anthropic_answers():
    """The same of messages."""
    client = anthropic.Anthropic()
    spent = Budget(assumed_output=100)
    ask = {"model": "echo", "max_tokens": 100, "messages": HELLO}

    message = spent.of(USED, client.messages.with_raw_response.create(**ask))
    assert message.content[0].text == TEXT, message
    assert (message.usage.input_tokens, message.usage.output_tokens) == (USED // 2, USED // 2), message

    events = list(spent.of(USED, client.messages.with_raw_response.create(**ask, stream=True)))
    text = "".join(event.delta.text for event in events if event.type == "content_block_delta")
    assert text == TEXT, events

    with client.messages.stream(**ask) as stream:
        assert "".join(stream.text_stream) == TEXT
        assert stream.get_final_message().usage.output_tokens == USED // 2
    spent.left -= USED
    spent.of(USED, client.messages.with_raw_response.create(**ask))


def openai_recovers():
    """A budget's refusal tells a time after which the library's own, single retry passes."""
    client = openai.OpenAI()
    client.chat.completions.create(model="echo", messages=HELLO, max_tokens=100)
    begun = time.monotonic()
    try:
        client.with_options(max_retries=0).chat.completions.create(model="echo", messages=HELLO, max_tokens=100)
    except openai.RateLimitError as error:
        assert (error.code, error.type) == ("rate_limit_exceeded", "tokens"), error.body
        assert error.body["details"]["limit_type"] == "user", error.body
        told = int(error.response.headers["retry-after-ms"]) / 1000
        assert error.response.headers["x-ratelimit-remaining-tokens"], error.response.headers
    else:
        raise AssertionError("it was not refused")
    recovered = client.chat.completions.with_raw_response.create(model="echo", messages=HELLO, max_tokens=100)
    took = time.monotonic() - begun
    assert recovered.retries_taken == 1, recovered.retries_taken
    assert told <= took <= told + LATE_SECONDS, (told, took)
    assert recovered.parse().choices[0].message.content == TEXT


def anthropic_recovers():
    """The same of messages."""
    client = anthropic.Anthropic()
    ask = {"model": "echo", "max_tokens": 100, "messages": HELLO}
    client.messages.create(**ask)
    begun = time.monotonic()
    try:
        client.with_options(max_retries=0).messages.create(**ask)
    except anthropic.RateLimitError as error:
        assert error.status_code == 429, error
        assert error.body["error"]["type"] == "rate_limit_error", error.body
        assert error.body["error"]["code"] == "rate_limit_exceeded", error.body
        assert error.request_id, error
        told = int(error.response.headers["retry-after-ms"]) / 1000
    else:
        raise AssertionError("it was not refused")
    recovered = client.messages.with_raw_response.create(**ask)
    took = time.monotonic() - begun
    assert recovered.retries_taken == 1, recovered.retries_taken
    assert told <= took <= told + LATE_SECONDS, (told, took)
    assert recovered.parse().content[0].text == TEXT


def never_fits():
    """What no budget ever holds is told at once: neither library tries again."""
    begun = time.monotonic()
    try:
        openai.OpenAI().chat.completions.create(model="echo", messages=HELLO, max_tokens=1_000)
    except openai.RateLimitError as error:
        assert error.code == "request_exceeds_limit", error.body
    else:
        raise AssertionError("it was not refused")
    try:
        anthropic.Anthropic().messages.create(model="echo", messages=HELLO, max_tokens=1_000)
    except anthropic.RateLimitError as error:
        assert error.body["error"]["code"] == "request_exceeds_limit", error.body
    else:
        raise AssertionError("it was not refused")
    # Two retries would take more than a second.
    assert time.monotonic() - begun < LATE_SECONDS


class Budget:
    """Follows a budget that does not refill, by what answers tell of it."""

    def __init__(self, assumed_output=0):
        self.left = None
        self.assumed_output = assumed_output

    def of(self, used, raw, output=None):
        """The parsed answer of a request that may be answered so much, and uses so many tokens in the end."""
        reserved = USED // 2 + (self.assumed_output if output is None else output)
        if self.left is None:
            self.left = int(raw.headers["x-ratelimit-limit-tokens"])
        told = int(raw.headers["x-ratelimit-remaining-tokens"])
        assert told == self.left - reserved, (told, self.left, reserved)
        self.left -= used
        return raw.parse()


def chat_text(chunks):
    """The text of a streamed completion."""
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


SCENES = {
    scene.__name__: scene
    for scene in (openai_answers, anthropic_answers, openai_recovers, anthropic_recovers, never_fits)
}

if __name__ == "__main__":
    # No option is given: retries, timeouts and transport are the libraries' own.
    SCENES[sys.argv[1]]()
