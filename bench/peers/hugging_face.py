"""Validation loss of a safetensors file, by GPT-2 in PyTorch as it follows from Hugging Face's names; one JSON object.

hugging_face.py FOLDER VAL.bin --windows N [--threads N] [--make]

FOLDER has model.safetensors and config.json; with --make it has config.json alone, and PyTorch draws the weights and writes
model.safetensors. The first N windows of the token file are read, as a job's evaluation reads them.
Nothing of Holdfast is in it, and nothing of the safetensors package: the format is 8 bytes of length, a JSON header, the data."""
import argparse
import json
import struct

import numpy
import torch
import torch.nn.functional as F

TYPES = {"F32": (torch.float32, 4), "F16": (torch.float16, 2), "BF16": (torch.bfloat16, 2)}


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            dtype, _ = TYPES[entry["dtype"]]
            tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=dtype).reshape(entry["shape"]).float()
    return tensors


class GPT2:
    """logits(tokens): (B, T) -> (B, T, vocabulary). A Conv1D of theirs is x @ weight + bias, its weight (in, out)."""

    def __init__(self, tensors, config):
        self.tensors, self.config = tensors, config
        assert config["activation_function"] == "gelu_new" and config["tie_word_embeddings"]

    def of(self, name):
        return self.tensors[f"transformer.{name}"]

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.of(f"{name}.weight"), self.of(f"{name}.bias"), self.config["layer_norm_epsilon"])

    def conv1d(self, x, name):
        return x @ self.of(f"{name}.weight") + self.of(f"{name}.bias")

    def attention(self, x, name):
        B, T, C = x.shape
        heads = self.config["n_head"]
        q, k, v = (t.view(B, T, heads, C // heads).transpose(1, 2) for t in self.conv1d(x, f"{name}.c_attn").split(C, 2))
        later = torch.triu(torch.ones(T, T, dtype=torch.bool), 1)
        scores = (q @ k.transpose(-2, -1) / (C // heads) ** 0.5).masked_fill(later, float("-inf"))
        return self.conv1d((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(B, T, C), f"{name}.c_proj")

    def logits(self, tokens):
        x = self.of("wte.weight")[tokens] + self.of("wpe.weight")[:tokens.shape[1]]
        for layer in range(self.config["n_layer"]):
            x = x + self.attention(self.norm(x, f"h.{layer}.ln_1"), f"h.{layer}.attn")
            wide = F.gelu(self.conv1d(self.norm(x, f"h.{layer}.ln_2"), f"h.{layer}.mlp.c_fc"), approximate="tanh")
            x = x + self.conv1d(wide, f"h.{layer}.mlp.c_proj")
        return self.norm(x, "ln_f") @ self.of("wte.weight").t()


def make(path, config):
    """Weights larger than a fresh model's, so that what a layer does shows in the loss. Names in no order of ours."""
    torch.manual_seed(1)
    C, shapes = config["n_embd"], {}
    for layer in range(config["n_layer"]):
        for name, shape in (("ln_1", [C]), ("attn.c_attn", [C, 3 * C]), ("attn.c_proj", [C, C]), ("ln_2", [C]), ("mlp.c_fc", [C, 4 * C]),
                            ("mlp.c_proj", [4 * C, C])):
            shapes[f"h.{layer}.{name}.weight"], shapes[f"h.{layer}.{name}.bias"] = shape, shape[-1:]
    shapes.update({"wte.weight": [config["vocab_size"], C], "wpe.weight": [config["n_positions"], C], "ln_f.weight": [C], "ln_f.bias": [C]})
    header, data = {}, b""
    for name, shape in sorted(shapes.items(), reverse=True):
        weights = torch.randn(shape) * 0.1 + (1 if ".ln_" in name or name.startswith("ln_f") else 0)
        header[f"transformer.{name}"] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + weights.numel() * 4]}
        data += weights.numpy().tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("tokens")
    parser.add_argument("--windows", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--make", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with open(f"{options.folder}/config.json", encoding="utf-8") as file:
        config = json.load(file)
    if options.make:
        make(f"{options.folder}/model.safetensors", config)
    model = GPT2(read_safetensors(f"{options.folder}/model.safetensors"), config)
    length = config["n_positions"]
    ids = torch.from_numpy(numpy.fromfile(options.tokens, dtype="<u2", count=options.windows * length + 1).astype("int64"))
    loss = 0.0
    with torch.no_grad():
        for window in range(options.windows):
            part = ids[window * length:(window + 1) * length + 1]
            logits = model.logits(part[None, :-1])
            loss += F.cross_entropy(logits[0].double(), part[1:]).item() / options.windows
    print(json.dumps({"loss": loss}))


if __name__ == "__main__":
    main()
