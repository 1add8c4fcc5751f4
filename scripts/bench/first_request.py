#!/usr/bin/env python3
"""From the program's start to its first request, beside AIPerf's. See docs/design/benchmarks.md.

    cargo build --release -p aiperf
    python3 scripts/bench/first_request.py --reference VENV/bin/aiperf --tokenizer FOLDER

Both send to one simulated server. The time is from the start of the process to `request_start_ns` of the earliest record.
"""

import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Longest that one run may take, seconds.
PATIENCE = 900
EXTRA = [
    ("bare", []),
    ("--apply-chat-template", ["--apply-chat-template"]),
    ("--cache-bust first_turn_prefix", ["--cache-bust", "first_turn_prefix"]),
    ("both", ["--apply-chat-template", "--cache-bust", "first_turn_prefix"]),
]


def measure(program, options, url, extra):
    """Seconds to the first request, seconds of the whole run, CPU seconds, largest resident set in MiB."""
    out = tempfile.mkdtemp(dir=options.work)
    command = [program, "profile", "--model", "demo", "--url", url, "--endpoint-type", "chat", "--streaming"]
    command += ["--tokenizer", options.tokenizer, "--isl", str(options.isl), "--osl", "1", "--random-seed", "1"]
    command += ["--num-dataset-entries", str(options.entries), "--request-count", str(options.requests)]
    command += ["--concurrency", "16", "--ui", "none", "--artifact-dir", out, "--prompt-corpus", options.corpus] + extra
    env = {k: v for k, v in os.environ.items() if k not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")}
    log = os.path.join(out, "log")
    with open(log, "w") as words:
        start = time.time()
        process = subprocess.Popen(command, stdout=words, stderr=subprocess.STDOUT, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        took = time.time() - start
    process.returncode = os.waitstatus_to_exitcode(status) if hasattr(os, "waitstatus_to_exitcode") else status
    if process.returncode:
        with open(log) as words:
            return None, words.read().strip().splitlines()[-1:]
    starts = []
    for path in glob.glob(os.path.join(glob.escape(out), "**", "profile_export.jsonl"), recursive=True):
        with open(path, encoding="utf-8", newline="\n") as lines:
            starts += [json.loads(line)["metadata"]["request_start_ns"] for line in lines]
    cpu = usage.ru_utime + usage.ru_stime
    return (min(starts) / 1e9 - start, took, cpu, usage.ru_maxrss / 1024), None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", help="the aiperf of a venv")
    parser.add_argument("--tokenizer", required=True, help="a tokenizer's folder")
    parser.add_argument("--aiperf", default=os.path.join(ROOT, "target", "release", "aiperf"))
    parser.add_argument("--entries", type=int, default=10000)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--isl", type=int, default=1024)
    parser.add_argument("--corpus", default="sonnet")
    parser.add_argument("--turns", type=int, default=5, help="of ours; the reference has one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as options.work:
        command = [options.aiperf, "sim", "--port", "0", "--ttft", "0", "--itl", "0", "--tokenizer", options.tokenizer]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            url = re.search(r"http://\S+", server.stdout.readline()).group(0)
            print("| %d × %d tokens, %s | first request, s | turns, s | CPU of the run, s | peak, MiB |" % (options.entries, options.isl, options.corpus))
            print("|---|---:|---|---:|---:|", flush=True)
            for name, extra in EXTRA:
                sides = [("ours", options.aiperf, options.turns)]
                if options.reference:
                    sides.append(("AIPerf", options.reference, 1))
                for side, program, turns in sides:
                    done = [measure(program, options, url, extra) for _ in range(turns)]
                    wrong = [words for found, words in done if found is None]
                    if wrong:
                        print("| %s, %s | – | %s | – | – |" % (side, name, " ".join(wrong[0])), flush=True)
                        continue
                    found = sorted(figures for figures, _ in done)
                    each = ", ".join("%.2f" % figures[0] for figures in found)
                    middle = found[len(found) // 2]
                    print("| %s, %s | %.2f | %s | %.2f | %.0f |" % (side, name, middle[0], each, middle[2], middle[3]), flush=True)
        finally:
            server.terminate()
            server.wait()
    print("\nload: %s" % " ".join("%.1f" % value for value in os.getloadavg()))


if __name__ == "__main__":
    sys.exit(main())
