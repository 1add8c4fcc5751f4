#!/usr/bin/env python3
"""Packs a text into the form that src/corpus reads: pack.py TEXT OUT

Runs of whole lines of at most 64 KiB become one zstd frame each, so that a block can be unpacked without the others. A
skippable frame at the start holds, per block, its packed length, text length and number of words (three little-endian u32).
Every zstd tool unpacks the result to the text. Needs the zstd command.
"""
import struct
import subprocess
import sys

BLOCK = 64 * 1024
TABLE_MAGIC = 0x184D2A50


def blocks(text):
    block = b""
    for line in text.splitlines(keepends=True):
        if len(block) + len(line) > BLOCK:
            yield block
            block = b""
        block += line
    yield block


def main(source, target):
    text = open(source, "rb").read()
    table, out = b"", b""
    for block in blocks(text):
        frame = subprocess.run(["zstd", "-q", "--ultra", "-22"], input=block, capture_output=True, check=True).stdout
        table += struct.pack("<III", len(frame), len(block), len(block.split()))
        out += frame
    head = struct.pack("<II", TABLE_MAGIC, len(table))
    open(target, "wb").write(head + table + out)


main(*sys.argv[1:])
