#!/usr/bin/env python3
"""How fast and how punctual the load is, beside other clients on the same work, turn and turn about.

    load.py --harness FOLDER --ours target/dist/aiperf [--peers bare,oha,sglrs,aiperf] [--rounds 3] [CASE…]

The harness is a folder with `bench.py`: it runs one client on one core against a server on the other, which keeps the
truth, and prints what it saw as one line of JSON. Its environment (PEERS, MOCK, TOK, SRV_CPU …) is passed on. Each round runs every client
once on every case; what is printed are medians over the rounds, with the lowest and highest of what a goal is about.
`--ours` may be given several times, as NAME=PATH, to hold builds against each other.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

# Requests that make a run long enough to be measured, where the harness's own number is not.
REQUESTS = {"a64": 200_000, "a256": 200_000, "b64": 8_000, "b256": 8_000, "b64k": 16_000, "b64p": 8_000}
SLOW = {"aiperf"}  # keeps the harness's own number
# Cases whose client mostly waits: it goes before the machine's other work, whose share of the idle core means nothing then.
PACED = {"c", "d"}


def at(*keys):
    def value(run):
        for key in keys:
            run = run[key]
        return run

    return value


def error(key):
    """What a client says of itself less what the server saw: record by record where it says it of each."""

    def value(run):
        exact = run["reported"].get(key.replace("_p", "_err_p"))
        return run["reported"][key] - run["true"][key] if exact is None else exact

    return value


def each_chunk(run):
    return (run["cpu_s"] - run["start_cpu_s"]) / (run["true"]["n"] * 128) * 1e6


def each_request(run):
    return (run["cpu_s"] - run["start_cpu_s"]) / run["true"]["n"] * 1e6


SPEED = [("req/s", at("true", "rps"), 0), ("CPU µs a request", each_request, 1)]
CHUNKS = [("CPU µs a chunk", each_chunk, 2), ("chunks/s", at("true", "chunks_per_s"), 0)]
PACE = [
    ("rate", at("true", "achieved_rate"), 1),
    ("KS", at("true", "ks_exp"), 4),
    ("lag p50 ms", at("true", "sched_lag_p50"), 3),
    ("lag p99", at("true", "sched_lag_p99"), 3),
    ("TTFT error p50 ms", error("ttft_p50"), 3),
    ("TTFT error p99", error("ttft_p99"), 3),
    ("latency error p50", error("lat_p50"), 3),
    ("latency error p99", error("lat_p99"), 3),
]
STREAMS = [
    ("held", at("true", "peak_inflight"), 0),
    ("ITL error p50 ms", error("itl_p50"), 3),
    ("ITL error p99", error("itl_p99"), 3),
    ("TTFT error p50", error("ttft_p50"), 2),
    ("TTFT error p99", error("ttft_p99"), 2),
]
MEMORY = [("RSS MB", at("rss_mb"), 0)]
AFTER = [("last answer to exit s", at("last_to_exit_s"), 2)]
COLUMNS = {"a": SPEED, "b": CHUNKS, "c": PACE, "d": STREAMS, "g": AFTER, "m": [*SPEED, *AFTER], "f": [("wall s", at("wall_s"), 2)]}


def run(args, client, case):
    """One run of a client on a case, as the harness tells it; `None` when it failed."""
    tool, binary = client
    env = dict(os.environ)
    if binary:
        env["OURS_BIN"] = str(binary)
    requests = args.requests or REQUESTS.get(case)
    if requests and tool not in SLOW:
        env["N"] = str(requests)
    if case[0] in PACED:
        env["CLI_RT"] = "1"
    command = [sys.executable, str(args.harness / "bench.py"), tool, case]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    try:
        told = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        print(f"{tool} {case}: {done.stderr.strip()[-500:]}", file=sys.stderr)
        return None
    if told["rc"] or told["timed_out"] or not told["true"].get("n"):
        print(f"{tool} {case}: exit code {told['rc']}, timed out: {told['timed_out']}", file=sys.stderr)
        return None
    return told


def number(runs, value, digits):
    """The median, and the range it is of."""
    found = []
    for one in runs:
        try:
            found.append(value(one))
        except (KeyError, TypeError, ZeroDivisionError):
            pass
    found = [x for x in found if x is not None]
    if not found:
        return "–"
    text = f"{statistics.median(found):,.{digits}f}"
    if len(found) > 1:
        text += f" ({min(found):,.{digits}f}–{max(found):,.{digits}f})"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--harness", type=Path, required=True)
    parser.add_argument("--ours", action="append", default=[], metavar="[NAME=]PATH")
    parser.add_argument("--peers", default="bare,oha", help="tools of the harness, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, help="instead of each case's number")
    parser.add_argument("--calm", type=float, default=0.25, help="a run is tried again when others took more of the client's core")
    parser.add_argument("--save", type=Path, help="all runs, a line of JSON each")
    parser.add_argument("cases", nargs="*", default=["a64", "b64"])
    args = parser.parse_args()
    clients = {}
    for ours in args.ours:
        name, _, path = ours.rpartition("=")
        clients[name or "ours"] = ("ours", Path(path).resolve())
    for peer in filter(None, args.peers.split(",")):
        clients[peer] = (peer, None)
    start = {}
    for name, client in clients.items():
        few = run(argparse.Namespace(harness=args.harness, requests=None), client, "f10")
        start[name] = few["cpu_s"] if few and client[0] != "bare" else 0
    runs = {}
    for _ in range(args.rounds):
        for case in args.cases:
            for name, client in clients.items():
                for _ in range(3):
                    one = run(args, client, case)
                    if one is None or case[0] in PACED or one["foreign_cpu"] <= args.calm:
                        break
                if one is None:
                    continue
                one.update(start_cpu_s=start[name], client=name)
                runs.setdefault((case, name), []).append(one)
                if args.save:
                    with args.save.open("a") as file:
                        file.write(json.dumps(one) + "\n")
    for case in args.cases:
        columns = [*COLUMNS.get(case[0], SPEED), *MEMORY]
        print(f"\n| {case} | runs | " + " | ".join(c[0] for c in columns) + " | foreign CPU |")
        print("|---|" + "---:|" * (len(columns) + 2))
        for name in clients:
            mine = runs.get((case, name), [])
            cells = [number(mine, value, digits) for _, value, digits in columns]
            print(f"| {name} | {len(mine)} | " + " | ".join(cells) + f" | {number(mine, at('foreign_cpu'), 2)} |")


if __name__ == "__main__":
    main()
