"""hostile_manifest.py IN.cria OUT.cria: the artifact with terminal escapes in
the strings of its manifest, with a correct checksum."""

import json
import pathlib
import struct
import sys

FOOTER = "<8sIIQQQQ"  # CriaFooter of runtime/Abi.h
# Clear the screen; CSI as one character; right to left; erase a character.
HOSTILE = "\x1b[2J\u009b31m\u202eevil\x7f\r\n"


def checksum(data):
    """FNV-1a, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    data = source.read_bytes()
    body, footer = data[:-48], list(struct.unpack(FOOTER, data[-48:]))
    begin, size = footer[3:5]
    manifest = json.loads(body[begin : begin + size])
    manifest["compiler"] += HOSTILE
    manifest["cpu"][0]["name"] += HOSTILE
    manifest["config"]["evil" + HOSTILE] = HOSTILE
    manifest["ledger"][0]["note"] += HOSTILE
    manifest["weights"][1]["symbol"] += HOSTILE
    manifest["caches"][0]["symbol"] += HOSTILE
    manifest["kernels"][0] += HOSTILE
    manifest["flags"]["evil"] = HOSTILE
    text = json.dumps(manifest, ensure_ascii=False).encode()
    footer[3:6] = len(body), len(text), len(body) + len(text) + 48
    body += text + struct.pack(FOOTER, *footer)[:-8]
    target.write_bytes(body + struct.pack("<Q", checksum(body)))


main()
