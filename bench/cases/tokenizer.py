"""Text to GPT-2's ids, beside npm's gpt-tokenizer, whose ids must be ours."""
import filecmp
import glob
import os
import random
import tempfile
import unicodedata

import peer_python
import testbed

TITLE = "Text to the ids of GPT-2's own vocabulary (r50k), 1 MB of each kind, one thread"
NOTE = "The ids are compared, and were the same. Peer: gpt-tokenizer {version} on Node.js; at its best its cache of merges is as large as it needs. tiktoken's own figure is about 5 MB/s a core."
REPEAT = 3
BYTES = 1_000_000
PEERS = os.path.join(testbed.ROOT, "bench", "peers")
VOCABULARY = os.path.join(PEERS, "node_modules", "gpt-tokenizer", "data", "r50k_base.tiktoken")


def read_all(paths):
    text = b""
    for path in sorted(paths):
        with open(path, "rb") as file:
            text += file.read()
        if len(text) >= BYTES:
            break
    return text


def manual_pages(language, folder):
    out = os.path.join(folder, language)
    testbed.output_of([os.path.join(testbed.ROOT, "ops", "demo_text"), language, out])
    return read_all(glob.glob(os.path.join(out, "**", "*.txt"), recursive=True))


def random_text():
    """Characters of every class, in runs. Unicode 3.2's, which all versions class alike; without U+0085 and U+FEFF, which JavaScript's \\s
    has the other way round than Unicode's White_Space, which tiktoken goes by."""
    rng = random.Random(1)
    classes = {}
    for code in range(1, 0x110000):
        character = chr(code)
        category = unicodedata.ucd_3_2_0.category(character)
        if code in (0x85, 0xFEFF) or 0xD800 <= code < 0xE000 or category in ("Cn", "Co"):
            continue
        classes.setdefault("space" if character.isspace() else category[0], []).append(character)
    text, size = [], 0
    while size < BYTES:
        of = classes[rng.choice(sorted(classes))] if rng.random() < 0.7 else " \n\t'stmdrelv019aZ"
        for _ in range(rng.choice((1, 1, 2, 3, 5, 9))):
            text.append(rng.choice(of))
            size += len(text[-1].encode())
    return "".join(text).encode()


def texts(folder):
    yield "English", manual_pages("english", folder)
    yield "Chinese", manual_pages("chinese", folder)
    yield "code", read_all(glob.glob(os.path.join(testbed.ROOT, "**", "*.cpp"), recursive=True))
    yield "random Unicode", random_text()


def measure(options):
    if not os.path.exists(VOCABULARY):
        raise SystemExit("bench/run tokenizer: GPT-2's vocabulary and the peer are not there: run ops/setup --bench")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, text in texts(folder):
            path, ours, theirs = (os.path.join(folder, name) for name in ("text", "ours", "theirs"))
            with open(path, "wb") as file:
                file.write(text[:BYTES].decode("utf-8", "ignore").encode())
            peer = ["node", os.path.join(PEERS, "gpt_tokenizer.mjs"), path, theirs]
            commands = {"ours": [f"{testbed.BIN}/bench_tokenizer", VOCABULARY, path, ours], **dict(zip(peer_python.SETUPS, (peer, [*peer, 10 * BYTES])))}
            rates = {side: [] for side in commands}
            for _ in range(options.repeat):
                for side, command in commands.items():
                    said = testbed.json_lines(testbed.output_of(command))[-1]
                    rates[side].append(said["bytes"] / said["seconds"] / 1e6)
            if not filecmp.cmp(ours, theirs, shallow=False):
                raise SystemExit(f"bench/run tokenizer: the ids of {kind} are not those of gpt-tokenizer")
            rows.append(testbed.row(kind, "MB/s", testbed.median(rates.pop("ours")), testbed.by_setup(rates), higher_is_better=True,
                                    note=NOTE.format(version=version())))
    return rows


def version():
    with open(os.path.join(PEERS, "package.json"), encoding="utf-8") as file:
        return testbed.json.load(file)["dependencies"]["gpt-tokenizer"]
