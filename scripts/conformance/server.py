"""A small scripted inference server that keeps every request as it came over the wire.

It speaks HTTP/1.1 on as many ports as it is asked for, knows the APIs of all endpoint types that both tools have, and answers by request number, so
that two tools that send the same requests get the same answers. An answer has as many tokens as the request allows: one word of `WORDS` is one
token of the builtin tokenizer. A stream sends its opening event at once, waits `FIRST_S`, then sends a word every `NEXT_S`.

Modes (of a chat; other APIs know `basic` only):
  basic      nothing else
  errors     the number of the request modulo 10 says what goes wrong; see `stream_fault` and `whole_fault`
  reasoning  the first half of the tokens is reasoning, and each event has the usage so far when that is asked for
  spec       the last event has the counts of speculative decoding
  multi      four tokens in each event, sent when the last of them would have been
  slow       a token every 20 ms
"""

import json
import socket
import socketserver
import threading
import time

FIRST_S = 0.020
NEXT_S = 0.004
SLOW_S = 0.020
WORDS = ["The", " river", " turns", " below", " the", " old", " stone", " bridge", " and", " carries", " light"]
# Every answer begins so. Texts of answers come back in later turns, where they must be the same for both tools.
REPLY = "The river turns"
VECTOR = [0.25, -0.5, 0.125, 1.0]
SPECULATION = {
    "acceptance_histogram": [2, 3, 3, 2],
    "num_spec_steps": 10,
    "num_draft_tokens": 30,
    "num_accepted_draft_tokens": 15,
    "num_spec_tokens": 3,
    "mean_acceptance_length": 2.5,
    "draft_acceptance_rate": 0.5,
}


class Gone(Exception):
    """The connection is to be closed in the middle of an answer."""


def words(count):
    return [WORDS[i % len(WORDS)] for i in range(count)]


def limit_of(body):
    """How many tokens the answer may have, whatever the API calls that."""
    places = [body, body.get("parameters") or {}, body.get("sampling_params") or {}]
    names = ["max_completion_tokens", "max_tokens", "max_output_tokens", "max_new_tokens"]
    return next((p[n] for p in places for n in names if isinstance(p.get(n), int)), 20)


class Asked:
    """A request: what it is, as it came, and what an answer needs to know of it."""

    def __init__(self, number, port, method, target, headers, raw, mode):
        self.number, self.port, self.method, self.target, self.headers, self.raw = number, port, method, target, headers, raw
        self.mode = mode
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            body = {}
        self.body = body if isinstance(body, dict) else {}
        self.tokens = limit_of(self.body)
        self.prompt = 50 + number % 7
        self.next_s = SLOW_S if mode == "slow" else NEXT_S

    def model(self):
        return self.body.get("model", "mock-model")

    def usage(self, done=None, reasoning=0):
        done = self.tokens if done is None else done
        told = {"prompt_tokens": self.prompt, "completion_tokens": done, "total_tokens": self.prompt + done}
        told["prompt_tokens_details"] = {"cached_tokens": self.prompt // 2}
        if self.mode == "reasoning":
            told["completion_tokens_details"] = {"reasoning_tokens": min(done, reasoning)}
        return told


# What each API sends. A stream is a list of steps: ("wait", s), ("event", name, value), ("close",).


def chat_pieces(asked):
    """Deltas of a chat and how many tokens each has."""
    texts = words(asked.tokens)
    if asked.mode == "multi":
        return [({"content": "".join(texts[i : i + 4])}, len(texts[i : i + 4])) for i in range(0, len(texts), 4)]
    if asked.mode == "reasoning":
        half = asked.tokens // 2
        return [({"reasoning_content" if i < half else "content": text}, 1) for i, text in enumerate(texts)]
    return [({"content": text}, 1) for text in texts]


def chat_stream(asked):
    options = asked.body.get("stream_options") or {}
    half = asked.tokens // 2

    def event(choices, **more):
        head = {"id": "chatcmpl-%d" % asked.number, "object": "chat.completion.chunk", "created": 1700000000, "model": asked.model()}
        return ("event", None, dict(head, choices=choices, **more))

    def choice(delta, finish=None):
        return [{"index": 0, "delta": delta, "finish_reason": finish}]

    steps = [event(choice({"role": "assistant", "content": ""})), ("wait", FIRST_S)]
    done = 0
    for delta, tokens in chat_pieces(asked):
        if done:
            steps.append(("wait", asked.next_s * tokens))
        done += tokens
        more = {"usage": asked.usage(done, half)} if options.get("continuous_usage_stats") else {}
        steps.append(event(choice(delta), **more))
    more = {"metrics": {"speculative_decoding": SPECULATION}} if asked.mode == "spec" else {}
    steps.append(event(choice({}, "stop"), **more))
    if options.get("include_usage"):
        steps.append(event([], usage=asked.usage(None, half)))
    return steps + [("event", None, "[DONE]")]


def chat_whole(asked):
    texts = words(asked.tokens)
    message = {"role": "assistant", "content": "".join(texts)}
    half = asked.tokens // 2
    if asked.mode == "reasoning":
        message = {"role": "assistant", "content": "".join(texts[half:]), "reasoning_content": "".join(texts[:half])}
    told = {"id": "chatcmpl-%d" % asked.number, "object": "chat.completion", "created": 1700000000, "model": asked.model()}
    told["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
    told["usage"] = asked.usage(None, half)
    if asked.mode == "spec":
        told["metrics"] = {"speculative_decoding": SPECULATION}
    return told


def completions_stream(asked):
    def event(choices, **more):
        head = {"id": "cmpl-%d" % asked.number, "object": "text_completion", "created": 1700000000, "model": asked.model()}
        return ("event", None, dict(head, choices=choices, **more))

    steps = [("wait", FIRST_S)]
    for i, text in enumerate(words(asked.tokens)):
        steps += [("wait", asked.next_s)] if i else []
        steps.append(event([{"index": 0, "text": text, "finish_reason": "stop" if i + 1 == asked.tokens else None}]))
    if (asked.body.get("stream_options") or {}).get("include_usage"):
        steps.append(event([], usage=asked.usage()))
    return steps + [("event", None, "[DONE]")]


def completions_whole(asked):
    told = {"id": "cmpl-%d" % asked.number, "object": "text_completion", "created": 1700000000, "model": asked.model()}
    told["choices"] = [{"index": 0, "text": "".join(words(asked.tokens)), "finish_reason": "stop"}]
    return dict(told, usage=asked.usage())


def responses_usage(asked):
    usage = {"input_tokens": asked.prompt, "input_tokens_details": {"cached_tokens": asked.prompt // 2}}
    usage.update(output_tokens=asked.tokens, output_tokens_details={"reasoning_tokens": 0}, total_tokens=asked.prompt + asked.tokens)
    return usage


def responses_whole(asked):
    content = [{"type": "output_text", "text": "".join(words(asked.tokens)), "annotations": []}]
    item = {"id": "msg_%d" % asked.number, "type": "message", "status": "completed", "role": "assistant", "content": content}
    told = {"id": "resp_%d" % asked.number, "object": "response", "created_at": 1700000000, "status": "completed"}
    return dict(told, model=asked.model(), output=[item], usage=responses_usage(asked))


def responses_stream(asked):
    whole = responses_whole(asked)
    item = whole["output"][0]
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    counter = iter(range(1 << 30))

    def event(name, **more):
        return ("event", name, dict({"type": name, "sequence_number": next(counter)}, **more))

    begun = {k: v for k, v in whole.items() if k != "usage"}
    steps = [event("response.created", response=dict(begun, status="in_progress", output=[]))]
    steps.append(event("response.output_item.added", output_index=0, item=dict(item, status="in_progress", content=[])))
    steps.append(("wait", FIRST_S))
    for i, text in enumerate(words(asked.tokens)):
        steps += [("wait", asked.next_s)] if i else []
        steps.append(event("response.output_text.delta", delta=text, **place))
    steps.append(event("response.output_text.done", text=item["content"][0]["text"], **place))
    steps.append(event("response.output_item.done", output_index=0, item=item))
    return steps + [event("response.completed", response=whole)]


def messages_whole(asked):
    told = {"id": "msg_%d" % asked.number, "type": "message", "role": "assistant", "model": asked.model()}
    told["content"] = [{"type": "text", "text": "".join(words(asked.tokens))}]
    told.update(stop_reason="end_turn", stop_sequence=None, usage={"input_tokens": asked.prompt, "output_tokens": asked.tokens})
    return told


def messages_stream(asked):
    def event(name, **more):
        return ("event", name, dict({"type": name}, **more))

    begun = dict(messages_whole(asked), content=[], stop_reason=None, usage={"input_tokens": asked.prompt, "output_tokens": 1})
    steps = [event("message_start", message=begun)]
    steps.append(event("content_block_start", index=0, content_block={"type": "text", "text": ""}))
    steps.append(("wait", FIRST_S))
    for i, text in enumerate(words(asked.tokens)):
        steps += [("wait", asked.next_s)] if i else []
        steps.append(event("content_block_delta", index=0, delta={"type": "text_delta", "text": text}))
    steps.append(event("content_block_stop", index=0))
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    steps.append(event("message_delta", delta=ended, usage={"output_tokens": asked.tokens}))
    return steps + [event("message_stop")]


def generate_whole(asked):
    return {"generated_text": "".join(words(asked.tokens))}


def generate_stream(asked):
    steps = [("wait", FIRST_S)]
    texts = words(asked.tokens)
    for i, text in enumerate(texts):
        steps += [("wait", asked.next_s)] if i else []
        last = i + 1 == len(texts)
        told = {"index": i + 1, "token": {"id": i + 5, "text": text, "logprob": -0.5, "special": False}}
        told["generated_text"] = "".join(texts) if last else None
        steps.append(("event", None, dict(told, details=None)))
    return steps


def solido_whole(asked):
    return {"content": "".join(words(asked.tokens)), "sources": [{"title": "A river"}]}


def solido_stream(asked):
    steps = [("wait", FIRST_S)]
    for i, text in enumerate(words(asked.tokens)):
        steps += [("wait", asked.next_s)] if i else []
        steps.append(("event", None, {"content": text, "sources": [{"title": "A river"}]}))
    return steps


def embeddings_whole(asked):
    texts = asked.body.get("input", asked.body.get("messages", [0]))
    data = [{"object": "embedding", "index": i, "embedding": VECTOR} for i in range(len(texts) if isinstance(texts, list) else 1)]
    usage = {"prompt_tokens": asked.prompt, "total_tokens": asked.prompt}
    return {"object": "list", "data": data, "model": asked.model(), "usage": usage}


def scores(count):
    return [1.0 / (i + 1) for i in range(count)]


def cohere_whole(asked):
    ranked = scores(len(asked.body.get("documents", [])))
    return {"id": "rank-%d" % asked.number, "results": [{"index": i, "relevance_score": s} for i, s in enumerate(ranked)]}


def tei_whole(asked):
    return [{"index": i, "score": s} for i, s in enumerate(scores(len(asked.body.get("texts", []))))]


def nim_whole(asked):
    return {"rankings": [{"index": i, "logit": s} for i, s in enumerate(scores(len(asked.body.get("passages", []))))]}


# By path: what a whole answer is, what a stream is, and whether a body without `"stream": true` is answered by a stream.
APIS = {
    "/v1/chat/completions": (chat_whole, chat_stream, False),
    "/v1/completions": (completions_whole, completions_stream, False),
    "/v1/responses": (responses_whole, responses_stream, False),
    "/v1/messages": (messages_whole, messages_stream, False),
    "/v1/embeddings": (embeddings_whole, None, False),
    "/v2/rerank": (cohere_whole, None, False),
    "/rerank": (tei_whole, None, False),
    "/v1/ranking": (nim_whole, None, False),
    "/generate": (generate_whole, None, False),
    "/generate_stream": (None, generate_stream, True),
    "/rag/api/prompt": (solido_whole, solido_stream, False),
}


def stream_fault(asked, steps):
    """The steps of a stream in which something goes wrong, or an answer (status, body) in its place."""
    kind = asked.number % 10
    half = len(steps) // 2
    if kind == 1:
        return 500, {"error": {"message": "out of memory", "type": "server_error", "code": 500}}
    if kind == 6:
        return 429, {"error": {"message": "too many requests", "type": "rate_limit_error", "code": 429}}
    if kind == 3:
        return 200, steps[:half] + [("close",)]
    if kind == 5:
        return 200, [("event", None, dict(steps[0][2], choices=[])), ("event", None, "[DONE]")]
    if kind == 7:
        return 200, [steps[0], ("event", None, "[DONE]")]
    if kind == 8:
        return 200, steps[:half] + [("event", "error", {"error": {"message": "the engine stopped", "code": 503}})]
    if kind == 9:
        return 200, steps[:half] + [("event", None, '{"id": "chatcmpl-9", "choi')] + steps[half:]
    return 200, steps


def whole_fault(asked, told):
    """The same for an answer in one piece."""
    kind = asked.number % 10
    if kind == 1:
        return 500, {"error": {"message": "out of memory", "type": "server_error", "code": 500}}
    if kind == 6:
        return 429, {"error": {"message": "too many requests", "type": "rate_limit_error", "code": 429}}
    if kind == 3:
        return 200, None
    if kind == 5:
        return 200, dict(told, choices=[])
    if kind == 7:
        return 503, {"detail": "no worker is free"}
    if kind == 8:
        return 400, {"object": "error", "message": "the prompt has too many tokens", "code": 400}
    return 200, told


class Server:
    """Listens on `ports` free ports. `begin` starts a new script, `taken` has what came since."""

    def __init__(self, ports=2):
        self.lock = threading.Lock()
        self.mode = "basic"
        self.taken = []
        self.posts = 0
        self.listeners = []
        for _ in range(ports):
            listener = Listener(("127.0.0.1", 0), Connection)
            listener.owner = self
            threading.Thread(target=listener.serve_forever, args=(0.05,), daemon=True).start()
            self.listeners.append(listener)

    def urls(self):
        return ["http://127.0.0.1:%d" % listener.server_address[1] for listener in self.listeners]

    def begin(self, mode):
        with self.lock:
            self.mode, self.taken, self.posts = mode, [], 0

    def take(self, port, method, target, headers, raw):
        with self.lock:
            asked = Asked(self.posts, port, method, target, headers, raw, self.mode)
            self.posts += method == "POST"
            self.taken.append(asked)
            return asked

    def close(self):
        for listener in self.listeners:
            listener.shutdown()
            listener.server_close()


class Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256


class Connection(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        try:
            while self.answer_one():
                pass
        except (Gone, ConnectionError, socket.timeout):
            pass

    def read_body(self, headers):
        fields = {name.lower(): value for name, value in headers}
        if fields.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(fields.get("content-length", 0)))
        parts = []
        while True:
            size = int(self.rfile.readline().split(b";")[0], 16)
            parts.append(self.rfile.read(size))
            self.rfile.readline()
            if size == 0:
                return b"".join(parts)

    def answer_one(self):
        line = self.rfile.readline().decode("latin-1").rstrip("\r\n")
        if not line:
            return False
        method, target, _ = line.split(" ", 2)
        headers = []
        for field in iter(lambda: self.rfile.readline().decode("latin-1").rstrip("\r\n"), ""):
            name, _, value = field.partition(":")
            headers.append((name, value.strip(" ")))
        raw = self.read_body(headers)
        asked = self.server.owner.take(self.server.server_address[1], method, target, headers, raw)
        self.answer(asked)
        return True

    def answer(self, asked):
        path = asked.target.partition("?")[0]
        if asked.method == "GET" and path == "/v1/models":
            models = [{"id": "mock-model", "object": "model"}, {"id": "second-model", "object": "model"}]
            return self.whole(200, {"object": "list", "data": models})
        if asked.method != "POST" or path not in APIS:
            return self.whole(404, {"error": {"message": "there is no %s" % path, "type": "not_found", "code": 404}})
        whole, stream, always = APIS[path]
        faulty = asked.mode == "errors"
        wants = asked.body.get("stream") is True or (("Accept", "text/event-stream") in asked.headers)
        if stream and (always or wants):
            status, told = stream_fault(asked, stream(asked)) if faulty else (200, stream(asked))
            if status == 200:
                return self.stream(told)
            time.sleep(FIRST_S)
            return self.whole(status, told)
        status, told = whole_fault(asked, whole(asked)) if faulty else (200, whole(asked))
        time.sleep(FIRST_S + asked.next_s * (asked.tokens - 1 if stream or path == "/generate" else 0))
        if told is None:
            self.head(200, "application/json", "Content-Length: 500")
            self.wfile.write(b'{"id": "chatcmpl-3", "object": "chat.comp')
            raise Gone
        return self.whole(status, told)

    def head(self, status, kind, length):
        words = {200: "OK", 400: "Bad Request", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error"}
        head = "HTTP/1.1 %d %s\r\nServer: scripted\r\nContent-Type: %s\r\n%s\r\n\r\n"
        self.wfile.write((head % (status, words.get(status, "Service Unavailable"), kind, length)).encode("latin-1"))

    def whole(self, status, told):
        raw = json.dumps(told).encode()
        self.head(status, "application/json", "Content-Length: %d" % len(raw))
        self.wfile.write(raw)

    def stream(self, steps):
        self.head(200, "text/event-stream; charset=utf-8", "Transfer-Encoding: chunked")
        for step in steps:
            if step[0] == "wait":
                time.sleep(step[1])
            elif step[0] == "close":
                raise Gone
            else:
                _, name, value = step
                text = value if isinstance(value, str) else json.dumps(value)
                event = ("event: %s\n" % name if name else "") + "data: %s\n\n" % text
                raw = event.encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.write(b"0\r\n\r\n")
