#!/usr/bin/python3
"""A trained model is exported to each format, and what readers of their own find there is the checkpoint's model."""
import io
import json
import os
import sys
import tarfile
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(sys.path[0], "serving"))
import harness  # noqa: E402  (needs the path above)

import formats  # noqa: E402
from trained import TrainedCase  # noqa: E402

VOCABULARY, TOKENS = 512, 400  # the model has tokens that its tokenizer lacks
NAMES_IN_GGUF = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "ln_1": "attn_norm", "attn.c_attn": "attn_qkv",
                 "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}


def name_in_gguf(name):
    part, _, kind = name.rpartition(".")
    if not part.startswith("h."):
        return f"{NAMES_IN_GGUF[part]}.{kind}"
    _, layer, part = part.split(".", 2)
    return f"blk.{layer}.{NAMES_IN_GGUF[part]}.{kind}"


class Export(TrainedCase):
    maxDiff = None
    TOKENS, VOCABULARY = TOKENS, VOCABULARY

    @classmethod
    def train(cls):
        cls.cluster.start_workers("w1")
        cls.job = cls.cluster.submit(**cls.spec(total_steps=20))
        cls.cluster.wait_state(cls.job, "succeeded")

    def export(self, what, dtype="float32", *more):
        folder = os.path.join(self.cluster.folder, f"{what}-{dtype}-{self.id().rpartition('.')[2]}")
        said = self.cluster.cli_json("ckpt", "export", f"job:{self.job}", "--format", what, "--dtype", dtype, "--output", folder, *more)
        self.assertEqual((20, self.job, what, dtype), (said["step"], said["job"], said["format"], said["dtype"]))
        self.assertEqual({file["path"]: file["bytes"] for file in said["files"]},
                         {os.path.join(folder, name): os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)})
        return folder

    def same(self, expected, tensor, name, values=None):
        self.assertEqual(expected.shape, tensor.shape, name)
        self.assertTrue((values or expected.values) == tensor.values, f"{name} has other values")

    def test_all_formats_and_types_have_the_parameters(self):
        master = formats.read_npz(self.export("npz") + "/model.npz")
        self.assertEqual((VOCABULARY, 64), master["wte.weight"].shape)
        for dtype in ("float32", "float16", "bfloat16"):
            hugging_face, metadata = formats.read_safetensors(self.export("safetensors", dtype) + "/model.safetensors")
            llama = formats.Gguf(self.export("gguf", dtype) + "/model.gguf")
            self.assertEqual({"format": "pt"}, metadata)
            self.assertEqual({f"transformer.{name}" for name in master}, set(hugging_face))
            self.assertEqual({name_in_gguf(name) for name in master}, set(llama.tensors))
            for name, tensor in master.items():
                values = tensor.values if dtype == "float32" else formats.rounded(tensor.values, dtype)
                theirs = hugging_face[f"transformer.{name}"]
                self.assertEqual(dtype, theirs.dtype)
                if name.startswith("h.") and len(tensor.shape) == 2:
                    self.assertEqual(tensor.shape, theirs.shape[::-1])
                    self.assertTrue(values == theirs.transposed(), name)
                else:
                    self.same(tensor, theirs, name, values)
                narrow = len(tensor.shape) == 2 and name != "wpe.weight"
                self.assertEqual(dtype if narrow else "float32", llama.tensors[name_in_gguf(name)].dtype)
                self.same(tensor, llama.tensors[name_in_gguf(name)], name, values if narrow else tensor.values)
        half = formats.read_npz(self.export("npz", "float16") + "/model.npz")
        for name, tensor in master.items():
            self.same(tensor, half[name], name, formats.rounded(tensor.values, "float16"))

    def test_the_sizes_and_the_tokenizer_go_along(self):
        folder = self.export("safetensors")
        with open(f"{folder}/config.json", encoding="utf-8") as file:
            config = json.load(file)
        self.assertEqual((["GPT2LMHeadModel"], "gpt2", 2, 2, 64, 64, VOCABULARY, 1),
                         tuple(config[k] for k in ("architectures", "model_type", "n_layer", "n_head", "n_embd", "n_positions", "vocab_size", "eos_token_id")))
        llama = formats.Gguf(self.export("gguf") + "/model.gguf").metadata
        self.assertEqual(("gpt2", 2, 2, 64, 256, 64), tuple(llama[k] for k in ("general.architecture", "gpt2.block_count", "gpt2.attention.head_count",
                         "gpt2.embedding_length", "gpt2.feed_forward_length", "gpt2.context_length")))
        tokens, types, scores = (llama[f"tokenizer.ggml.{k}"] for k in ("tokens", "token_type", "scores"))
        self.assertEqual(("llama", 1, False, False), tuple(llama[f"tokenizer.ggml.{k}"] for k in ("model", "eos_token_id", "add_bos_token", "add_space_prefix")))
        self.assertEqual([VOCABULARY] * 3, [len(tokens), len(types), len(scores)])
        self.assertEqual(["<unk>", "<|endoftext|>", "<0x00>", "<0x01>"], tokens[:4])
        self.assertEqual([2, 3, 6, 6], types[:4])
        self.assertEqual([f"[PAD{i}]" for i in range(TOKENS, VOCABULARY)], tokens[TOKENS:])
        self.assertEqual({5}, set(types[TOKENS:]))

    def test_a_vocabulary_of_bytes_has_no_special_tokens(self):
        data = os.path.join(self.cluster.folder, "bytes")
        self.cluster.cli("data", "prepare", os.path.join(harness.ROOT, "LICENSE"), "--output", data, "--tokenizer", "bytes")
        llama = formats.Gguf(self.export("gguf", "float32", "--tokenizer", data) + "/model.gguf").metadata
        self.assertEqual("rwkv", llama["tokenizer.ggml.model"])
        self.assertEqual(["\\x0a", "0", "A", "\\xff"], [llama["tokenizer.ggml.tokens"][i] for i in (10, 48, 65, 255)])
        self.assertNotIn("tokenizer.ggml.eos_token_id", llama)

    def test_an_export_without_its_tokenizer_says_so_and_gguf_says_what_it_needs(self):
        tokenizer = os.path.join(self.cluster.folder, "data", "tokenizer.model")
        os.rename(tokenizer, tokenizer + ".away")
        self.addCleanup(os.rename, tokenizer + ".away", tokenizer)
        folder = os.path.join(self.cluster.folder, "bare")
        said = self.cluster.cli("ckpt", "export", self.job, "--format", "safetensors", "--output", folder)
        self.assertIn("Without a tokenizer: no tokenizer beside the training file", said)
        self.assertEqual(["config.json", "generation_config.json", "model.safetensors"], sorted(os.listdir(folder)))
        said = self.cluster.cli("ckpt", "export", self.job, "--format", "gguf", "--output", folder, expect=2)
        self.assertIn("GGUF has the tokenizer inside, and there is none: no tokenizer beside the training file", said)
        self.assertIn("give --tokenizer DIR", said)

    def download(self, address, token=None):
        """(name, bytes) of what a browser saves."""
        request = urllib.request.Request(self.cluster.url + address)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=60) as reply:
            data = reply.read()
            self.assertEqual(int(reply.headers["Content-Length"]), len(data))
            return reply.headers["Content-Disposition"].split('"')[1], data

    def downloaded(self, what, dtype):
        """{name: bytes} of the service's file, which comes the same with a token and for a ticket."""
        place = f"/v1/jobs/{self.job}/checkpoints/20/export"
        name, data = self.download(f"{place}?format={what}&dtype={dtype}", self.cluster.token())
        status, ticket = self.cluster.request("POST", place, {"format": what, "dtype": dtype})
        self.assertEqual((201, name, len(data)), (status, ticket["file"], ticket["bytes"]))
        self.assertEqual((name, data), self.download(f"/v1/downloads/{ticket['ticket']}"))
        stem = f"{self.job}-step-20" + ("" if dtype == "float32" else f"-{dtype}")
        if what == "gguf":
            self.assertEqual(f"{stem}.gguf", name)
            return {"model.gguf": data}
        self.assertEqual(f"{stem}-{what}.tar", name)
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            self.assertEqual({stem}, {os.path.dirname(each) for each in archive.getnames()})
            return {os.path.basename(each.name): archive.extractfile(each).read() for each in archive}

    def test_the_service_gives_the_same_files_to_download(self):
        for what, dtype in (("safetensors", "float32"), ("safetensors", "bfloat16"), ("gguf", "float16"), ("npz", "float16")):
            folder, written = self.export(what, dtype), {}
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), "rb") as file:
                    written[name] = file.read()
            self.assertTrue(written == self.downloaded(what, dtype), f"{what} in {dtype}")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.download(f"/v1/jobs/{self.job}/checkpoints/20/export")
        self.assertEqual(401, refused.exception.code)

    def tuned(self, weights, **changes):
        spec = self.cluster.job(self.job)["spec"]
        kept = {name: spec[name] for name in ("train_data_path", "n_layer", "n_embd", "n_head", "vocab_size", "block_size", "batch_size", "dtype")}
        return self.cluster.submit(**{**kept, "init_from": weights, "global_batch_size": 12, "total_steps": 40, "warmup_steps": 5, "learning_rate": 1e-3,
                                      "checkpoint_every": 0, "collective_timeout_s": 10, **changes})

    def hash_of(self, job):
        return self.cluster.wait_state(job, "succeeded")["state_hash"]

    def test_a_job_that_begins_with_it_ends_with_the_same_bits_alone_and_through_a_kill(self):
        weights = self.export("safetensors")
        alone = self.hash_of(self.tuned(weights))
        store = os.path.join(self.cluster.folder, "store")
        first = self.cluster.submit(**{**self.cluster.job(self.job)["spec"], "checkpoint_store": store, "name": "first"})
        self.cluster.wait_state(first, "succeeded")
        self.assertEqual(alone, self.hash_of(self.tuned(f"{store}/{first}@20")), "from the checkpoint itself")
        self.cluster.start_workers("w2", slow_ms=20)
        self.cluster.crawl()
        job = self.tuned(weights, nodes=2)
        self.cluster.wait_step(job, 5)
        self.cluster.kill_worker("w2")
        self.cluster.hurry()
        self.assertEqual(alone, self.hash_of(job))

    def test_weights_of_other_sizes_are_refused_with_the_flags_that_fit(self):
        job = self.tuned(self.export("safetensors", "float16"), n_layer=3)
        self.cluster.wait_event(job, "worker_refused", containing="this model has n_layer 2 and the job 3. Submit with --n_layer 2.")
        self.cluster.cli("stop", job, "--no_checkpoint")

    def test_what_cannot_be_is_refused_in_words(self):
        folder = os.path.join(self.cluster.folder, "data")
        for arguments, words in ((("npz", "--dtype", "bfloat16"), "numpy has no such type"),
                                 (("safetensors", "--tokenizer", "/nowhere"), "holdfast: /nowhere: no such file or folder"),
                                 (("npz",), f"{folder}: has info.json, train.bin, val.bin, which this export does not write"),
                                 (("onnx",), "not in {safetensors,gguf,npz}")):
            said = self.cluster.cli("ckpt", "export", self.job, "--output", folder, "--format", *arguments, expect=2)
            self.assertIn(words, said)


if __name__ == "__main__":
    harness.main()
