"""A trained model in other programs' hands: PyTorch's loss of the safetensors file, llama.cpp's text of the GGUF file."""
import json
import os
import struct

import testbed
from cases import memory

TITLE = "A model exported to other programs: the same loss, the same text"
LAYERS, CHANNELS, HEADS, BLOCK, BATCH, EVALUATED = 3, 128, 4, 128, 8, 16
STEPS, QUICK_STEPS, TOKENS = 300, 60, 32
VOCABULARIES = {"bpe": 2048, "bytes": 256, "gpt2": 50257}
PROMPTS = ("The function", "DESCRIPTION\n", "returns the")
GPT2 = os.path.join(testbed.ROOT, "bench", "peers", "node_modules", "gpt-tokenizer", "data", "r50k_base.tiktoken")
MODULES = os.path.expanduser("~/.cache/holdfast/llama/node_modules")
NOTE = ("{layers} layers, {channels} channels, blocks of {block} tokens, trained {steps} steps in float32 on Debian's manual pages. Loss: of the first "
        "{windows} windows of the validation file, by this job's own evaluation and by GPT-2 in PyTorch as it follows from Hugging Face's names "
        "(bench/peers/hugging_face.py); at most 1e-4 (100 millionths) in float32, or the case fails. Text: {tokens} tokens after each of {prompts} prompts, the likeliest each "
        "time, `holdfast sample` beside llama.cpp (node-llama-cpp {version}); all of them the same in float32, or "
        "the case fails. Tokens: of manual pages and some rarer characters, as `holdfast data prepare` and llama.cpp cut them; none may differ. "
        "int8, int4: of the whole validation file; 0.5 and 5 % at most, or the case fails. "
        "Memory: of a checkpoint in a folder; the floor is the largest tensor in float32.")
LOSS_APART_MAX = 1e-4
APART_MAX = {"int8": 0.005, "int4": 0.05}  # by the weights' bits: loss above bfloat16's, of 1
LARGEST_TENSOR_MB = 50257 * 768 * 4 / 1e6


def prepared(folder, tokenizer):
    """A folder that `data prepare` wrote of the demo's English text."""
    text = os.path.join(folder, "text")
    if not os.path.exists(text):
        testbed.output_of([os.path.join(testbed.ROOT, "ops", "demo_text"), "english", text])
    data = os.path.join(folder, tokenizer)
    named = f"gpt2:{GPT2}" if tokenizer == "gpt2" else tokenizer
    testbed.output_of([f"{testbed.BIN}/holdfast", "data", "prepare", text, "--output", data, "--tokenizer", named, "--vocab_size", 2048])
    return data


def train(cluster, data, vocabulary, steps, **changes):
    """The job, its validation loss after the last step."""
    spec = dict(train_data_path=f"{data}/train.bin", valid_data_path=f"{data}/val.bin", n_layer=LAYERS, n_embd=CHANNELS, n_head=HEADS,
                vocab_size=vocabulary, block_size=BLOCK, batch_size=BATCH, global_batch_size=BATCH, total_steps=steps, warmup_steps=20,
                learning_rate=3e-3, min_lr=3e-4, dtype="float32", seed=1, eval_every=steps, eval_microbatches=EVALUATED, checkpoint_every=steps)
    job = cluster.submit(**{**spec, **changes})
    cluster.wait_state(job, "succeeded", timeout_s=900)
    points = cluster.get(f"/v1/jobs/{job}/metrics?limit=1000")["metrics"]
    return job, [point["validation_loss"] for point in points if point["validation_loss"] is not None][-1]


def export(cluster, job, what, dtype):
    folder = os.path.join(cluster.folder, f"{job}-{what}-{dtype}")
    cluster.cli("ckpt", "export", f"job:{job}", "--format", what, "--dtype", dtype, "--output", folder)
    return folder


def loss_in_torch(folder, data, *more):
    return testbed.peer_script("hugging_face.py", folder, f"{data}/val.bin", "--windows", EVALUATED * BATCH, *more, setup=testbed.PEER.setups[-1])[-1]["loss"]


def row_of_import(cluster, data, vocabulary, note):
    """PyTorch's weights in a job that learns nothing: its first loss beside PyTorch's."""
    folder = os.path.join(cluster.folder, "made")
    os.makedirs(folder)
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": LAYERS, "n_embd": CHANNELS, "n_head": HEADS, "vocab_size": vocabulary,
              "n_positions": BLOCK, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True}
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)
    theirs = loss_in_torch(folder, data, "--make")
    _, ours = train(cluster, data, vocabulary, 1, init_from=folder, warmup_steps=1, learning_rate=1e-12, min_lr=0)
    if abs(ours - theirs) > LOSS_APART_MAX:
        raise SystemExit(f"bench/run exchange: with PyTorch's weights the loss is {ours:.6f} here and {theirs:.6f} there")
    return testbed.row(f"PyTorch's weights by --init_from: loss here less loss there, {theirs:.4f}", "millionths", (ours - theirs) * 1e6, note=note)


def installed_version():
    try:
        with open(os.path.join(MODULES, "node-llama-cpp", "package.json"), encoding="utf-8") as file:
            return json.load(file)["version"]
    except OSError:
        return None


def llama(model, prompt, tokens):
    script = os.path.join(testbed.ROOT, "bench", "peers", "llama", "generate.mjs")
    return json.loads(testbed.output_of(["node", script, MODULES, model, prompt, tokens]))


def tokens_apart(cluster, data, model):
    """(ids of a text, the number of those that llama.cpp has otherwise). Documents end with an id of their own here: it is left out."""
    text, folder = os.path.join(cluster.folder, "text.txt"), os.path.join(cluster.folder, "ids")
    pages = os.path.join(cluster.folder, "text")
    with open(text, "w", encoding="utf-8") as file:
        for name in sorted(os.listdir(pages))[::100]:
            with open(os.path.join(pages, name), encoding="utf-8") as page:
                file.write(page.read())
        file.write("\u4f60\u597d, \u00e9\U0001f642\ttabs\n  end")
    testbed.output_of([f"{testbed.BIN}/holdfast", "data", "prepare", text, "--output", folder, "--tokenizer", data, "--validation_fraction", 0])
    with open(f"{folder}/train.bin", "rb") as file:
        ours = [id for id, in struct.iter_unpack("<H", file.read())]
    with open(f"{folder}/info.json", encoding="utf-8") as file:
        end = json.load(file)["end_of_document"]
    ours, theirs = [id for id in ours if id != end], llama(model, text, 0)["asked"]
    return len(ours), sum(a != b for a, b in zip(ours, theirs)) + abs(len(ours) - len(theirs))


def same_texts(cluster, job, data, model, must):
    """On how many of the prompts both go on alike. With `must` on all of them."""
    same = 0
    for prompt in PROMPTS:
        said = cluster.cli_json("sample", "--from", f"job:{job}", "--tokenizer", data, "--prompt", prompt, "--tokens", TOKENS, "--temperature", 0)
        ours, theirs = prompt + said["text"], llama(model, prompt, TOKENS)["text"]
        same += ours == theirs
        if must and (ours != theirs or said["tokens"] != TOKENS):
            raise SystemExit(f"bench/run exchange: {model} goes on otherwise:\n  Holdfast  {ours!r}\n  llama.cpp {theirs!r}")
    return same


def rows_of_few_bits(cluster, job, data, tokenizer, note):
    """What weights of 8 and of 4 bits add to the loss of the validation file, beside bfloat16."""
    half, *others = (cluster.cli_json("eval", "--from", f"job:{job}", "--data", f"{data}/val.bin", "--precision", precision)["loss"] for precision in ("bfloat16", *APART_MAX))
    for precision, loss in zip(APART_MAX, others):
        if loss > half * (1 + APART_MAX[precision]):
            raise SystemExit(f"bench/run exchange: with weights of {precision} the loss is {loss:.6f}, in bfloat16 {half:.6f}")
        yield testbed.row(f"{precision}, {tokenizer}: loss above bfloat16's {half:.4f}", "%", (loss / half - 1) * 100, note=note)


def rows_of_kind(cluster, tokenizer, steps, note):
    data = prepared(cluster.folder, tokenizer)
    job, loss = train(cluster, data, VOCABULARIES[tokenizer], steps)
    yield from rows_of_few_bits(cluster, job, data, tokenizer, note)
    for dtype in ("float32", "float16", "bfloat16"):
        is_exact = dtype == "float32"
        apart = loss_in_torch(export(cluster, job, "safetensors", dtype), data) - loss
        if is_exact and abs(apart) > LOSS_APART_MAX:
            raise SystemExit(f"bench/run exchange: the loss is {loss:.6f} here and {loss + apart:.6f} in PyTorch")
        yield testbed.row(f"safetensors, {tokenizer}, {dtype}: loss there less loss here, {loss:.4f}", "millionths", apart * 1e6, note=note)
        model = os.path.join(export(cluster, job, "gguf", dtype), "model.gguf")
        yield testbed.row(f"gguf, {tokenizer}, {dtype}: prompts with the same text", f"of {len(PROMPTS)}",
                          same_texts(cluster, job, data, model, is_exact), note=note)
        if is_exact:
            count, apart = tokens_apart(cluster, data, model)
            if apart:
                raise SystemExit(f"bench/run exchange: of a text of {count} tokens llama.cpp has {apart} otherwise")
            yield testbed.row(f"gguf, {tokenizer}: tokens of a text that are others in llama.cpp", f"of {count}", apart, floor=0, note=note)


def peaks_of_a_large_one(cluster, data):
    """Of GPT-2 with 124M parameters, 498 MB, after one step: the peak memory of each export, the whole process."""
    store = os.path.join(cluster.folder, "store")
    job = cluster.submit(train_data_path=f"{data}/train.bin", model="small", block_size=64, batch_size=1, global_batch_size=1, total_steps=1,
                         warmup_steps=1, dtype="float32", checkpoint_store=store)
    cluster.wait_state(job, "succeeded", timeout_s=900)
    for what in ("safetensors", "gguf", "npz"):
        peak = memory.peak_of_program(f"{testbed.BIN}/holdfast", "ckpt", "export", os.path.join(store, job), "--format", what, "--dtype", "float16",
                                      "--tokenizer", data, "--output", os.path.join(cluster.folder, f"large-{what}"))
        yield testbed.row(f"{what}, GPT-2 of 124M, float16: peak memory of the export", "MB", peak, floor=LARGEST_TENSOR_MB)


def measure(options):
    if not os.path.exists(GPT2):
        raise SystemExit(f"bench/run exchange: GPT-2's vocabulary is not at {GPT2}: run ops/setup --bench")
    if not testbed.PEER.setups or not installed_version():
        raise SystemExit("bench/run exchange: PyTorch or node-llama-cpp, whose results are compared, is missing: run ops/setup --bench")
    steps = QUICK_STEPS if options.quick else STEPS
    note = NOTE.format(layers=LAYERS, channels=CHANNELS, block=BLOCK, steps=steps, windows=EVALUATED * BATCH, tokens=TOKENS, prompts=len(PROMPTS),
                       version=installed_version())
    with testbed.Testbed() as cluster:
        cluster.start_workers("w1", threads=2)
        rows = [row for tokenizer in VOCABULARIES for row in rows_of_kind(cluster, tokenizer, steps, note)]
        rows.append(row_of_import(cluster, os.path.join(cluster.folder, "bytes"), VOCABULARIES["bytes"], note))
        return rows + list(peaks_of_a_large_one(cluster, os.path.join(cluster.folder, "bpe")))
