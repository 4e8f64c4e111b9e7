#!/usr/bin/env python3
"""The GPU's kernels as AMD's compiler leaves them (rung 4 of the ladder): compiled and linked for each target, and looked at.

usage: tests/kernels/hip_objects.py --work FOLDER [--archs gfx90a,gfx942,gfx1100,gfx1201] [--write bench/HIP.md]

Asserts of every kernel of every target: no vector registers are spilled and few scalar ones, shared memory is within 64 KB, there is no compare-and-swap
(what a floating-point atomic becomes where the hardware has none); and that 16-bit products and attention use the matrix units.
Prints a table; --write puts it into the file, between its marks. Exits with 1 and the kernels' names if an assertion fails, with
77 where there is no clang-19 (ops/setup --hip installs it)."""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPILER = "clang++-19"
SOURCES = ("runtime", "queue/side_stream", "queue/captured_sequence", "memory", "hip_ops", "products", "attention", "decode/decode", "decode/attention",
           "decode/int8", "decode/int4", "no_library_products")
ARCHS = ("gfx90a", "gfx942", "gfx1100", "gfx1201")
WAVE = {"gfx908": 64, "gfx90a": 64, "gfx942": 64}  # the others: 32
MOST_SHARED = 64 << 10
MOST_SCALAR_SPILLS = 8  # they go into lanes of vector registers, for an instruction each way; gfx90a has 100 and no more
MATRIX_KERNELS = ("product", "attention_forward", "attention_backward_queries", "attention_backward_keys", "attention_in_pages")
PLAIN = {("gfx90a", "Float16")}  # its units take small float16 for 0 (kernels/hip/matrix_tile.h)
MARKS = ("<!-- objects -->", "<!-- end of objects -->")


def compile_one(job):
    arch, source, work = job
    folder = os.path.join(work, arch)
    os.makedirs(os.path.dirname(f"{folder}/{source}"), exist_ok=True)
    command = [COMPILER, "-std=c++20", "-O3", "-x", "hip", f"--offload-arch={arch}", "-D__HIP_PLATFORM_AMD__", "-ffp-contract=off", f"-I{ROOT}", "-Wall", "-Werror",
               f"--rocm-device-lib-path={work}/device_library", "-mcode-object-version=4", "--save-temps=obj", "-c", f"{ROOT}/kernels/hip/{source}.hip",
               "-o", f"{folder}/{source}.o"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"hip_objects: {source}.hip does not compile and link for {arch}:\n{done.stderr[-4000:]}")
    with open(f"{folder}/{source}-hip-amdgcn-amd-amdhsa-{arch}.s", encoding="utf-8") as file:
        text = file.read()
    return arch, text


def readable(symbols):
    """{mangled: what a person reads}"""
    names = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(zip(symbols, names))


def short(name):
    """attention_forward<float, 32, 64, 32>"""
    name = re.sub(r"^void ", "", name).replace("holdfast::kernels::hip::", "")
    depth, end = 0, len(name)
    for at, letter in enumerate(name):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0:
            end = at
            break
    return name[:end]


def kernels_of(arch, text):
    metadata = text[text.index("amdhsa.kernels:"):]
    found = []
    for block in re.split(r"\n  - ", metadata)[1:]:
        name = re.search(r"^    \.name:\s+(\S+)", block, re.M)
        if not name:
            continue
        def number(key):
            value = re.search(rf"\.{key}:\s+(\d+)", block)
            return int(value[1]) if value else 0
        begin = text.index(f"\n{name[1]}:")
        body = text[begin:text.index(".Lfunc_end", begin)]
        after = text[begin:begin + len(body) + 8000]
        occupancy = re.search(r"; Occupancy: (\d+)", after)
        found.append({"arch": arch, "symbol": name[1], "vgprs": number("vgpr_count"), "sgprs": number("sgpr_count"),
                      "spills": number("vgpr_spill_count"), "scalar_spills": number("sgpr_spill_count"), "shared": number("group_segment_fixed_size"),
                      "private": number("private_segment_fixed_size"), "occupancy": int(occupancy[1]) if occupancy else 0,
                      "matrix": len(re.findall(r"\bv_s?(?:wmma|mfma)_", body)), "swaps": len(re.findall(r"cmpst|cmpswap", body)),
                      "instructions": len(re.findall(r"^\t[a-z]", body, re.M))})
    return found


def is_for_this_wave(kernel):
    """Kernels have the wave as a parameter; the other width's is empty."""
    other = 32 if WAVE.get(kernel["arch"], 32) == 64 else 64
    return not re.search(rf"(?:Float|float|BFloat)\w*, {other}, ", kernel["name"])


def complaints(kernel):
    said = []
    if kernel["scalar_spills"] > MOST_SCALAR_SPILLS:
        said.append(f"spills {kernel['scalar_spills']} scalar registers")
    if kernel["spills"] or kernel["private"]:
        said.append(f"spills {kernel['spills']} registers, {kernel['private']} bytes of private memory")
    if kernel["shared"] > MOST_SHARED:
        said.append(f"needs {kernel['shared']} bytes of shared memory")
    if kernel["swaps"]:
        said.append("has a compare-and-swap")
    base, _, rest = kernel["name"].partition("<")
    element = rest.partition(",")[0]
    if base in MATRIX_KERNELS and element != "float" and (kernel["arch"], element) not in PLAIN and kernel["matrix"] == 0:
        said.append("does not use the matrix units")
    return [f"{kernel['arch']} {kernel['name']}: {words}" for words in said]


def table(kernels):
    rows = ["| target | kernel | VGPRs | SGPRs | LDS, bytes | waves a SIMD | matrix instructions |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for k in sorted(kernels, key=lambda k: (ARCHS.index(k["arch"]) if k["arch"] in ARCHS else 99, k["name"])):
        rows.append(f"| {k['arch']} | `{k['name']}` | {k['vgprs']} | {k['sgprs']} | {k['shared']} | {k['occupancy']} | {k['matrix']} |")
    return "\n".join(rows)


def write(path, words):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    begin, end = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[:begin] + "\n" + words + "\n" + text[end:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", required=True, help="where objects go")
    parser.add_argument("--archs", default=",".join(ARCHS))
    parser.add_argument("--write", metavar="FILE")
    options = parser.parse_args()
    if not shutil.which(COMPILER):
        print(f"not run: there is no {COMPILER}; ops/setup --hip installs it")
        return 77
    subprocess.run([f"{ROOT}/kernels/hip/complete_device_library", COMPILER, f"{options.work}/device_library"], check=True)
    jobs = [(arch, source, options.work) for source in reversed(SOURCES) for arch in options.archs.split(",")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        kernels = [kernel for arch, text in pool.map(compile_one, jobs) if "amdhsa.kernels:" in text for kernel in kernels_of(arch, text)]
    names = readable([kernel["symbol"] for kernel in kernels])
    for kernel in kernels:
        kernel["name"] = short(names[kernel["symbol"]])
    kernels = [kernel for kernel in kernels if is_for_this_wave(kernel)]
    print(table(kernels))
    if options.write:
        write(options.write, table(kernels))
    wrong = [words for kernel in kernels for words in complaints(kernel)]
    print(f"{len(kernels)} kernels for {options.archs}: " + ("all as they should be" if not wrong else f"{len(wrong)} complaints"))
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
