"""Symbols of a 64-bit little-endian ELF object."""

import struct

_SYMBOL_TABLE = 2
_UNDEFINED = 0


def undefined_symbols(data: bytes) -> list[str]:
    """Names that an object needs from elsewhere."""
    assert data[:6] == b"\x7fELF\x02\x01"
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + k * size) for k in range(count)]
    found = []
    for _, kind, _, _, offset, nbytes, link, _, _, _ in sections:
        if kind == _SYMBOL_TABLE:
            names = data[sections[link][4] :]
            for k in range(1, nbytes // 24):  # 0 is no symbol
                name, _, _, section = struct.unpack_from("<IBBH", data, offset + 24 * k)
                if section == _UNDEFINED:
                    found.append(names[name : names.index(b"\0", name)].decode())
    return found
