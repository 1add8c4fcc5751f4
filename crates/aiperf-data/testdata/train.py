#!/usr/bin/env python3
"""Trains the small vocabularies beside it: zstd -dc ../corpus/sonnet.zst | python3 train.py   (package tokenizers 0.23.3)

One for each way in which a vocabulary can treat the start of a text and the spaces between words.
"""
import json
import sys

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

lines = sys.stdin.read().split("\n")[:6000]
bytes_alphabet = pre_tokenizers.ByteLevel.alphabet()


def save(name, tokenizer, trainer, text=lines):
    tokenizer.train_from_iterator(text, trainer)
    tokenizer.save(name + ".json", pretty=False)
    with open(name + ".json") as f:
        data = json.load(f)
    # Byte tokens are ordinary ones; the trainer knows no other way to make room for them.
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    with open(name + ".json", "w") as f:
        json.dump(data, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


# GPT-2's kind: bytes, cut before each space.
t = Tokenizer(models.BPE())
t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
t.decoder = decoders.ByteLevel()
save("byte_level", t, trainers.BpeTrainer(vocab_size=700, initial_alphabet=bytes_alphabet, show_progress=False))

# The same with a BOS token.
t = Tokenizer(models.BPE())
t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
t.decoder = decoders.ByteLevel()
save("with_bos", t, trainers.BpeTrainer(vocab_size=400, initial_alphabet=bytes_alphabet, special_tokens=["<s>"], show_progress=False))
t = Tokenizer.from_file("with_bos.json")
t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", t.token_to_id("<s>"))])
t.save("with_bos.json", pretty=False)

# Llama 2's kind: a mark before the text and in place of each space, whole text merged at once.
t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
specials = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
words = (word for line in lines for word in line.split())
save("prepend", t, trainers.BpeTrainer(vocab_size=900, special_tokens=specials, show_progress=False), words)

# No cut at all: merges run over spaces.
t = Tokenizer(models.BPE(unk_token="<unk>"))
t.decoder = decoders.Fuse()
save("over_spaces", t, trainers.BpeTrainer(vocab_size=700, special_tokens=["<unk>"], show_progress=False))

# T5's kind: pieces chosen by likelihood.
t = Tokenizer(models.Unigram())
t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
t.decoder = decoders.Metaspace()
save("unigram", t, trainers.UnigramTrainer(vocab_size=700, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False))

# BERT's kind: lower case, words and their continuations.
t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
t.normalizer = normalizers.BertNormalizer(lowercase=True)
t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
t.decoder = decoders.WordPiece()
save("word_piece", t, trainers.WordPieceTrainer(vocab_size=700, special_tokens=["[UNK]"], show_progress=False))
