"""What has to be true of the requests of a cell."""

import math
import random
import re

SYSTEM_PROMPT = "You answer in plain words, and you say so when you do not know."
MARKER = re.compile(r"\[rid:[0-9a-f]{12}\]|\[warmup\]")
RATIO = 0.25
# A normal draw further from its mean than this many standard deviations is taken for a fault.
FAR = 8


class Asked:
    """What a cell asks for, beside its settings: lengths in tokens."""

    def __init__(self, cell, length):
        draws = random.Random(repr(sorted(cell.items())))
        self.cell = cell
        self.length = length
        self.system = draws.choice([40, 64, 200])
        self.user_context = draws.choice([17, 33, 100])
        self.prefix = draws.choice([8, 24, 128]) if cell["context"] == "pool" else 0
        self.prefixes = draws.choice([1, 3])
        self.style = draws.choice(["vllm", "sglang"])
        self.seed = draws.randrange(1 << 31)
        self.step = draws.choice([1, 9, 32])
        self.stddev = max(1, length // 8)

    def is_isolation(self):
        return self.cell["bust"].startswith("warmup_isolation")

    def requests(self):
        if self.length >= 8192:
            return 2 * self.cell["turns"]
        return (2 if self.cell["turns"] > 3 else 3) * self.cell["turns"]

    def warmups(self):
        return max(2, self.cell["turns"]) if self.is_isolation() else 0

    def lowest(self):
        """The least length that may be drawn."""
        spread = self.cell["spread"]
        return 1 if spread == "stddev" else self.low() if spread == "range" else self.length

    def low(self, specials=0):
        """The least of the window of a range ratio."""
        if self.style == "vllm":
            return math.floor((self.length - specials) * (1 - RATIO))
        return math.floor(max(1, self.length * RATIO - specials))

    def high(self):
        return math.ceil(self.length * (1 + RATIO)) if self.style == "vllm" else self.length

    def at_least(self, least):
        """The length to ask for so that nothing that can be drawn is below `least`."""
        spread = self.cell["spread"]
        if spread == "stddev":
            return 2 * least + FAR
        if spread == "range":
            return math.ceil((least + 2) / (1 - RATIO if self.style == "vllm" else RATIO))
        return least

    def flags(self):
        """The options of `aiperf profile` for the cell."""
        cell, flags = self.cell, []
        if cell["spread"] == "pairs":
            flags += ["--seq-dist", "%d,8:50;%d,8:50" % (self.length, self.length + self.step)]
        else:
            flags += ["--isl", str(self.length), "--osl", "8"]
        if cell["spread"] == "stddev":
            flags += ["--isl-stddev", str(self.stddev)]
        if cell["spread"] == "range":
            flags += ["--random-range-ratio", str(RATIO), "--random-corpus-style", self.style]
        flags += ["--prompt-corpus", cell["corpus"], "--endpoint-type", cell["endpoint"], "--random-seed", str(self.seed)]
        if cell["bust"] != "none":
            flags += ["--cache-bust", cell["bust"]]
        if cell["context"] in ("system", "system+user"):
            flags += ["--shared-system-prompt-length", str(self.system)]
        if cell["context"] in ("user", "system+user"):
            flags += ["--user-context-prompt-length", str(self.user_context)]
        if cell["context"] == "pool":
            flags += ["--num-prefix-prompts", str(self.prefixes), "--prompt-prefix-length", str(self.prefix)]
        if cell["context"] == "verbatim":
            flags += ["--system-prompt", SYSTEM_PROMPT]
        if cell["turns"] > 1:
            flags += ["--conversation-turn-mean", str(cell["turns"]), "--conversation-turn-stddev", "0"]
        if cell["template"] == "on":
            flags += ["--apply-chat-template"]
        if self.warmups():
            flags += ["--warmup-request-count", str(self.warmups())]
        return flags + ["--request-count", str(self.requests()), "--concurrency", "1"]

    def error(self, tokens, specials=0):
        """How far a length is from the nearest one that the cell allows."""
        spread = self.cell["spread"]
        if spread == "fixed":
            return tokens - self.length
        if spread == "pairs":
            return min(tokens - self.length, tokens - self.length - self.step, key=abs)
        if spread == "range":
            low, high = self.low(specials), self.high()
        else:
            low, high = max(1, self.length - FAR * self.stddev), self.length + FAR * self.stddev
        return tokens - max(low, min(high, tokens))


def conversation(body):
    """The messages of a chat, responses or Anthropic body as a chat template takes them."""
    system = body.get("instructions") or body.get("system")
    messages = [{"role": "system", "content": system}] if system else []
    for message in body.get("messages") or body.get("input"):
        content = message["content"]
        if not isinstance(content, str):
            content = "".join(part["text"] for part in content)
        messages.append({"role": message["role"], "content": content})
    return messages


def marker_faults(asked, messages, is_warmup):
    """Whether the marker of a request stands where it belongs and nowhere else; and the marker."""
    cell = asked.cell
    bust = cell["bust"]
    wanted = bust != "none" and (is_warmup or not asked.is_isolation())
    found = [(i, m) for i, message in enumerate(messages) for m in MARKER.findall(message["content"])]
    if not wanted:
        return ["a marker in message %d, where none belongs" % i for i, _ in found], None
    if len(found) != 1:
        return ["%d markers, not one" % len(found)], None
    at, marker = found[0]
    system = messages[0]["role"] == "system"
    first_turn = system + (cell["context"] in ("user", "system+user"))
    place = 0 if system and "system" in bust else first_turn
    content = messages[at]["content"]
    faults = []
    if at != place:
        faults.append("the marker is in message %d, not in %d" % (at, place))
    if asked.is_isolation() != (marker == "[warmup]"):
        faults.append("the marker is %s" % marker)
    ends = content.endswith("\n\n" + marker) if bust.endswith("suffix") else content.startswith(marker + "\n\n")
    if not ends:
        faults.append("the marker is not at its edge of the message")
    return faults, marker


def request_faults(asked, record, line, messages, counts):
    """Checks one request. Returns (errors in tokens by what they are of, faults in words, its marker)."""
    cell = asked.cell
    errors, faults, marker = {}, [], None
    told = record["metrics"].get("input_sequence_length", {}).get("value")
    total, bare = counts["total"], counts["bare"]
    templated = cell["template"] == "on"
    if cell["endpoint"] == "completions":
        specials = total - bare[0]
        least = specials + 1
        # A length that only the tokenizer's own tokens make impossible becomes the shortest that can be.
        if cell["spread"] == "fixed" and asked.length < least and not asked.prefix:
            errors["prompt"] = total - least
        else:
            errors["prompt"] = asked.error(total - asked.prefix, specials)
        sent = total
    else:
        roles = [m["role"] for m in messages]
        later = "assistant" in roles
        system = bare[0] if roles[0] == "system" else 0
        at = 1 if system else 0
        has_context = cell["context"] in ("user", "system+user")
        context = bare[at] if has_context else 0
        if cell["context"] in ("system", "system+user"):
            errors["system"] = system - asked.system
        if cell["context"] == "verbatim" and MARKER.sub("", messages[0]["content"]).strip() != SYSTEM_PROMPT:
            faults.append("the system prompt is not sent as it was given")
        if has_context:
            errors["context"] = context - asked.user_context
        if templated and later:
            own = [counts["turn"]]
        elif templated:
            own = [total - system - context - wrap - asked.prefix for wrap in counts["wraps"]]
        else:
            own = [bare[-1] - (0 if later else asked.prefix)]
        errors["later turn" if later else "first turn"] = min((asked.error(n, 1) for n in own), key=abs)
        users = roles.count("user") - has_context
        if users != record["metadata"]["turn_index"] + 1:
            faults.append("%d user messages in turn %d" % (users, record["metadata"]["turn_index"]))
        more, marker = marker_faults(asked, messages, record["metadata"]["benchmark_phase"] == "warmup")
        faults += more
        sent = total if templated else sum(bare)
    if told is None:
        faults.append("no input_sequence_length")
    else:
        errors["record"] = int(told) - sent
    if line["prompt_tokens"] is None:
        faults.append("the server counted nothing")
    else:
        errors["usage"] = line["prompt_tokens"] - total
    return errors, faults, marker


def session_faults(asked, markers, talks):
    """Checks over the requests of a cell. `markers`: session -> its markers; `talks`: session -> [(turn, messages)]."""
    faults = []
    firsts = [next(iter(some)) for some in markers.values() if some]
    if any(len(some) > 1 for some in markers.values()):
        faults.append("a session has more than one marker")
    if not asked.is_isolation() and len(set(firsts)) != len(firsts):
        faults.append("two sessions have the same marker")
    for turns in talks.values():
        turns = sorted(turns, key=lambda pair: pair[0])
        for (_, old), (_, new) in zip(turns, turns[1:]):
            if new[: len(old)] != old or new[len(old)]["role"] != "assistant" or len(new) != len(old) + 2:
                faults.append("a later turn does not go on from the one before")
    return faults
