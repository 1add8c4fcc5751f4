#!/usr/bin/env python3
"""Trains the small tokenizers of this folder and writes what transformers says about them.

usage: make.py OUT      (made with transformers 5.24.0, tokenizers 0.23.3, jinja2 3.1.6)

Each is one of the kinds that models come with: byte-level BPE with a BOS and a chat template, SentencePiece-style BPE
with byte fallback and merges in the old spelling, Unigram, WordPiece, and a byte-level BPE that lacks bytes."""
import json, os, sys
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

OUT = sys.argv[1]
TEXT = """A load generator asks a server for tokens and stamps every byte that comes back.
The prompt has a length, the answer has a length, and the time to the first token lies between them.
Requests leave on time; what was not measured is absent, never zero or guessed.
The server's answer may be long: 1, 12, 123, 1234 or 12345 tokens, and it may not come at all.
Don't count the words, count the tokens. They're not the same; you'll see, it's what we've said.
def count(text): return len(encode(text))  # the number of ids
for token in tokens: print(token, end=" ")
Der schnelle braune Fuchs springt über den faulen Hund. Größe, Maß und Zahl.
Le garçon a mangé une pêche très mûre à Noël. El niño comió en el jardín mañana.
Быстрая лисица прыгает через ленивую собаку. 素早い茶色の狐が怠け者の犬を飛び越える。
敏捷的棕色狐狸跳过懒狗。 Ο γρήγορος σκύλος. 👩‍💻 and 👍 are one sign each.
""".splitlines() * 4
PROBES = ["", " ", "a", "Hello, world!", "The server's answer may be long.", "don't they'll WE'VE it's", "  two  spaces\tand\ttabs ",
    "line\nline\n\n\nline\r\n", "1 12 123 1234 12345 3.14", "über Größe Maß", "e\u0301 é ﬁ Å", "中文 日本語 한국어", "Быстрая", "👩‍💻👍",
    "<s>x</s>", "a<|role|>b<|end|> c", "<|role|>user\nHi<|end|><|role|>assistant\n", "\u0000\u0004\u007f\u00a0\u3000\u200b", "zzzzqqqq", "#$%&()*+",
    "def count(text): return len(encode(text))", "[CLS] [MASK] unaffable [SEP]", "x\u0004y token\u0013s", "UPPER lower MiXeD"]
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CHATML = ("{%- if messages[0].role != 'system' %}{{- '<|role|>system\\nBe brief.<|end|>' }}{%- endif %}"
    "{%- for m in messages %}\n  {%- if m.role not in ['system', 'user', 'assistant'] %}{{- raise_exception('unknown role ' + m.role) }}{%- endif %}\n"
    "{{- '<|role|>' + m.role + '\\n' + m.content.strip() + '<|end|>' }}\n{%- endfor %}"
    "{%- if tools is not none and tools is iterable %}{{- tools | tojson }}{%- endif %}"
    "{%- if add_generation_prompt %}{{- '<|role|>assistant\\n' }}{%- endif %}")

def save(name, tok, config, template=None, edit=None):
    folder = os.path.join(OUT, name)
    os.makedirs(folder, exist_ok=True)
    data = json.loads(tok.to_str())
    if edit: edit(data)
    json.dump(data, open(os.path.join(folder, "tokenizer.json"), "w"), ensure_ascii=False, separators=(",", ":"))
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", **config}, open(os.path.join(folder, "tokenizer_config.json"), "w"), indent=1)
    if template: open(os.path.join(folder, "chat_template.jinja"), "w").write(template)

def byte_level():
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>", "<s>", "</s>", "<|role|>", "<|end|>", "<|reserved|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    save("byte_level", tok, {"bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "</s>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}, "additional_special_tokens": ["<|role|>", "<|end|>"], "chat_template": CHATML})

def sentencepiece_bpe():
    tok = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tok.train_from_iterator([l for t in TEXT for l in t.split("  ")], trainers.BpeTrainer(vocab_size=760, limit_alphabet=60, special_tokens=["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]))
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    def edit(d):
        d["added_tokens"] = [a for a in d["added_tokens"] if a["id"] < 3]
        d["model"]["merges"] = [" ".join(m) for m in d["model"]["merges"]]
    save("sentencepiece_bpe", tok, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}, "{{ bos_token }}{% for m in messages %}\n{% if m['role'] == 'user' %}\n[INST] {{ m['content'] }} [/INST]\n    {% else %}\n{{ m['content'] }}{{ eos_token }}\n{% endif %}\n{% endfor %}", edit)

def unigram():
    tok = Tokenizer(models.Unigram())
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Metaspace()
    tok.decoder = decoders.Metaspace()
    tok.train_from_iterator(TEXT, trainers.UnigramTrainer(vocab_size=400, unk_token="<unk>", special_tokens=["<pad>", "</s>", "<unk>"]))
    tok.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    save("unigram", tok, {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"})

def wordpiece():
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer()
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    tok.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    tok.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    save("wordpiece", tok, {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]", "pad_token": "[PAD]", "unk_token": "[UNK]"})

def lacks_bytes():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    # As SmolLM2's vocabulary does: these bytes begin no character that its training text had.
    visible = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    hidden = [b for b in range(256) if b not in visible]
    character = {**{b: chr(b) for b in visible}, **{b: chr(256 + i) for i, b in enumerate(hidden)}}
    lacking = {character[b] for b in (0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2)}
    tok.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=400, special_tokens=[], initial_alphabet=sorted(set(character.values()) - lacking)))
    tok.add_special_tokens(["<|endoftext|>", "<|role|>"])
    # The configuration names tokens that the file does not list.
    save("lacks_bytes", tok, {"bos_token": "<|endoftext|>", "eos_token": "<|end|>"})

for make in (byte_level, sentencepiece_bpe, unigram, wordpiece, lacks_bytes): make()

def vectors(name):
    t = AutoTokenizer.from_pretrained(os.path.join(OUT, name))
    ids = [t.encode(p, add_special_tokens=False) for p in PROBES]
    return {"vocab_size": t.vocab_size, "prompt_specials": t.num_special_tokens_to_add(pair=False), "bos": t.bos_token, "eos": t.eos_token,
        "special_ids": sorted(t.all_special_ids), "ids": ids, "texts": [t.decode(i, skip_special_tokens=False, clean_up_tokenization_spaces=False) for i in ids]}

CHATS = [[{"role": "user", "content": "Hello"}], [{"role": "system", "content": "Ünï\ncode"}, {"role": "user", "content": "  padded \n"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "<|end|>c"}]]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "it's <b> & \"ü\"", "parameters": {"z": 1, "a": [1.5, None, True], "e": {}}}}]
chats = []
for name in ("byte_level", "sentencepiece_bpe"):
    t = AutoTokenizer.from_pretrained(os.path.join(OUT, name))
    for messages in CHATS:
        for tools in (None, TOOLS):
            for generation in (False, True):
                text = t.apply_chat_template(messages, tools=tools, add_generation_prompt=generation, tokenize=False)
                chats.append({"tokenizer": name, "messages": messages, "tools": tools, "generation": generation, "text": text, "tokens": len(t.encode(text, add_special_tokens=False))})
json.dump({"probes": PROBES, "tokenizers": {n: vectors(n) for n in ("byte_level", "sentencepiece_bpe", "unigram", "wordpiece", "lacks_bytes")}, "chats": chats},
    open(os.path.join(OUT, "vectors.json"), "w"), ensure_ascii=False, separators=(",", ":"))
