"""What two runs of the same command line have in common: requests, files, screens."""

import collections
import csv
import io
import json
import os
import re

from common import Tally, deep, equal, keys_of, mask_texts, only, order, parting, presence
from records import raw_records, records
from screen import FOOT, screen
from summary import slices, summary
from wire import requests


def blocks(raw):
    """Blocks of a CSV, by the first two names of their heads."""
    found, rows = collections.OrderedDict(), None
    for row in csv.reader(io.StringIO(raw.decode("utf-8"), newline="")):
        if not row:
            rows = None
        elif rows is None:
            rows = found.setdefault(" ".join(row[:2]), [])
            rows.append(row)
        else:
            rows.append(row)
    return found


def csv_file(place, ours, theirs, case, tally):
    for name, raw in (("ours", ours), ("AIPerf's", theirs)):
        if raw.count(b"\n") != raw.count(b"\r\n"):
            yield place + "/line ends", name + " are not all CRLF"
    sides = blocks(ours), blocks(theirs)
    yield from only(place + "/block", *sides)
    yield from order(place + "/block", *sides)
    for block in sides[0]:
        if block not in sides[1]:
            continue
        yield from equal("%s/%s/head" % (place, block), sides[0][block][0], sides[1][block][0])
        rows = [{r[0]: r[1:] for r in side[block][1:]} for side in sides]
        tally["rows"] += len(rows[1])
        yield from only(place, rows[0], rows[1])
        yield from order(place, list(rows[0]), list(rows[1]))
        for name in rows[0]:
            if name in rows[1]:
                forms = [[re.sub(r"\d+", "N", cell).lstrip("-") for cell in side[name]] for side in rows]
                yield from equal("%s/%s/form" % (place, name), *forms)


def slices_csv(place, ours, theirs, case, tally):
    sides = [list(csv.reader(io.StringIO(raw.decode("utf-8"), newline=""))) for raw in (ours, theirs)]
    yield from equal(place + "/head", sides[0][0], sides[1][0])
    rows = [presence([{tuple(r[3:6]): 0 for r in side[1:]}]) for side in sides]
    names = [sorted({r[0] for r in side}) for side in rows]
    tally["rows"] += len(rows[1])
    yield from only(place, *names)
    for name in names[0]:
        if name in names[1]:
            stats = [[r[1:] for r in side if r[0] == name] for side in rows]
            yield from equal("%s/%s" % (place, name), *[list(map(list, s)) for s in stats])


def inputs(place, ours, theirs, case, tally):
    tally["keys"] += theirs.count(b'": ')
    masked = [raw if case.get("texts") == "exact" else mask_texts(raw) for raw in (ours, theirs)]
    if masked[0] != masked[1]:
        lines = [raw.split(b"\n") for raw in masked]
        for mine, other in zip(*lines):
            if mine != other:
                yield place, parting(mine.decode(), other.decode())
                return
        yield place, "ours %d lines, AIPerf's %d" % (len(lines[0]), len(lines[1]))


def outputs(place, ours, theirs, case, tally):
    yield from only(place, ours, theirs)
    yield from order(place, ours, theirs)
    pair = ours["data"], theirs["data"]
    yield from keys_of(place + "/data", *pair, tally)
    yield from keys_of(place + "/data/metrics", *[[e["metrics"] for e in side] for side in pair], tally)
    for key in ("session_num", "turn_index", "conversation_id", "response_text"):
        yield from equal("%s/data/%s" % (place, key), *[sorted(str(e.get(key)) for e in side) for side in pair])
    in_turn = [[e["session_num"] for e in side] for side in pair]
    yield from equal(place + "/data/order", *[s == sorted(s) for s in in_turn])


def read(path):
    with open(path, "rb") as file:
        return file.read()


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def files_of(run):
    found = []
    for folder, _, names in os.walk(run.folder):
        found += [os.path.relpath(os.path.join(folder, name), run.folder) for name in names]
    return sorted(f for f in found if not f.startswith(".run"))


def file(name, paths, case, tally):
    """Two files of the same name."""
    base = os.path.basename(name)
    place = name.split("/", 1)[1] if name.startswith("artifacts/") else name
    # The folder of the run has its own entry in the list of files.
    place = place.split("/", 1)[1] if name.startswith("artifacts/") and "/" in place else place
    if base.endswith((".log", "_run.json", ".txt")):
        if base.endswith(".txt"):
            yield from screen("console", *[read(p).decode() for p in paths], case, tally)
        return
    if base.endswith("timeslices.csv"):
        yield from slices_csv(place, *map(read, paths), case, tally)
    elif base.endswith("timeslices.json"):
        yield from slices(place, *[json.loads(read(p)) for p in paths], case, tally)
    elif base.endswith(".csv"):
        yield from csv_file(place, *map(read, paths), case, tally)
    elif base == "inputs.json":
        yield from inputs(place, *map(read, paths), case, tally)
    elif base == "outputs.json":
        yield from outputs(place, *[json.loads(read(p)) for p in paths], case, tally)
    elif base == "phase_manifest.json":
        yield from manifest(place, *[json.loads(read(p)) for p in paths], case, tally)
    elif base.endswith("_raw.jsonl"):
        yield from raw_records(*map(lines_of, paths), case, tally)
    elif base.endswith("network_latency.jsonl"):
        yield from keys_of(place, *map(lines_of, paths), tally)
    elif base.endswith(".jsonl"):
        yield from records(*map(lines_of, paths), case, tally)
    elif base.startswith("."):
        yield from equal(place, *map(lambda p: read(p).decode(), paths))
    elif base.endswith(".json"):
        raws = [read(p) for p in paths]
        yield from equal(place + "/final newline", *[raw.endswith(b"\n") for raw in raws])
        yield from equal(place + "/indent", *[raw.split(b"\n")[1][:4].decode() for raw in raws])
        kind = "summary" if "phases/" not in name else "phase summary"
        yield from summary(kind, *map(json.loads, raws), case, tally)


def manifest(place, ours, theirs, case, tally):
    def mean(path):
        return not path.endswith("_ns") and not (case.get("counts") == "near" and path.endswith("_count"))

    for side in (ours, theirs):
        for phase in side.get("phases", []):
            phase.pop("error_summary", None)
    yield from deep(place, ours, theirs, tally, mean)


def runs(ours, theirs, case, tally):
    """All differences of two runs of a case."""
    yield from equal("exit code", ours.code, theirs.code)
    yield from requests(ours.taken, theirs.taken, case, tally)
    names = [[name for name in files_of(run) if name not in case.get("files", {})] for run in (ours, theirs)]
    tally["files"] += len(names[1])
    yield from only("files", *names)
    for name in names[0]:
        if name in names[1]:
            paths = [os.path.join(run.folder, name) for run in (ours, theirs)]
            yield from file(name, paths, case, tally)
    yield from screen("screen", ours.stdout, theirs.stdout, case, tally)
    feet = [list(dict.fromkeys(FOOT.findall(run.stdout))) for run in (ours, theirs)]
    yield from only("screen/foot", *feet)
    yield from order("screen/foot", *feet)
