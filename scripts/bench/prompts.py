#!/usr/bin/env python3
"""How fast prompts are made, beside AIPerf's own classes in the same run. See docs/design/benchmarks.md.

    cargo build --release -p aiperf-bench
    python3 scripts/bench/prompts.py --reference VENV/bin/python --tokenizer FOLDER

Both sides make the same kinds of prompts on one core, turn and turn about; the fastest turn of each counts. Times are CPU times.
"""

import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KINDS = ["sonnet", "coding", "random-vllm", "random-keyed"]
LENGTHS = [128, 1024, 8192]
AROUND = ["bare", "rendered", "marked", "shared"]
SEED = 1
# As many as the bench has: vLLM's draws depend on their number.
ENTRIES = 10000
# Cell: tokens a second, or times the reference's.
RATES = {"sonnet-1024-bare": 50e6, "sonnet-8192-bare": 50e6, "coding-1024-bare": 50e6, "coding-8192-bare": 50e6}
RATIOS = {"random-vllm-8192-bare": 20}


class Reference:
    """AIPerf's classes, in one process that stays."""

    def __init__(self, python, folder):
        # Its offline mode takes folders for names on the hub and does not find them.
        env = {k: v for k, v in os.environ.items() if k not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")}
        command = [python, "-B", os.path.join(HERE, "reference.py"), folder]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)

    def __call__(self, kind, isl, shared):
        cell = {"kind": kind, "isl": isl, "shared": shared, "seed": SEED, "entries": ENTRIES}
        self.process.stdin.write(json.dumps(cell) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the reference ended at %s %d" % (kind, isl))
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def ours(options, cell):
    command = [options.bench, "prompts", cell, "--json", "--tokenizer", options.tokenizer, "--seed", str(SEED)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit("%s ended with %d" % (" ".join(command), done.returncode))
    # A tokenizer without a template has no rendered cells.
    return json.loads(done.stdout) if done.stdout else None


def best(turns):
    """The fastest of each figure."""
    found = dict(turns[0])
    for turn in turns[1:]:
        for key in ("tokens_per_s", "prompts_per_s"):
            found[key] = max(found[key], turn[key])
        for key in ("open_ms", "first_100_ms"):
            found[key] = min(found[key], turn[key])
    return found


def first(figures):
    return figures["open_ms"] + figures["first_100_ms"]


def line(name, cell, theirs, mine):
    # AIPerf picks a prefix by a generator of its own, so only texts without one can be the same.
    same = "–"
    if cell == "random-vllm-%s-bare" % name[1]:
        same = "yes" if theirs["texts"] == mine["texts"] else "NO"
    share = lambda figures: "%d/%d" % (figures["exact"], figures["sampled"])
    return "| %s | %.3f | %.2f | %.0f× | %.0f | %.1f | %s | %s | %s |" % (
        cell,
        theirs["tokens_per_s"] / 1e6,
        mine["tokens_per_s"] / 1e6,
        mine["tokens_per_s"] / theirs["tokens_per_s"],
        first(theirs),
        first(mine),
        share(theirs),
        share(mine),
        same,
    )


def load():
    return " ".join("%.1f" % value for value in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", required=True, help="the Python of a venv with AIPerf in it")
    parser.add_argument("--tokenizer", required=True, help="a tokenizer's folder")
    parser.add_argument("--bench", default=os.path.join(ROOT, "target", "release", "aiperf-bench"))
    parser.add_argument("--only", nargs="*", default=[], help="words that the names of cells hold")
    parser.add_argument("--turns", type=int, default=2, help="of each side and cell")
    parser.add_argument("--core", type=int, default=0)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {options.core})
    reference = Reference(options.reference, options.tokenizer)
    print("load before: %s\n" % load())
    print("| cell | AIPerf, M tokens/s | ours | ratio | AIPerf, first 100 with opening, ms | ours | AIPerf exact | ours | same texts |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|", flush=True)
    goals = []
    for kind in KINDS:
        for isl in LENGTHS:
            known = {}
            for around in AROUND:
                cell = "%s-%d-%s" % (kind, isl, around)
                if not all(word in cell for word in options.only):
                    continue
                # AIPerf makes the same text whether it is rendered and marked or not.
                shared = around == "shared"
                turns = []
                for _ in range(options.turns):
                    if len(known.setdefault(shared, [])) < options.turns:
                        known[shared].append(reference(kind, isl, shared))
                    turns.append(ours(options, cell))
                if None in turns:
                    continue
                theirs, mine = best(known[shared]), best(turns)
                print(line((kind, isl), cell, theirs, mine), flush=True)
                rate, ratio = mine["tokens_per_s"], mine["tokens_per_s"] / theirs["tokens_per_s"]
                if cell in RATES:
                    goals.append((cell, "%.0f M tokens/s" % (rate / 1e6), "%.0f" % (RATES[cell] / 1e6), rate >= RATES[cell]))
                if cell in RATIOS:
                    same = theirs["texts"] == mine["texts"]
                    goals.append((cell, "%.1f×" % ratio, "%d× and the same texts" % RATIOS[cell], same and ratio >= RATIOS[cell]))
                if mine["exact"] != mine["sampled"]:
                    goals.append((cell, "%d exact" % mine["exact"], str(mine["sampled"]), False))
    reference.close()
    print("\nload after: %s\n" % load())
    for cell, found, wanted, met in goals:
        print("%s %s: %s of %s" % ("met   " if met else "MISSED", cell, found, wanted))


if __name__ == "__main__":
    sys.exit(main())
