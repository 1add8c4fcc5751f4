#!/usr/bin/env python3
"""Runs the same command lines with AIPerf and with ours against one scripted server, and tells where they differ.

See README.md beside this file. Needs Python 3.9 and the two programs; nothing else.
"""

import argparse
import base64
import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

# The folder of the sources stays as it is.
sys.dont_write_bytecode = True

import cases
import compare
import expected
import server as scripted

HERE = os.path.dirname(os.path.abspath(__file__))
# Longest that one run of a program may take, seconds.
PATIENCE = 240


class Run:
    """What a program did with a command line: exit code, screen, requests, files below `folder`."""

    def __init__(self, folder):
        self.folder = folder
        with open(folder + ".run.json", encoding="utf-8") as file:
            told = json.load(file)
        self.code, self.stdout, self.stderr, self.taken, self.digest = (told[k] for k in ("code", "stdout", "stderr", "taken", "digest"))


def digest_of(binary, options, files, urls, mode):
    """Names what a run depends on, but for the ports."""
    text = json.dumps([binary, options, files, mode])
    for i, url in enumerate(urls):
        text = text.replace(url, "url%d" % i)
    with open(os.path.join(HERE, "server.py"), "rb") as file:
        return hashlib.sha256(file.read() + text.encode()).hexdigest()


def known(asked):
    return asked.target.partition("?")[0] in scripted.APIS or asked.target == "/nope"


def run(binary, name, folder, server):
    """Runs a program in a folder of its own and keeps everything beside it."""
    asked = cases.CASES[name]
    options = cases.command(name, server.urls())
    digest = digest_of(binary, options, asked.get("files", {}), server.urls(), asked["mode"])
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for file_name, text in asked.get("files", {}).items():
        path = os.path.join(folder, file_name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        is_packed = text.startswith(cases.PACKED)
        content = base64.b64decode(text[len(cases.PACKED) :]) if is_packed else text.replace("@URL@", server.urls()[0]).encode()
        with open(path, "wb") as file:
            file.write(content)
    server.begin(asked["mode"])
    at = os.path.abspath(folder)
    environment = dict(os.environ, COLUMNS="140", NO_COLOR="1", HF_HUB_CACHE=os.path.join(at, "hub"), PYTHONPATH=os.path.join(at, "site"))
    try:
        done = subprocess.run([binary, *options], cwd=folder, env=environment, capture_output=True, timeout=PATIENCE)
        code, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        code, out, err = "none after %d s" % PATIENCE, late.stdout or b"", late.stderr or b""
    ports = {url.rpartition(":")[2]: i for i, url in enumerate(server.urls())}
    told = {"code": code, "stdout": out.decode("utf-8", "replace"), "stderr": err.decode("utf-8", "replace"), "digest": digest}
    told["taken"] = [
        {"method": a.method, "target": a.target, "headers": a.headers, "raw": a.raw.decode("latin-1"), "port": ports[str(a.port)], "known": known(a)}
        for a in list(server.taken)
    ]
    with open(folder + ".run.json", "w", encoding="utf-8") as file:
        json.dump(told, file)
    return Run(folder)


def kept(binary, name, folder, server):
    """An earlier run of the same, if there is one."""
    asked = cases.CASES[name]
    digest = digest_of(binary, cases.command(name, server.urls()), asked.get("files", {}), server.urls(), asked["mode"])
    try:
        earlier = Run(folder)
    except (OSError, ValueError, KeyError):
        return None
    # One that sent nothing may have failed for a reason that is gone.
    return earlier if earlier.digest == digest and earlier.taken else None


def reason_for(case, place, words, used):
    for i, (names, places, texts, reason) in enumerate(expected.EXPECTED):
        if fnmatch.fnmatchcase(case, names) and re.fullmatch(places, place) and re.search(texts, words):
            used.add(i)
            return reason
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ours", required=True, metavar="BIN", help="our program")
    parser.add_argument("--aiperf", required=True, metavar="BIN", help="AIPerf 0.13.0")
    parser.add_argument("--work", metavar="FOLDER", help="where runs are kept; a temporary folder unless told otherwise")
    parser.add_argument("--again", action="store_true", help="run AIPerf again where an earlier run of the same case is kept")
    parser.add_argument("--expected", action="store_true", help="show the expected differences too, with their reasons")
    parser.add_argument("cases", nargs="*", help="names or patterns of cases; all unless given")
    given = parser.parse_args()
    chosen = [n for n in cases.CASES if not given.cases or any(fnmatch.fnmatchcase(n, p) for p in given.cases)]
    if not chosen:
        raise SystemExit("no case is called %s; there are: %s" % (", ".join(given.cases), ", ".join(cases.CASES)))
    work = os.path.abspath(given.work or os.path.join(tempfile.gettempdir(), "aiperf-conformance"))
    binaries = [shutil.which(b) or os.path.abspath(b) for b in (given.ours, given.aiperf)]
    server = scripted.Server()
    tally, used, unexpected, meant = compare.Tally(), set(), 0, 0
    for name in chosen:
        begun = time.monotonic()
        folders = [os.path.join(work, name, who) for who in ("ours", "aiperf")]
        theirs = None if given.again else kept(binaries[1], name, folders[1], server)
        theirs = theirs or run(binaries[1], name, folders[1], server)
        ours = run(binaries[0], name, folders[0], server)
        found = list(dict.fromkeys(compare.runs(ours, theirs, cases.CASES[name], tally)))
        left = []
        for place, words in found:
            reason = reason_for(name, place, words, used)
            meant += reason is not None
            if reason is None:
                left.append((place, words))
            elif given.expected:
                print("    %s: %s (%s)" % (place, words, reason))
        unexpected += len(left)
        print("%-36s %5.1f s  %d differences, %d unexpected" % (name, time.monotonic() - begun, len(found), len(left)), flush=True)
        for place, words in left:
            print("    %s: %s" % (place, words), flush=True)
    server.close()
    print("%d cases; %s" % (len(chosen), ", ".join("%d %s" % (n, what) for what, n in sorted(tally.items()))))
    print("%d expected differences, %d unexpected" % (meant, unexpected))
    if len(chosen) == len(cases.CASES):
        still = {expected.EXPECTED[i][1:] for i in used}
        for entry in dict.fromkeys(entry[1:] for entry in expected.EXPECTED):
            if entry not in still:
                print("did not come up: %s %s (%s)" % entry)
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
