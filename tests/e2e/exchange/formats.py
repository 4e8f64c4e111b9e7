"""Readers of the three formats that `holdfast ckpt export` writes, from their descriptions alone: struct, json and zipfile.

Each gives {name: Tensor}; a tensor's values are numbers in the order of the file, of 16 bits widened exactly."""
import ast
import json
import struct
import zipfile

ALIGNMENT = 32
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class Tensor:
    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.bytes = dtype, tuple(shape), data
        self.values = decoded(dtype, data)

    def transposed(self):
        rows, columns = self.shape
        return [self.values[i * columns + j] for j in range(columns) for i in range(rows)]


def decoded(dtype, data):
    if dtype == "bfloat16":
        halves = struct.unpack(f"<{len(data) // 2}H", data)
        return list(struct.unpack(f"<{len(halves)}f", struct.pack(f"<{len(halves)}I", *(half << 16 for half in halves))))
    letter, width = {"float32": ("f", 4), "float16": ("e", 2)}[dtype]
    return list(struct.unpack(f"<{len(data) // width}{letter}", data))


def rounded(values, dtype):
    """Float32 values as `dtype` has them, to nearest, ties to even."""
    if dtype == "float16":
        return list(struct.unpack(f"<{len(values)}e", struct.pack(f"<{len(values)}e", *values)))
    words = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
    return decoded("bfloat16", struct.pack(f"<{len(words)}H", *((word + 0x7FFF + (word >> 16 & 1)) >> 16 for word in words)))


def read_safetensors(path):
    """(tensors, metadata)"""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    metadata = header.pop("__metadata__")
    types = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
    assert sum(end - begin for begin, end in (entry["data_offsets"] for entry in header.values())) == len(data)
    return {name: Tensor(types[entry["dtype"]], entry["shape"], data[slice(*entry["data_offsets"])]) for name, entry in header.items()}, metadata


def read_npz(path):
    tensors = {}
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None, "a checksum is wrong"
        for name in archive.namelist():
            data = archive.read(name)
            assert data[:8] == b"\x93NUMPY\x01\x00" and archive.getinfo(name).compress_type == zipfile.ZIP_STORED
            begin = 10 + struct.unpack("<H", data[8:10])[0]
            assert begin % 64 == 0
            about = ast.literal_eval(data[10:begin].decode())
            assert about["fortran_order"] is False
            tensors[name.removesuffix(".npy")] = Tensor({"<f4": "float32", "<f2": "float16"}[about["descr"]], about["shape"], data[begin:])
    return tensors


class Gguf:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        self.at = 4
        version, tensors, keys = self.number("I"), self.number("Q"), self.number("Q")
        assert self.data[:4] == b"GGUF" and version == 3
        self.metadata = {}
        for _ in range(keys):
            key = self.text()
            assert key not in self.metadata
            self.metadata[key] = self.value(self.number("I"))
        entries = [self.entry() for _ in range(tensors)]
        begin = -(-self.at // ALIGNMENT) * ALIGNMENT
        self.tensors, end = {}, 0
        for name, shape, dtype, offset in entries:
            assert offset == end and offset % ALIGNMENT == 0
            count = {"float32": 4, "float16": 2, "bfloat16": 2}[dtype]
            for size in shape:
                count *= size
            self.tensors[name] = Tensor(dtype, shape, self.data[begin + offset:begin + offset + count])
            end = -(-(offset + count) // ALIGNMENT) * ALIGNMENT
        assert begin + end == len(self.data)

    def number(self, letter):
        value, = struct.unpack_from("<" + letter, self.data, self.at)
        self.at += struct.calcsize(letter)
        return value

    def text(self):
        length = self.number("Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            kind, count = self.number("I"), self.number("Q")
            return [self.value(kind) for _ in range(count)]
        return self.number(NUMBERS[kind])

    def entry(self):
        """(name, shape with the size that changes fastest last, type, offset)"""
        name, dimensions = self.text(), self.number("I")
        shape = tuple(reversed([self.number("Q") for _ in range(dimensions)]))
        dtype = {0: "float32", 1: "float16", 30: "bfloat16"}[self.number("I")]
        return name, shape, dtype, self.number("Q")
