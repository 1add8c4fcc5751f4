"""Makes tekken/tekken.json, a small vocabulary in the form of Mistral's tekken files, and tekken/vectors.json, what
mistral-common 1.13.1 says of it.

    pip install mistral-common==1.13.1 regex && python make_tekken.py
"""

import base64
import collections
import json
import pathlib

import regex
from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

HERE = pathlib.Path(__file__).parent
PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXT = (
    "The server's answer may be long; don't count the words, count the tokens. A camelCase name and an HTTPServer, 2024 and "
    "12345. der Größe nach, déjà vu, Это не слова, 中文 日本語.\n\n    def f(x):\n        return x // 2\n    # ---- ==== ....\n"
)
USED, LISTED, SPECIALS = 340, 350, 40


def train(count):
    tokens = [bytes([byte]) for byte in range(256)]
    pieces = [[bytes([b]) for b in piece.encode()] for piece in regex.findall(PATTERN, TEXT * 2)]
    while len(tokens) < count:
        pairs = collections.Counter(pair for piece in pieces for pair in zip(piece, piece[1:]))
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        tokens.append(b"".join(best))
        for piece in pieces:
            at = 0
            while at + 1 < len(piece):
                if (piece[at], piece[at + 1]) == best:
                    piece[at : at + 2] = [tokens[-1]]
                at += 1
    return tokens


def main():
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for rank, token in enumerate(train(LISTED))
    ]
    config = {
        "pattern": PATTERN,
        "num_vocab_tokens": LISTED,
        "default_vocab_size": USED + SPECIALS,
        "default_num_special_tokens": SPECIALS,
        "version": "v3",
    }
    path = HERE / "tekken" / "tekken.json"
    path.write_text(json.dumps({"config": config, "vocab": vocab}, separators=(",", ":")))
    tekken = Tekkenizer.from_file(path)
    texts = json.loads((HERE / "tiktoken.json").read_text())["texts"] + [TEXT, "<s>[INST] not special [/INST]</s>"]
    ids = [tekken.encode(text, bos=False, eos=False) for text in texts]
    everything = list(range(tekken.n_words))
    vectors = {
        "vocab_size": tekken.n_words,
        "bos": tekken.bos_id,
        "eos": tekken.eos_id,
        "special_ids": sorted(tekken.special_ids),
        "all_decoded": tekken.decode(everything, SpecialTokenPolicy.KEEP),
        "texts": texts,
        "ids": ids,
    }
    (HERE / "tekken" / "vectors.json").write_text(json.dumps(vectors, separators=(",", ":")))


main()
