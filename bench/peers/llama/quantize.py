#!/usr/bin/python3
"""A GGUF file with its matrices in llama.cpp's q8_0 or q4_0, as its own quantize writes them: blocks of 32 numbers of 8 or 4 bits
with a scale.

usage: quantize.py q8_0|q4_0 IN.gguf OUT.gguf

By GGUF's specification (ggml, docs/gguf.md, version 3), and quantize_row_q8_0_ref and quantize_row_q4_0_ref of ggml."""
import struct
import sys

import numpy

FLOAT32, FLOAT16 = 0, 1
BLOCK, ALIGNMENT = 32, 32
SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a value, by its type
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value[0]

    def skip_text(self):
        length = self.take("Q")
        self.at += length

    def skip_value(self, kind):
        if kind == STRING:
            self.skip_text()
        elif kind == ARRAY:
            kind, count = self.take("I"), self.take("Q")
            for _ in range(count):
                self.skip_value(kind)
        else:
            self.at += SCALARS[kind]


def inverse_of(scale):
    return numpy.where(scale != 0, 1 / numpy.where(scale != 0, scale, 1), 0)


def q8_0(blocks):
    scale = numpy.abs(blocks).max(axis=1) / 127
    packed = numpy.zeros(len(blocks), dtype=[("scale", "<f2"), ("numbers", "i1", BLOCK)])
    packed["scale"] = scale
    scaled = blocks * inverse_of(scale)[:, None]
    packed["numbers"] = numpy.copysign(numpy.floor(numpy.abs(scaled) + 0.5), scaled)  # roundf: ties away from zero
    return packed.tobytes()


def q4_0(blocks):
    at = numpy.abs(blocks).argmax(axis=1)
    scale = blocks[numpy.arange(len(blocks)), at] / numpy.float32(-8)
    packed = numpy.zeros(len(blocks), dtype=[("scale", "<f2"), ("pairs", "u1", BLOCK // 2)])
    packed["scale"] = scale
    numbers = numpy.minimum(15, (blocks * inverse_of(scale)[:, None] + numpy.float32(8.5)).astype(numpy.uint8))
    packed["pairs"] = numbers[:, :BLOCK // 2] | numbers[:, BLOCK // 2:] << 4
    return packed.tobytes()


FORMS = {"q8_0": (8, q8_0), "q4_0": (2, q4_0)}  # GGUF's number of the type


def main(form, source, target):
    with open(source, "rb") as file:
        data = file.read()
    reader = Reader(data)
    if data[:4] != b"GGUF" or struct.unpack_from("<I", data, 4)[0] != 3:
        sys.exit(f"{source}: expected a GGUF file of version 3")
    reader.at = 8
    tensors, pairs = reader.take("Q"), reader.take("Q")
    for _ in range(pairs):
        reader.skip_text()
        reader.skip_value(reader.take("I"))
    head, infos = data[:reader.at], []
    for _ in range(tensors):
        length = reader.take("Q")
        name = data[reader.at:reader.at + length]
        reader.at += length
        shape = [reader.take("Q") for _ in range(reader.take("I"))]
        infos.append((name, shape, reader.take("I"), reader.take("Q")))
    begin = -(-reader.at // ALIGNMENT) * ALIGNMENT
    table, body = b"", b""
    for name, shape, kind, offset in infos:
        count = int(numpy.prod(shape))
        values = numpy.frombuffer(data, "<f4" if kind == FLOAT32 else "<f2", count, begin + offset)
        if len(shape) == 2 and shape[0] % BLOCK == 0 and name != b"position_embd.weight":
            kind, quantized = FORMS[form]
            raw = quantized(values.astype(numpy.float32).reshape(-1, BLOCK))
        else:
            raw = values.tobytes()
        table += struct.pack("<Q", len(name)) + name + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(body))
        body += raw + bytes(-len(raw) % ALIGNMENT)
    with open(target, "wb") as file:
        file.write(head + table + bytes(-(len(head) + len(table)) % ALIGNMENT) + body)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in FORMS:
        sys.exit(__doc__)
    main(*sys.argv[1:])
