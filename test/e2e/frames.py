"""What artifacts pack: frames of zstd (RFC 8878), by its library."""

import ctypes

from harness import check

MAGIC, SKIPPED = b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"
SKIPPED_HEADER = 8  # bytes of a frame that is skipped, before its content
LEVELS = (10, 16, 19)  # the compiler's, and those that make smaller frames

zstd = ctypes.CDLL("libzstd.so.1")
for name in ("ZSTD_findFrameCompressedSize", "ZSTD_decompress", "ZSTD_compress"):
    getattr(zstd, name).restype = ctypes.c_size_t
zstd.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong


def frame_in(artifact):
    """The place of the only frame in an artifact: (begin, end)."""
    begin = artifact.index(MAGIC)
    rest = artifact[begin:]
    size = zstd.ZSTD_findFrameCompressedSize(rest, ctypes.c_size_t(len(rest)))
    check(size <= len(rest), "no frame of zstd")
    return begin, begin + size


def unpack(frame):
    size = ctypes.c_size_t(len(frame))
    text = ctypes.create_string_buffer(zstd.ZSTD_getFrameContentSize(frame, size))
    written = zstd.ZSTD_decompress(text, ctypes.c_size_t(len(text)), frame, size)
    check(written == len(text), "a frame of zstd that is broken")
    return text.raw


def pack(text, size):
    """Frames of `size` bytes that stand for `text`."""
    packed = ctypes.create_string_buffer(size)
    for level in LEVELS:
        room = ctypes.c_size_t(size), text, ctypes.c_size_t(len(text))
        left = size - zstd.ZSTD_compress(packed, *room, level)
        if left == 0:
            return packed.raw
        if left >= SKIPPED_HEADER:  # not for an error, which is larger than any size
            content = left - SKIPPED_HEADER
            return packed.raw[:-left] + SKIPPED + content.to_bytes(4, "little") + bytes(content)
    return check(False, f"a text without room in {size} bytes")
