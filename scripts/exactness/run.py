#!/usr/bin/env python3
"""The exactness matrix: asks the real program for lengths and counts what arrived a second time with Python transformers.

See README.md beside this file. Needs Python 3.9, npm and pip; nothing else.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import venv

# The folder of the sources stays as it is.
sys.dont_write_bytecode = True

import cells as matrix
import families
import rules

HERE = os.path.dirname(os.path.abspath(__file__))
LEAST = re.compile(r"least possible is (\d+)")
# Longest that one run of the program may take, seconds.
PATIENCE = 180


class Recount:
    """The counting process of a family."""

    def __init__(self, python, family, folder, log):
        self.lock = threading.Lock()
        env = dict(os.environ, TRANSFORMERS_OFFLINE="1", HF_HUB_OFFLINE="1", PYTHONUTF8="1")
        command = [python, "-B", os.path.join(HERE, "recount.py"), folder, *families.END_MARKS[family]]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True, encoding="utf-8", env=env)

    def __call__(self, asked):
        with self.lock:
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the counting process ended; see the log of the family in the work folder")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Server:
    """The simulated server of a family, and what it was sent."""

    def __init__(self, aiperf, folder, capture, log):
        if os.path.exists(capture):
            os.remove(capture)
        command = [aiperf, "sim", "--host", "127.0.0.1", "--port", "0", "--tokenizer", folder]
        command += ["--ttft", "0", "--itl", "0", "--capture", capture]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if not found:
            raise SystemExit("the simulated server did not start: %s" % line)
        self.url = found.group(0)
        self.lock = threading.Lock()
        self.file = open(capture, encoding="utf-8", newline="\n")
        self.rest = ""
        self.lines = collections.defaultdict(dict)

    def taken(self, run, wanted):
        """The captured requests of a run by their ids, as soon as so many are in the file."""
        end = time.monotonic() + 10
        while True:
            with self.lock:
                self.rest += self.file.read()
                whole, _, self.rest = self.rest.rpartition("\n")
                # Not splitlines(): texts hold other characters that Python takes for line ends.
                for text in filter(None, whole.split("\n")):
                    line = json.loads(text)
                    if line["request"] is not None:
                        self.lines[line["headers"].get("x-exactness-run")][line["x_request_id"]] = line
                if len(self.lines[run]) >= wanted or time.monotonic() > end:
                    return self.lines.pop(run, {})
            # The server writes its file beside its work; nothing tells when a line is there.
            time.sleep(0.02)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.file.close()


class Family:
    """Runs the cells of one family."""

    def __init__(self, options, name, folder, python):
        self.options, self.name, self.folder = options, name, folder
        self.log = open(os.path.join(options.work, "%s.log" % name), "w")
        self.count = Recount(python, name, folder, self.log)
        self.server = None

    def refuses(self, roles):
        """The words in which the template refuses messages of these roles, if it does."""
        return self.count({"shape": list(roles)})["refused"]

    def serve(self):
        capture = os.path.join(self.options.work, "%s.capture.jsonl" % self.name)
        self.server = Server(self.options.aiperf, self.folder, capture, self.log)

    def close(self):
        self.count.close()
        if self.server:
            self.server.close()
        self.log.close()

    def profile(self, asked, run):
        """Runs the program: (exit code, its words, records, command)."""
        out = os.path.join(self.options.work, "runs", run)
        shutil.rmtree(out, ignore_errors=True)
        flags = ["--model", self.name, "--tokenizer", self.folder] + asked.flags()
        shown = ["aiperf", "profile", "--url", "URL"] + flags
        command = [self.options.aiperf, "profile", "--url", self.server.url, "--ui", "none", "--artifact-dir", out]
        command += ["-H", "x-exactness-run:" + run] + flags
        # What stands in the caller's environment is no part of a cell.
        env = {k: v for k, v in os.environ.items() if not k.startswith("AIPERF_")}
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, env=env)
        except subprocess.TimeoutExpired:
            return None, "did not end in %d s" % PATIENCE, [], quoted(shown)
        records = []
        path = os.path.join(out, "profile_export.jsonl")
        if os.path.exists(path):
            with open(path, encoding="utf-8", newline="\n") as lines:
                records = [json.loads(line) for line in lines]
        if not self.options.keep:
            shutil.rmtree(out, ignore_errors=True)
        return done.returncode, done.stdout, records, quoted(shown)

    def run(self, cell):
        """Runs a cell; returns its result."""
        result = {"cell": cell, "requests": 0, "exact": 0, "min": 0, "max": 0, "faults": [], "note": ""}
        least_wanted = cell["length"] == "least"
        asked = rules.Asked(cell, 1 if least_wanted else cell["length"])
        code, words, records, command = self.profile(asked, name_of(cell))
        refusal = self.refuses(matrix.roles(cell)) if cell["template"] == "on" else None
        if refusal:
            if code in (0, None) or refusal not in " ".join(words.split()):
                result["faults"].append("the template's refusal is not told: %s" % tail(words))
            result.update(note="refused by the template", command=command)
            return result
        found = LEAST.search(" ".join(words.split()))
        if code not in (0, None) and found:
            least = int(found.group(1))
            result["note"] = "%d refused, least %d" % (asked.length, least)
            result["faults"] += self.refusal_faults(cell, asked, least)
            asked = rules.Asked(cell, asked.at_least(least))
            code, words, records, command = self.profile(asked, name_of(cell))
        result["command"] = command
        result["length"] = asked.length
        if code != 0:
            result["faults"].append("exit code %s: %s" % (code, tail(words)))
        self.check(asked, records, result)
        return result

    def refusal_faults(self, cell, asked, least):
        """Whether a refusal was due: the length named is the least, and one less is refused with the same words."""
        faults = []
        if asked.lowest() >= least:
            faults.append("%d was refused although the least is %d" % (asked.length, least))
        needed = 0
        if cell["template"] == "on":
            roles = ["system", "user"] if matrix.has_system(cell) else ["user"]
            counts = self.count({"messages": [{"role": role, "content": "a"} for role in roles]})
            needed = counts["total"] - sum(counts["bare"]) - counts["wraps"][-1]
        if cell["bust"] != "none":
            digests = [hashlib.sha256(b"%d" % i).hexdigest()[:12] for i in range(40)]
            # The worst digest, all of whose digits are tokens, is hardly among these.
            needed += max(self.count({"prompt": "\n\n[rid:%s]\n\n" % d})["bare"][0] for d in digests) + 6
        if least > needed + 2:
            faults.append("the least is said to be %d; template and marker need no more than %d" % (least, needed))
        if least - 1 > asked.length and cell["spread"] == "fixed":
            below = rules.Asked(cell, least - 1)
            code, words, _, _ = self.profile(below, name_of(cell))
            found = LEAST.search(" ".join(words.split()))
            if code == 0 or not found or int(found.group(1)) != least:
                faults.append("%d is not refused with the least %d: %s" % (least - 1, least, tail(words)))
        return faults

    def check(self, asked, records, result):
        run = name_of(asked.cell)
        lines = self.server.taken(run, len(records))
        wanted = asked.requests() + asked.warmups()
        if len(records) != wanted:
            result["faults"].append("%d records, not %d" % (len(records), wanted))
        if len(lines) != len(records):
            result["faults"].append("%d requests arrived, %d are recorded" % (len(lines), len(records)))
        markers = collections.defaultdict(set)
        talks = collections.defaultdict(list)
        bad = collections.Counter()
        for record in records:
            meta = record["metadata"]
            line = lines.get(meta["x_request_id"])
            if line is None or meta["outcome"] != "completed":
                bad["a request is %s%s" % (meta["outcome"], "" if line else " and never arrived")] += 1
                continue
            body = line["body"]
            messages = None if "prompt" in body else rules.conversation(body)
            counts = self.count({"messages": messages} if messages else {"prompt": body["prompt"]})
            if counts.get("refused"):
                bad["the template refuses what was sent: %s" % counts["refused"]] += 1
                continue
            errors, faults, marker = rules.request_faults(asked, record, line, messages, counts)
            result["requests"] += 1
            result["exact"] += not any(errors.values()) and not faults
            result["min"] = min([result["min"], *errors.values()])
            result["max"] = max([result["max"], *errors.values()])
            bad.update("%s: %+d" % (what, error) for what, error in errors.items() if error)
            bad.update(faults)
            session = (meta["benchmark_phase"], meta["x_correlation_id"])
            if marker:
                markers[session].add(marker)
            if messages:
                talks[session].append((meta["turn_index"], messages))
        result["faults"] += ["%s (%d x)" % pair for pair in bad.items()]
        result["faults"] += rules.session_faults(asked, markers, talks)


def quoted(command):
    return " ".join("'%s'" % word if re.search(r"[^\w./:=,+-]", word) else word for word in command)


def tail(words):
    lines = [line for line in words.splitlines() if line.strip()]
    return " ".join(lines[-3:])[-400:] or "(no words)"


def name_of(cell):
    return "-".join(str(cell[name]) for name in matrix.FACTORS).replace("+", "_")


def make_venv(work):
    """The venv that counts, made once."""
    folder = os.path.join(work, "venv")
    python = os.path.join(folder, "Scripts" if os.name == "nt" else "bin", "python")
    mark = os.path.join(folder, "ready")
    if not os.path.exists(mark):
        print("making a venv with transformers", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        families.run([python, "-m", "pip", "install", "--quiet", "transformers", "jinja2", "tokenizers"])
        open(mark, "w").close()
    return python


def find_aiperf(given):
    root = os.path.dirname(os.path.dirname(HERE))
    for path in [given] if given else [os.path.join(root, "target", "release", "aiperf"), shutil.which("aiperf")]:
        if path and os.path.exists(path):
            return os.path.abspath(path)
    raise SystemExit("no aiperf found; build it (cargo build --release -p aiperf) or pass --aiperf PATH")


class Results:
    """Results so far, one file a family; those of another binary or another set of rules do not count."""

    def __init__(self, folder, identity, fresh):
        self.folder, self.identity, self.fresh = folder, identity, fresh
        os.makedirs(folder, exist_ok=True)
        self.known = {}
        self.lock = threading.Lock()

    def read(self, family):
        path = os.path.join(self.folder, family + ".jsonl")
        if self.fresh and os.path.exists(path):
            os.remove(path)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    one = json.loads(line)
                    if one["identity"] == self.identity:
                        self.known[name_of(one["cell"])] = one

    def is_done(self, cell):
        """What was not exact is tried again."""
        one = self.known.get(name_of(cell))
        return one is not None and not one["faults"]

    def add(self, result):
        result["identity"] = self.identity
        with self.lock:
            self.known[name_of(result["cell"])] = result
            with open(os.path.join(self.folder, result["cell"]["family"] + ".jsonl"), "a", encoding="utf-8") as out:
                out.write(json.dumps(result) + "\n")


def setting(cell):
    if cell["endpoint"] == "completions":
        return "completions"
    return cell["endpoint"] + (", template" if cell["template"] == "on" else ", bare")


def order(cell):
    """Where a cell stands in the tables: by the families, then by the settings as they are listed."""
    return families.ALL.index(cell["family"]), [matrix.FACTORS[name].index(cell[name]) for name in ("endpoint", "template")]


def table(title, key, results):
    """Prints one line for each value of `key`."""
    rows = {}
    for one in sorted(results, key=lambda one: order(one["cell"])):
        row = rows.setdefault(key(one["cell"]), collections.Counter())
        row["cells"] += 1
        row["good"] += not one["faults"]
        row["refused"] += "refused" in one["note"]
        row["requests"] += one["requests"]
        row["exact"] += one["exact"]
        row["min"] = min(row["min"], one["min"])
        row["max"] = max(row["max"], one["max"])
    print("\n%-44s %6s %6s %8s %9s %7s %6s %6s" % (title, "cells", "good", "refused", "requests", "exact", "min", "max"))
    for name, row in rows.items():
        values = tuple(row[k] for k in ("cells", "good", "refused", "requests", "exact", "min", "max"))
        print("%-44s %6d %6d %8d %9d %7d %+6d %+6d" % ((name,) + values))


def report(plan, results):
    """Prints the tables and what was not exact; returns whether all is."""
    done = [results.known[name_of(cell)] for cell in plan if name_of(cell) in results.known]
    table("family x setting", lambda c: "%-14s %s" % (c["family"], setting(c)), done)
    for factor in ("corpus", "bust", "context", "turns", "length", "spread", "endpoint"):
        table(factor, lambda c: str(c[factor]), done)
    table("all", lambda c: "all", done)
    bad = [one for one in done if one["faults"]]
    for one in bad:
        print("\nNOT EXACT: %s %s" % (name_of(one["cell"]), one["note"]))
        for fault in one["faults"]:
            print("  " + fault)
        print("  " + one.get("command", ""))
    left = len(plan) - len(done)
    if left:
        print("\n%d of %d cells are left; the same command goes on with them" % (left, len(plan)))
    return not bad, left


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--aiperf", help="the program [default: target/release/aiperf, then the PATH]")
    add("--work", default=os.path.join(tempfile.gettempdir(), "aiperf-exactness"), help="folder for all that is made [default: %(default)s]")
    add("--only", action="append", default=[], metavar="FAMILY", help="run this family's cells of the same plan; repeatable")
    add("--cells", type=int, default=400, help="most cells of the plan [default: %(default)s]")
    add("--seed", type=int, default=1, help="seed of the choice of cells [default: %(default)s]")
    add("--minutes", type=float, default=30, help="start no cell after this time [default: %(default)s]")
    add("--jobs", type=int, default=2, help="cells at the same time [default: %(default)s]")
    add("--fresh", action="store_true", help="forget earlier results")
    add("--keep", action="store_true", help="keep what the program writes, in WORK/runs")
    add("--match", metavar="WORDS", help="run only cells whose name holds all of these words")
    add("--build", action="store_true", help="only build the tokenizer folders")
    options = parser.parse_args()
    unknown = [name for name in options.only if name not in families.ALL]
    if unknown:
        parser.error("no such family: %s; there are %s" % (", ".join(unknown), ", ".join(families.ALL)))
    options.work = os.path.abspath(options.work)
    return options


def main():
    options = arguments()
    begin = time.monotonic()
    root = os.path.join(options.work, "families")
    os.makedirs(root, exist_ok=True)
    packages = families.Packages(os.path.join(options.work, "packages"))
    folders = {name: families.build(name, packages, root) for name in families.ALL}
    python = make_venv(options.work)
    if options.build:
        return 0
    options.aiperf = find_aiperf(options.aiperf)
    refusing = refusals(options, folders, python)
    plan, covered, possible = matrix.choose(families.ALL, refusing, options.cells, options.seed)
    print("%d cells; %d of %d possible pairs of settings" % (len(plan), covered, possible), flush=True)
    plan = [cell for cell in plan if not options.only or cell["family"] in options.only]
    plan = [cell for cell in plan if all(w in name_of(cell) for w in (options.match or "").split())]
    results = Results(os.path.join(options.work, "results"), identity(options.aiperf), options.fresh)
    # A run that is told to end closes what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ended = threading.Event()
    for name in dict.fromkeys(cell["family"] for cell in plan):
        results.read(name)
        todo = [cell for cell in plan if cell["family"] == name and not results.is_done(cell)]
        if not todo or time.monotonic() - begin >= options.minutes * 60:
            continue
        family = Family(options, name, folders[name], python)
        try:
            family.serve()

            def work(cell):
                if time.monotonic() - begin < options.minutes * 60 and not ended.is_set():
                    results.add(family.run(cell))

            started = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                try:
                    for future in [pool.submit(work, cell) for cell in todo]:
                        future.result()
                except BaseException:
                    ended.set()
                    raise
        finally:
            family.close()
        good = sum(results.is_done(cell) for cell in todo)
        print("%-14s %3d cells, %3d good, %3.0f s" % (name, len(todo), good, time.monotonic() - started), flush=True)
    exact, left = report(plan, results)
    return 1 if not exact else 3 if left else 0


def refusals(options, folders, python):
    """Which shapes of a first request each family's template refuses; asked once and kept."""
    path = os.path.join(options.work, "refusals.json")
    if not os.path.exists(path):
        found = []
        for name in families.ALL:
            family = Family(options, name, folders[name], python)
            shapes = {tuple(matrix.roles({"context": context})) for context in matrix.FACTORS["context"]}
            found += [[name, shape] for shape in sorted(shapes) if family.refuses(shape)]
            family.close()
        with open(path, "w") as out:
            json.dump(found, out)
    with open(path) as kept:
        return {(name, tuple(shape)) for name, shape in json.load(kept)}


def identity(aiperf):
    """What a result depends on: the program and this folder's rules."""
    digest = hashlib.sha256()
    for path in [aiperf] + [os.path.join(HERE, f) for f in ("families.py", "recount.py", "rules.py", "run.py")]:
        with open(path, "rb") as data:
            digest.update(data.read())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
