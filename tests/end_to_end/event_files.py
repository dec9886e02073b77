# SPDX-License-Identifier: Apache-2.0
"""Reads TensorBoard event files for tests, with no library: every checksum, and every field that runs write.

    steps = read_run(folder)     # {step: {tag: value}}, as TensorBoard shows them after restarts
"""
import struct


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(crc):
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data, cut=False):
    """The messages of a file. With `cut`, one that a kill left without its end is passed over."""
    while data:
        if cut and (len(data) < 12 or len(data) < 16 + struct.unpack_from("<Q", data)[0]):
            return
        length, length_crc = struct.unpack_from("<QI", data)
        assert length_crc == masked(crc32c(data[:8])), "checksum of a length"
        message, (crc,) = data[12:12 + length], struct.unpack_from("<I", data, 12 + length)
        assert len(message) == length and crc == masked(crc32c(message)), "checksum of a message"
        yield message
        data = data[16 + length:]


def fields(message):
    """(number, value) of each field: an int, bytes, or the 4 or 8 bytes of a number as bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            yield number, varint()
            continue
        size = {1: 8, 2: None, 5: 4}[kind]
        if size is None:
            size = varint()
        assert at + size <= len(message), "a field that ends behind its message"
        yield number, message[at:at + size]
        at += size


def fp64(value):
    return struct.unpack("<d", value)[0]


def histogram(message):
    names = {1: "minimum", 2: "maximum", 3: "count", 4: "sum", 5: "sum_of_squares"}
    result = {}
    for number, value in fields(message):
        if number in names:
            result[names[number]] = fp64(value)
        else:
            result[{6: "limits", 7: "counts"}[number]] = list(struct.unpack(f"<{len(value) // 8}d", value))
    return result


def text(tensor, metadata):
    (plugin,) = [value for number, value in fields(metadata) if number == 1]
    assert dict(fields(plugin)) == {1: b"text"}
    assert list(fields(tensor))[:2] == [(1, 7), (2, b"")], "one string"
    ((_, value),) = list(fields(tensor))[2:]
    lines = value.decode().split("\n")
    assert all(line.startswith("    ") for line in lines), "shown as it stands"
    return "\n".join(line[4:] for line in lines)


def summary_value(message):
    parts = dict(fields(message))
    tag = parts.pop(1).decode()
    if 2 in parts:
        return tag, struct.unpack("<f", parts[2])[0]
    return tag, histogram(parts[5]) if 5 in parts else text(parts[8], parts[9])


def read_file(path, cut=False):
    """(step, what) of each event; what is "version", "start", or the values of a summary by tag."""
    events = []
    for message in records(path.read_bytes(), cut):
        parts = dict(fields(message))
        assert fp64(parts.pop(1)) > 1.6e9, "seconds since 1970"
        step = parts.pop(2, 0)
        ((number, value),) = parts.items()
        if number == 3:
            assert value == b"brain.Event:2"
            events.append((step, "version"))
        elif number == 7:
            assert dict(fields(value)) == {1: 1}
            events.append((step, "start"))
        else:
            assert number == 5
            events.append((step, dict(summary_value(part) for field, part in fields(value) if field == 1)))
    return events


def read_run(folder):
    steps = {}
    for path in sorted(folder.iterdir()):
        assert path.name.startswith("events.out.tfevents."), path
        for step, what in read_file(path, cut=True):
            if what == "start":
                steps = {old: values for old, values in steps.items() if old < step}
            elif what != "version":
                steps.setdefault(step, {}).update(what)
    return steps
