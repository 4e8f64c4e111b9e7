"""Reads TensorBoard's event files with nothing of ours: Debian's protocol buffer library over tensorboard_events.proto, which
protoc compiles, and the CRC-32C of python3-crcmod. Debian has no TensorBoard; what it does with the events (order of files,
what a session's start takes back) is done here as its event accumulator does."""
import importlib
import os
import struct
import subprocess
import sys

import crcmod.predefined

HERE = os.path.dirname(os.path.abspath(__file__))
crc32c = crcmod.predefined.mkCrcFun("crc-32c")


def compiled(folder):
    """The module that protoc makes of the .proto file, made in `folder`."""
    subprocess.run(["protoc", f"--proto_path={HERE}", f"--python_out={folder}", "tensorboard_events.proto"], check=True)
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("tensorboard_events_pb2")
    finally:
        sys.path.pop(0)


def masked(crc):
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    """The data of each whole record; raises ValueError at one whose checksum is wrong."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at + 12 <= len(data):
        length, length_crc = struct.unpack_from("<QI", data, at)
        if masked(crc32c(data[at:at + 8])) != length_crc:
            raise ValueError(f"{path}: the length at byte {at} has a wrong checksum")
        if at + 16 + length > len(data):
            return  # it is being written
        body = data[at + 12:at + 12 + length]
        if masked(crc32c(body)) != struct.unpack_from("<I", data, at + 12 + length)[0]:
            raise ValueError(f"{path}: the record at byte {at} has a wrong checksum")
        yield body
        at += 16 + length


def events(protos, path):
    for body in records(path):
        event = protos.Event()
        event.ParseFromString(body)
        yield event


def scalars(protos, folder):
    """{tag: {step: value}} as TensorBoard shows them: files in the order of their names; the start of a session takes back what
    came before of its step and later ones."""
    found = {}
    for name in sorted(n for n in os.listdir(folder) if "tfevents" in n):
        for event in events(protos, os.path.join(folder, name)):
            if event.HasField("session_log") and event.session_log.status == protos.SessionLog.START:
                for steps in found.values():
                    for step in [s for s in steps if s >= event.step]:
                        del steps[step]
            for value in event.summary.value:
                if event.step in found.setdefault(value.tag, {}):
                    raise ValueError(f"{name}: step {event.step} of {value.tag} comes twice")
                found[value.tag][event.step] = value.simple_value
    return found
