"""Summaries of two runs, of phases and slices too."""

import collections
import json
import re

from common import brief, deep, equal, keys_of, only, order

STATISTICS = ["avg", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "min", "max", "std", "count", "sum"]
# Metrics that depend on when something was, though their unit is one of counts.
TIMED = re.compile(r"effective_|active_|tokens_in_flight|http_req_|good|adj_|.*_throughput|.*(latency|duration|_token)$|.*timestamp")
UNTIMED = re.compile(r"(total_)?(error_)?(isl|osl)$|.*_sequence_length$")
# A time may differ by this much, or by this share of the larger one: wrong units show, a busy machine does not.
SLACK_MS = 200.0
SLACK_SHARE = 0.75
# Rates and whole durations say how fast a machine made prompts, too.
RATE_SHARE = 0.95


def is_timed(tag, unit):
    if UNTIMED.match(tag):
        return False
    return "sec" in unit or unit in ("ms", "ns", "s", "us", "KB", "ratio") or bool(TIMED.match(tag))


def metric(place, tag, ours, theirs, case, tally):
    tally["metrics"] += 1
    yield from equal(place + "/unit", ours.get("unit"), theirs.get("unit"))
    stats = [[k for k in side if k in STATISTICS] for side in (ours, theirs)]
    tally["keys"] += len(stats[0]) + 2
    yield from only(place, stats[0], stats[1])
    yield from order(place, stats[0], stats[1])
    unit = theirs.get("unit", "")
    timed = is_timed(tag, unit)
    if case.get("counts") == "near" and not timed:
        return
    for stat in stats[1]:
        if stat not in ours:
            continue
        mine, other = ours[stat], theirs[stat]
        if type(mine) is not type(other):
            yield "%s/%s/type" % (place, stat), "ours %s, AIPerf's %s" % (brief(mine), brief(other))
        if stat == "count" and case.get("counts") != "near":
            yield from equal("%s/count" % place, mine, other)
        elif not timed:
            tally["exact values"] += 1
            if abs(mine - other) > 1e-9 * max(1.0, abs(other)):
                yield "%s/%s" % (place, stat), "ours %r, AIPerf's %r" % (mine, other)
        elif stat == ("p50" if "p50" in theirs else "avg") and tag not in ("min_request_timestamp", "max_response_timestamp", "credit_to_start_latency"):
            if tag.startswith(("effective_", "active_", "tokens_in_flight", "good", "http_req_")) or unit in ("KB", "ratio", "count", "requests", "%"):
                continue
            tally["times"] += 1
            slack = SLACK_MS * {"ms": 1.0, "sec": 1e-3, "s": 1e-3, "ns": 1e6}.get(unit, 0.0)
            share = SLACK_SHARE if unit == "ms" else RATE_SHARE
            if abs(mine - other) > slack + share * max(abs(mine), abs(other)):
                yield "%s/%s" % (place, stat), "ours %r, AIPerf's %r" % (mine, other)

FIXED_ORDER = """schema_version aiperf_version benchmark_id request_throughput request_latency request_count time_to_first_token
time_to_second_token inter_token_latency output_token_throughput output_token_throughput_per_user output_sequence_length
input_sequence_length goodput good_request_count output_token_count reasoning_token_count min_request_timestamp
max_response_timestamp inter_chunk_latency total_output_tokens total_reasoning_tokens benchmark_duration total_isl total_osl
error_request_count error_isl total_error_isl telemetry_data input_config run_info was_cancelled is_complete incomplete_reason
error_summary start_time end_time branch_stats warmup_metrics pooled_spec_decode_acceptance_histogram""".split()


def is_metric(value):
    return isinstance(value, dict) and "unit" in value


def without_place(value):
    """A configuration without the folder that a tool ran in and without the ports of the server."""
    text = re.sub(r'"/[^"]*?/(?:ours|aiperf)/', '"FOLDER/', json.dumps(value, ensure_ascii=False))
    return json.loads(re.sub(r"127\.0\.0\.1:\d+", "HOST", text))


def metrics(place, ours, theirs, case, tally):
    sides = [{k: v for k, v in side.items() if is_metric(v)} for side in (ours, theirs)]
    yield from only(place, sides[0], sides[1])
    for tag, value in sides[0].items():
        if tag in sides[1]:
            yield from metric("%s/%s" % (place, tag), tag, value, sides[1][tag], case, tally)


def summary(place, ours, theirs, case, tally):
    yield from metrics(place, ours, theirs, case, tally)
    plain = [[k for k, v in side.items() if not is_metric(v)] for side in (ours, theirs)]
    tally["keys"] += len(plain[1])
    yield from only(place, plain[0], plain[1])
    fixed = [[k for k in side if k in FIXED_ORDER] for side in (ours, theirs)]
    yield from order(place, fixed[0], fixed[1])
    first_others = [next((i for i, k in enumerate(side) if k not in FIXED_ORDER), len(side)) for side in (ours, theirs)]
    for side, first, who in zip((ours, theirs), first_others, ("ours", "AIPerf's")):
        late = [k for k in list(side)[first:] if k in FIXED_ORDER]
        if late:
            yield place + "/order", "%s has %s behind the others" % (who, ", ".join(late))
    for key in plain[0]:
        if key not in theirs or key in ("benchmark_id", "aiperf_version", "start_time", "end_time"):
            continue
        mine, other = (without_place(side[key]) for side in (ours, theirs))
        if key == "warmup_metrics":
            yield from metrics(place + "/warmup_metrics", mine, other, case, tally)
        elif key == "error_summary":
            yield from errors(place + "/error_summary", mine, other, case, tally)
        else:
            if key == "run_info":
                # What AIPerf writes here cannot be pasted back.
                other["cli_command"] = other["cli_command"].replace("--ui None", "--ui 'none'")
            yield from deep("%s/%s" % (place, key), mine, other, tally, lambda p: not p.endswith("/benchmark_id"))
    for key in ("benchmark_id", "start_time", "end_time"):
        if key in ours and key in theirs:
            shapes = [re.sub(r"[0-9a-f]", "x", side[key]) for side in (ours, theirs)]
            yield from equal("%s/%s/form" % (place, key), *shapes)


def errors(place, ours, theirs, case, tally):
    """Entries by code and type; words are compared where both have the same."""
    sides = [collections.defaultdict(list) for _ in range(2)]
    for side, entries in zip(sides, (ours, theirs)):
        for entry in entries:
            told = entry["error_details"]
            side[(told.get("code"), told.get("type"))].append(entry)
    number = "" if case.get("counts") == "near" else " × %d"
    names = [[("%s %s" % key) + (number and number % sum(e["count"] for e in entries)) for key, entries in side.items()] for side in sides]
    yield from only(place, names[0], names[1])
    for key in sides[0]:
        if key in sides[1]:
            mine, other = sides[0][key][0], sides[1][key][0]
            name = "%s/%s %s" % (place, *key)
            tally["keys"] += 5
            yield from only(name, mine, other)
            yield from only(name + "/error_details", mine["error_details"], other["error_details"])
            yield from equal(name + "/message", mine["error_details"]["message"], other["error_details"]["message"])


def slices(place, ours, theirs, case, tally):
    yield from deep(place + "/input_config", *[without_place(s["input_config"]) for s in (ours, theirs)], tally)
    yield from only(place, ours, theirs)
    yield from order(place, ours, theirs)
    # Whether a slice is whole depends on how long the run took.
    whole = [[{k: v for k, v in s.items() if k != "is_complete"} for s in side["timeslices"]] for side in (ours, theirs)]
    # One in which requests were sent.
    inner = [[s for s in side if "request_latency" in s] for side in whole]
    yield from keys_of(place + "/timeslices", [inner[0][0]], [inner[1][0]], tally, in_order=False)
    for tag, value in inner[0][0].items():
        other = inner[1][0].get(tag)
        if is_metric(value) and other:
            yield from equal("%s/%s" % (place, tag), list(value), list(other))
