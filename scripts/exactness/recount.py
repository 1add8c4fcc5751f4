"""Counts requests as a server of the model would, with Python transformers. Runs in the venv that run.py makes.

usage: recount.py FOLDER REPLY_END USER_END
Reads one JSON object a line on stdin, answers each with one on stdout:
  {"shape": [roles]}        -> {"refused": words or null}: whether the template takes messages of these roles
  {"prompt": text}          -> {"total", "bare"}
  {"messages": [...], ...}  -> {"total", "bare", "wraps" or "turn"}, see `chat`
A template that refuses a request answers {"refused": words}.
"""

import json
import sys
import warnings

from jinja2.exceptions import TemplateError
from transformers import AutoTokenizer

# Contents that a message's own cost is measured with. More than one, for a template of plain text lets a content merge with
# what stands beside it, and then its cost is not one number.
SAMPLES = ["Some plain words.", "the word", "Zebra and 12"]


# Stands for a content to find its place; part of no template.
PLACE = "QzPlaceQz"

class Counter:
    def __init__(self, folder, reply_end, user_end):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.reply_end = reply_end
        self.user_end = user_end
        self.known = {}

    def render(self, messages, more, generation=True):
        return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generation, **more)

    def bare(self, text):
        return len(self.tokenizer.encode(text, add_special_tokens=False))

    def total(self, messages, more):
        """Tokens of a request, both ways that servers count it: in one step, and rendered first."""
        text = self.render(messages, more)
        rendered = self.bare(text)
        whole = self.tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, **more)
        whole = len(whole["input_ids"] if hasattr(whole, "keys") else whole)
        if whole != rendered:
            raise SystemExit("transformers disagrees with itself: %d and %d tokens of %r" % (whole, rendered, text[:200]))
        return rendered

    def of_samples(self, more, roles):
        key = (tuple(roles), json.dumps(more, sort_keys=True))
        if key not in self.known:
            self.known[key] = [self.total([{"role": r, "content": s} for r in roles], more) for s in SAMPLES]
        return self.known[key]

    def wraps(self, messages, more):
        """What the system message and the user context before the first turn add beside their contents: all sums that can be
        meant. One number unless contents merge with the template's text."""
        roles = []
        for message in messages:
            roles.append(message["role"])
            if len(roles) > 1 and roles[-1] == "user" and (len(roles) == len(messages) or messages[len(roles)]["role"] != "user"):
                break
        bare = [self.bare(s) for s in SAMPLES]
        sums = {0}
        actual = 0
        contents = messages[: len(roles)]
        if roles[0] == "system":
            with_it = self.of_samples(more, ["system", "user"])
            if self.has_default_system(more):
                # The template's own system message makes way for the first one; a second one shows what one costs.
                twice = self.of_samples(more, ["system", "system", "user"])
                own = [c - b - n for c, b, n in zip(twice, with_it, bare)]
                actual = None
            else:
                own = [c - b - n for c, b, n in zip(with_it, self.of_samples(more, ["user"]), bare)]
                user = contents[-1:]
                actual = self.total(contents[:1] + user, more) - self.total(user, more) - self.bare(contents[0]["content"])
            sums = set(own) | ({actual} if actual is not None else set())
        if roles[-2:] == ["user", "user"]:
            with_it = self.of_samples(more, roles)
            own = [c - b - n for c, b, n in zip(with_it, self.of_samples(more, roles[:-2] + ["user"]), bare)]
            full = self.total(contents, more) - self.total(contents[:-2] + contents[-1:], more)
            own.append(full - self.bare(contents[-2]["content"]))
            sums = {a + b for a in sums for b in own}
        return sorted(sums)

    def has_default_system(self, more):
        """Whether the template has a system message of its own that makes way for the caller's: what stands before the first
        user message is not found again when a caller's stands there, too."""
        key = "default:" + json.dumps(more, sort_keys=True)
        if key not in self.known:
            head = self.render([{"role": "user", "content": "QuX"}], more).split("QuX")[0]
            full = self.render([{"role": "system", "content": "SyZ"}, {"role": "user", "content": "QuX"}], more).split("QuX")[0]
            front, _, back = full.partition("SyZ")
            same = 0
            while same < min(len(head), len(full)) and head[same] == full[same]:
                same += 1
            rest = head[same:]
            while rest and not full.endswith(rest):
                rest = rest[1:]
            self.known[key] = same + len(rest) < len(head)
        return self.known[key]

    def turn(self, messages, more):
        """Tokens of the last user message's part of the request: behind the end mark of the reply before it, up to and with
        its own end mark."""
        content = messages[-1]["content"]
        first = messages[0]
        text = self.render(messages, more)
        # A short content can stand in the template itself, so its place is found with another in it.
        at = self.render(messages[:-1] + [dict(messages[-1], content=PLACE)], more).rfind(PLACE)
        if not text.startswith(content, at):
            content = content.strip()
        if not text.startswith(content, at):
            raise SystemExit("the last turn is not where its place is in the rendered request")
        begin = text.rfind(self.reply_end, 0, at)
        if at < 0 or begin < 0:
            raise SystemExit("the last turn is not found in the rendered request")
        begin += len(self.reply_end)
        if first["role"] == "system" and text.find(first["content"].strip(), begin) >= 0:
            # A template that moves the system message to the last turn: it is no part of what the turn asks for.
            return self.turn(messages[1:], more)
        end = at + len(content)
        if self.user_end:
            end = text.find(self.user_end, end) + len(self.user_end)
        spans = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        # Zero-width pieces belong to what they stand before.
        return sum(1 for start, _ in spans if begin <= start < end)

    def chat(self, messages, more):
        """Of a chat request: tokens in all, of each content alone, and of a first request what the messages before its turn
        cost beside their contents, of a later one the last turn's part."""
        answer = {"total": self.total(messages, more), "bare": [self.bare(m["content"]) for m in messages]}
        if any(m["role"] == "assistant" for m in messages):
            answer["turn"] = self.turn(messages, more)
        else:
            answer["wraps"] = self.wraps(messages, more)
        return answer

    def answer(self, asked):
        if "shape" in asked:
            self.render([{"role": role, "content": "word"} for role in asked["shape"]], {})
            return {"refused": None}
        if "prompt" in asked:
            text = asked["prompt"]
            return {"total": len(self.tokenizer.encode(text)), "bare": [self.bare(text)]}
        more = dict(asked.get("chat_template_kwargs") or {})
        if asked.get("tools"):
            more["tools"] = asked["tools"]
        return self.chat(asked["messages"], more)


def main():
    warnings.filterwarnings("ignore")
    counter = Counter(*sys.argv[1:4])
    for line in sys.stdin:
        try:
            answer = counter.answer(json.loads(line))
        except TemplateError as error:
            answer = {"refused": str(error)}
        print(json.dumps(answer), flush=True)


main()
