"""proto_fields.py FROM TO NAME FIELDS ...: an HloModuleProto with more fields in its instructions, by their names, and in
itself (-). FIELDS are numbers and values: an integer, d1.5 (a double), "text" (bytes), or a message, [1 5 2 [3 7]]."""
import re
import struct
import sys


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def take_varint(data, at):
    n = shift = 0
    while True:
        byte = data[at]
        n, shift, at = n | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return n, at


def field(number, value):
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    return varint(number << 3) + varint(value)


def fields(data):
    at = 0
    while at < len(data):
        key, at = take_varint(data, at)
        if key & 7 == 2:
            size, at = take_varint(data, at)
            yield key >> 3, data[at : at + size]
            at += size
        elif key & 7 == 1:
            yield key >> 3, struct.unpack("<d", data[at : at + 8])[0]
            at += 8
        else:
            value, at = take_varint(data, at)
            yield key >> 3, value


def parse(words):
    """A message from its words, up to ]."""
    out = b""
    while words and words[0] != "]":
        number, value = int(words.pop(0)), words.pop(0)
        if value == "[":
            value = parse(words)
            words.pop(0)
        elif value[0] == '"':
            value = value[1:-1].encode()
        else:
            value = float(value[1:]) if value[0] == "d" else int(value)
        out += field(number, value)
    return out


def extend(instruction, more):
    name = next(v for k, v in fields(instruction) if k == 1).decode()
    return instruction + more.get(name, b"")


def main():
    source, target, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    more = {}
    for name, text in zip(rest[::2], rest[1::2]):
        more[name] = more.get(name, b"") + parse(re.findall(r'"[^"]*"|[][]|[^][ ]+', text))
    out = b""
    for number, value in fields(open(source, "rb").read()):
        if number == 3:  # computations, of instructions
            value = b"".join(field(k, extend(v, more) if k == 2 else v) for k, v in fields(value))
        out += field(number, value)
    open(target, "wb").write(out + more.get("-", b""))


main()
