"""Records and raw records of two runs."""

import collections
import json
import re

from common import equal, keys_of, mask, mask_texts, only, parting, presence
from summary import is_timed


def group_of(record):
    told = record["metadata"]
    end = "cancelled" if told["was_cancelled"] else "error" if record.get("error") else "good"
    return "%s %s" % (told["benchmark_phase"], end)

SHAPES = """x_request_id x_correlation_id conversation_id worker_id record_processor_id benchmark_phase phase_name phase_kind parent_correlation_id
root_correlation_id source_kind""".split()

COUNTED = "turn_index phase_index profiling_index agent_depth was_cancelled context_overflow_skip".split()


def metadata(place, ours, theirs, case, tally):
    yield from keys_of(place, ours, theirs, tally)
    for key in SHAPES:
        sides = [sorted({mask(str(m.get(key))) for m in side}) for side in (ours, theirs)]
        yield from equal("%s/%s/form" % (place, key), *sides)
    if case.get("counts") == "near":
        return
    for key in COUNTED:
        sides = [sorted(str(m.get(key)) for m in side) for side in (ours, theirs)]
        yield from equal("%s/%s" % (place, key), *sides)
    for key in ("x_correlation_id", "x_request_id"):
        yield from equal("%s/distinct %s" % (place, key), *[len({m.get(key) for m in side}) for side in (ours, theirs)])


def record_metrics(place, ours, theirs, case, tally):
    yield from keys_of(place, ours, theirs, tally, in_order=False)
    for tag in presence(ours):
        sides = [[m[tag] for m in side if tag in m] for side in (ours, theirs)]
        if not sides[1]:
            continue
        yield from equal("%s/%s/unit" % (place, tag), *[sorted({v["unit"] for v in side}) for side in sides])
        kinds = [sorted({type(v["value"]).__name__ for v in side}) for side in sides]
        yield from equal("%s/%s/type" % (place, tag), *kinds)
        if is_timed(tag, sides[1][0]["unit"]) or case.get("counts") == "near":
            continue
        values = [sorted(round(v["value"], 9) for v in side if not isinstance(v["value"], list)) for side in sides]
        tally["exact values"] += len(values[0])
        yield from equal("%s/%s/values" % (place, tag), *values)


def records(ours, theirs, case, tally):
    groups = [collections.defaultdict(list) for _ in range(2)]
    for side, lines in zip(groups, (ours, theirs)):
        for record in lines:
            side[group_of(record)].append(record)
    tally["records"] += len(ours)
    if case.get("counts") == "near":
        yield from only("records", groups[0], groups[1])
    else:
        yield from equal("records", *[sorted((k, len(v)) for k, v in side.items()) for side in groups])
        # Which of several requests at a time meets a fault is chance, so these are compared over all.
        for key in ("session_num", "conversation_id"):
            sides = [sorted((r["metadata"]["benchmark_phase"], str(r["metadata"].get(key))) for r in side) for side in (ours, theirs)]
            yield from equal("records/" + key, *sides)
    for group in groups[0]:
        pair = groups[0][group], groups[1].get(group)
        if not pair[1]:
            continue
        place = "records/" + group
        yield from keys_of(place, *pair, tally)
        yield from metadata(place + "/metadata", *[[r["metadata"] for r in side] for side in pair], case, tally)
        yield from record_metrics(place + "/metrics", *[[r["metrics"] for r in side] for side in pair], case, tally)
        for part in ("trace_data", "error", "spec_decode_acceptance"):
            inner = [[r[part] for r in side if part in r] for side in pair]
            if inner[0] and inner[1]:
                yield from keys_of("%s/%s" % (place, part), *inner, tally)
        traces = [[r["trace_data"] for r in side if "trace_data" in r] for side in pair]
        for key in presence(traces[0]) if traces[0] and traces[1] else ():
            kinds = [sorted({type(t.get(key)).__name__ for t in side if key in t}) for side in traces]
            if kinds[1]:
                yield from equal("%s/trace_data/%s/type" % (place, key), *kinds)


def raw_form(record, exact_text):
    """What of a raw record means the same in both runs."""

    def body(value):
        raw = json.dumps(value, ensure_ascii=False).encode()
        return (raw if exact_text else mask_texts(raw)).decode()

    responses = []
    for answer in record.get("responses") or []:
        if "packets" in answer:
            responses.append([list(answer), [[list(p), p.get("name"), p.get("value")] for p in answer["packets"]]])
        else:
            responses.append([list(answer), answer.get("text"), answer.get("content_type")])
    heads = [[k, re.sub(r"[\d.]+", "V", v) if k == "User-Agent" else mask(v)] for k, v in record["request_headers"].items()]
    return {"status": record.get("status"), "request_headers": heads, "responses": responses, "payload": body(record.get("payload"))}


def raw_records(ours, theirs, case, tally):
    groups = [collections.defaultdict(list) for _ in range(2)]
    for side, lines in zip(groups, (ours, theirs)):
        for record in lines:
            side[group_of(record)].append(record)
    tally["raw records"] += len(ours)
    for group in groups[0]:
        pair = groups[0][group], groups[1].get(group)
        if not pair[1]:
            continue
        place = "raw/" + group
        yield from keys_of(place, *pair, tally)
        yield from keys_of(place + "/metadata", *[[r["metadata"] for r in side] for side in pair], tally)
        if case.get("counts") == "near":
            continue
        forms = [[raw_form(r, case.get("texts") == "exact") for r in side] for side in pair]
        for part in ("status", "request_headers", "responses", "payload"):
            sides = [collections.Counter(json.dumps(f[part]) for f in side) for side in forms]
            missing = [sorted((sides[i] - sides[1 - i]).elements()) for i in (0, 1)]
            if missing[0] or missing[1]:
                shown = parting(*[m[0] if m else "none" for m in missing])
                yield "%s/%s" % (place, part), "%d and %d differ; %s" % (len(missing[0]), len(missing[1]), shown)
