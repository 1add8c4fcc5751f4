"""Makes prompts with AIPerf's own classes and says how long that took.

Runs under a Python that has AIPerf installed, with a tokenizer's folder as its only argument. Reads one cell a line from stdin and
answers each with one line of JSON: {"isl": 1024, "kind": "sonnet", "shared": false, "seed": 1, "entries": 10000}.
"""

import json
import sys
import time

from aiperf.common import random_generator
from aiperf.common.tokenizer import Tokenizer
from aiperf.config.dataset.content import PrefixPromptConfig, PromptConfig
from aiperf.dataset.generator.corpus import resolve_prompt_generator

FIRST = 100
SAMPLE = 20
ROUNDS = 3
ROUND_S = 0.5


def digest(texts):
    """FNV-1a over all bytes, as the other side has it."""
    value = 0xCBF29CE484222325
    for text in texts:
        for byte in text.encode():
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return "%016x" % value


def generator_of(cell, tokenizer):
    """What AIPerf's composer would make, in the order it would."""
    asked = {"isl": cell["isl"], "osl": 128}
    if cell["kind"].startswith("random"):
        asked["corpus"] = "random"
        if cell["kind"] == "random-vllm":
            asked["random_range_ratio"] = "0.0"
    else:
        asked["corpus"] = cell["kind"]
    prompts = PromptConfig(**asked)
    shared = PrefixPromptConfig(pool_size=8, length=256) if cell["shared"] else None
    random_generator.reset()
    random_generator.init(cell["seed"])
    generator = resolve_prompt_generator(
        corpus=prompts.corpus, default_corpus=None, prompts=prompts, prefix_prompts=shared, tokenizer=tokenizer
    )
    if cell["kind"] == "random-vllm":
        lengths = prompts.get_sequence_distribution()
        lengths.preseed(cell["entries"], cell["seed"])
        generator.preseed(cell["entries"], lengths._preseed_rng)
    generator.initialize_prefix_pool()
    return generator


def measure(cell, tokenizer):
    isl, shared = cell["isl"], cell["shared"]
    # A range ratio hands over lengths that are drawn; the others are drawn by the generator.
    how = {"exact_length": True} if cell["kind"] == "random-vllm" else {"stddev": 0}
    before = time.process_time()
    generator = generator_of(cell, tokenizer)
    opened = time.process_time()
    texts = [generator.generate(mean=isl, with_prefix=shared, **how) for _ in range(FIRST)]
    first = time.process_time()
    # Beside the clock: what their lengths are.
    asked = isl + (256 if shared else 0)
    exact = sum(len(tokenizer.encode(text, add_special_tokens=False)) == asked for text in texts[:SAMPLE])
    per_prompt = float("inf")
    for _ in range(ROUNDS):
        prompts, start, used = 0, time.process_time(), 0.0
        while used < ROUND_S:
            for _ in range(5):
                generator.generate(mean=isl, with_prefix=shared, **how)
            prompts += 5
            used = time.process_time() - start
        per_prompt = min(per_prompt, used / prompts)
    return {
        "tokens_per_s": asked / per_prompt,
        "prompts_per_s": 1 / per_prompt,
        "open_ms": (opened - before) * 1e3,
        "first_100_ms": (first - opened) * 1e3,
        "sampled": SAMPLE,
        "exact": exact,
        "texts": digest(texts[:SAMPLE]),
    }


def main():
    # What libraries print must not come between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    tokenizer = Tokenizer.from_pretrained(sys.argv[1], resolve_alias=False)
    for line in sys.stdin:
        answers.write(json.dumps(measure(json.loads(line), tokenizer)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
