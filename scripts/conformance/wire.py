"""The requests of two runs."""

import collections
import re

from common import brief, equal, mask, mask_texts, only, order, parting


def header_of(asked, name):
    return next((v for k, v in asked["headers"] if k.lower() == name), "")


def wire_form(asked, exact_text):
    """A request without what differs between any two runs."""
    raw = asked["raw"].encode("latin-1")
    headers = []
    for name, value in asked["headers"]:
        low = name.lower()
        if low == "content-length":
            value = "right" if int(value or 0) == len(raw) else "wrong: %s for %d" % (value, len(raw))
        elif low == "user-agent":
            value = re.sub(r"[\d.]+", "VERSION", value)
        headers.append((name, mask(value) if low != "content-length" else value))
    return {
        "line": "%s %s" % (asked["method"], asked["target"]),
        "headers": headers,
        "body": raw if exact_text else mask_texts(raw),
    }


def requests(ours, theirs, case, tally):
    place = "request"
    apart = [[a for a in side if a["method"] == "POST" and a["known"]] for side in (ours, theirs)]
    others = [sorted({"%s %s" % (a["method"], a["target"]) for a in side if not (a["method"] == "POST" and a["known"])}) for side in (ours, theirs)]
    yield from only("other request", others[0], others[1])
    forms = [[wire_form(a, case.get("texts") == "exact") for a in side] for side in apart]
    tally["requests"] += len(forms[0])
    if len(forms[0]) != len(forms[1]) and case.get("counts") != "near":
        yield place + "/number", "ours %d, AIPerf's %d" % (len(forms[0]), len(forms[1]))
    for part in ("line", "body"):
        sides = [collections.Counter(f[part] for f in side) for side in forms]
        if case.get("counts") == "near":
            sides = [collections.Counter(set(side)) for side in sides]
        missing = [list((sides[i] - sides[1 - i]).elements()) for i in (0, 1)]
        if part == "body":
            tally["bodies"] += len(forms[0])
            tally["equal bodies"] += sum(1 for f in forms[0] if f["body"] in sides[1])
        if missing[0] or missing[1]:
            shown = parting(*[str(sorted(m)[0]) if m else "none" for m in missing])
            yield "%s/%s" % (place, part), "%d and %d differ; %s" % (len(missing[0]), len(missing[1]), shown)
    heads = [{tuple(f["headers"]) for f in side} for side in forms]
    if heads[0] != heads[1] and heads[0] and heads[1]:
        mine, other = sorted(heads[0])[0], sorted(heads[1])[0]
        yield from only(place + "/header", [n for n, _ in mine], [n for n, _ in other])
        yield from order(place + "/header", [n for n, _ in mine], [n for n, _ in other])
        yield from equal(place + "/number of heads", len(heads[0]), len(heads[1]))
        for name in dict(mine):
            sides = [sorted({dict(h).get(name, "") for h in side}) for side in heads]
            if name in dict(other):
                yield from equal("%s/header/%s" % (place, name), *sides)
    tally["headers"] += sum(len(f["headers"]) for f in forms[0])
    if case.get("counts") != "near":
        for name in ("x-request-id", "x-correlation-id", "x-session-affinity"):
            yield from equal("%s/distinct/%s" % (place, name), *[len({header_of(a, name) for a in side}) for side in apart])
        ports = [sorted(collections.Counter(a["port"] for a in side).items()) for side in apart]
        yield from equal(place + "/servers", *ports)
    same = [sorted({header_of(a, "x-correlation-id") == header_of(a, "x-session-affinity") for a in side}) for side in apart]
    yield from equal(place + "/affinity is correlation", *same)
