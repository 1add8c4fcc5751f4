"""What all comparisons share: differences as (place, words), masks, keys and their order.

A place is a path such as `summary/time_to_first_token/count`, without numbers of requests, so that the same difference in many requests is one. `Tally` counts what was
compared.
"""

import collections
import json
import re

from server import REPLY

TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Tally(collections.Counter):
    pass


def mask_texts(raw):
    """Bytes of a body with every text of at least three words in place of its words, but for those that the server wrote."""

    def one(found):
        text = found.group(0)
        if text.count(b" ") < 3 or REPLY.encode() in text[:40]:
            return text
        return b'"<text>"'

    return TEXT.sub(one, raw)


def mask(text):
    """Ids, numbers of ports and counters of a text made alike."""
    text = UUID.sub("<id>", text)
    text = re.sub(r"_[0-9a-f]{8}\b", "_HEX", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST", text)
    return re.sub(r"\d+", "N", text)


def brief(value, width=160):
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= width else text[: width - 1] + "…"


def parting(ours, theirs, width=300):
    """Two texts from a little before where they part."""
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    at = max(0, at - 40)
    return "ours %s, AIPerf's %s" % tuple(("…" if at else "") + brief(text[at:], width) for text in (ours, theirs))


def only(place, ours, theirs):
    """Members of one side alone."""
    for value in ours:
        if value not in theirs:
            yield "%s/%s" % (place, value), "only ours"
    for value in theirs:
        if value not in ours:
            yield "%s/%s" % (place, value), "only AIPerf's"


def order(place, ours, theirs):
    """The order of what both have."""
    mine = [v for v in ours if v in theirs]
    other = [v for v in theirs if v in ours]
    if mine != other:
        yield place + "/order", "ours %s, AIPerf's %s" % (brief(", ".join(map(str, mine))), brief(", ".join(map(str, other))))


def equal(place, ours, theirs):
    if ours != theirs or type(ours) is not type(theirs):
        yield place, "ours %s, AIPerf's %s" % (brief(ours), brief(theirs))


def deep(place, ours, theirs, tally, mean=lambda place: True):
    """Two JSON values, keys in order. `mean` says of a place whether its value means the same in both runs."""
    tally["keys"] += 1
    if isinstance(ours, dict) and isinstance(theirs, dict):
        yield from only(place, ours, theirs)
        yield from order(place, ours, theirs)
        for key in ours:
            if key in theirs:
                yield from deep("%s/%s" % (place, key), ours[key], theirs[key], tally, mean)
    elif isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs) and mean(place):
            yield place, "ours %d entries, AIPerf's %d" % (len(ours), len(theirs))
        for one, other in zip(ours, theirs):
            yield from deep(place + "/*", one, other, tally, mean)
    elif not mean(place):
        if type(ours) is not type(theirs):
            yield place, "ours %s, AIPerf's %s" % (brief(ours), brief(theirs))
    else:
        yield from equal(place, ours, theirs)


def presence(values):
    """Keys of many objects: in all of them, or in some."""
    seen = collections.Counter(k for v in values for k in v)
    return {k: "always" if n == len(values) else "sometimes" for k, n in seen.items()}


def keys_of(place, ours, theirs, tally, in_order=True):
    sides = [presence(side) for side in (ours, theirs)]
    tally["keys"] += len(sides[1])
    yield from only(place, sides[0], sides[1])
    for key, how in sides[0].items():
        if key in sides[1] and how != sides[1][key]:
            yield "%s/%s" % (place, key), "ours %s, AIPerf's %s" % (how, sides[1][key])
    if in_order and ours and theirs:
        yield from order(place, list(max(ours, key=len)), list(max(theirs, key=len)))
