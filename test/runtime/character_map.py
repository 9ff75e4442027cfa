"""A character map of the kind that sentencepiece compiles into a tokenizer: it has the
changes of NFKC in some blocks, maps spaces to one space, and invisible characters to
nothing."""

import struct
import unicodedata


def mappings():
    """The replacements, by key."""
    blocks = [(0x80, 0x250), (0x2000, 0x2190), (0x3000, 0x30FF), (0xFB00, 0xFF80)]
    table = {"\t": " ", "\n": " ", "\r": " ", "\u200b": "", "\ufeff": "", "\x01": ""}
    for first, last in blocks:
        for character in map(chr, range(first, last)):
            if unicodedata.normalize("NFKC", character) != character:
                table[character] = unicodedata.normalize("NFKC", character)
    for letter in "aeiounAEIOUN":
        for mark in "\u0300\u0301\u0303\u0308":
            table[letter + mark] = unicodedata.normalize("NFC", letter + mark)
    return table


def compile_map():
    """The map as a double-array trie and its texts: see CharacterMap.cpp."""
    texts, trie = bytearray(), {}
    for key, text in mappings().items():
        node = trie
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[None] = len(texts)
        texts += text.encode() + b"\0"
    units, used, bases = {0: 0}, {0}, set()
    pending = [(0, trie)]
    while pending:
        place, node = pending.pop()
        labels = [byte or 0 for byte in node]
        base = 1
        while base in bases or any(base ^ label in used for label in labels):
            base += 1
        bases.add(base)
        used.update(base ^ label for label in labels)
        assert place ^ base < 1 << 21
        units[place] |= (place ^ base) << 10 | (None in node) << 8
        for byte, child in node.items():
            if byte is None:
                units[base] = 1 << 31 | child
            else:
                units[base ^ byte] = byte
                pending.append((base ^ byte, child))
    array = [units.get(place, 0) for place in range(max(units) + 256)]
    return struct.pack(f"<I{len(array)}I", 4 * len(array), *array) + bytes(texts)
