// A fat binary has one entry for each architecture that nvcc was asked for: PTX
// or machine code, often compressed. Compilers put a pointer to it into a small
// wrapper, which is what the CUDA runtime passes on.
#include "tools/emulator/driver/Fatbin.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Compression.h"
#include "llvm/Support/Error.h"

#include <cstring>
#include <optional>

namespace cria::emulator {
namespace {

/// The first bytes of an image; none of them is PTX.
constexpr char kWrapperMagic[] = "\xb1"
                                 "CbF",
               kFatbinMagic[] = "P\xedU\xba",
               kLinkedMagic[] = "\x7f"
                                "CRIALNK";
constexpr uint64_t kMostBytes = uint64_t(1) << 30; // of one PTX text

/// What nvcc puts into `.nvFatBinSegment`.
struct Wrapper {
  uint32_t magic, version;
  const char *data;
  const void *others; ///< version 2: fat binaries to be linked, up to a null
};

struct Header {
  uint32_t magic;
  uint16_t version, headerBytes;
  uint64_t bytes; ///< of all entries
};

/// One entry; its data follows after `headerBytes`.
struct Entry {
  uint16_t kind, version;
  uint32_t headerBytes;
  uint64_t bytes; ///< in the fat binary, with padding
  uint32_t compressedBytes, unknown;
  uint16_t minor, major; ///< of the PTX version
  uint32_t capability;
  uint64_t unknown2;
  uint64_t flags;
  uint64_t unknown3;
  uint64_t unpackedBytes;
};
static_assert(sizeof(Entry) == 64);

constexpr uint16_t kPtx = 1;
constexpr uint64_t kLz4 = 0x2000, kZstd = 0x8000; ///< Entry::flags

template <typename T> T read(const char *at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

ImageError broken(const std::string &what) {
  return {CUDA_ERROR_INVALID_IMAGE, "the fat binary is broken: " + what};
}

std::variant<std::string, ImageError> textOf(const char *at,
                                             const Entry &entry) {
  const char *data = at + entry.headerBytes;
  if (!(entry.flags & (kLz4 | kZstd)))
    return std::string(data, strnlen(data, entry.bytes));
  if (entry.unpackedBytes > kMostBytes || entry.compressedBytes > entry.bytes)
    return broken("an entry has an impossible size");
  if (entry.flags & kLz4)
    return unpackLz4(data, entry.compressedBytes, entry.unpackedBytes);
  if (!llvm::compression::zstd::isAvailable())
    return ImageError{CUDA_ERROR_NOT_SUPPORTED,
                      "the PTX is compressed by zstd, which this LLVM cannot "
                      "read"};
  llvm::SmallVector<uint8_t> text;
  llvm::ArrayRef<uint8_t> packed(reinterpret_cast<const uint8_t *>(data),
                                 entry.compressedBytes);
  if (auto error = llvm::compression::zstd::decompress(packed, text,
                                                       entry.unpackedBytes))
    return broken(llvm::toString(std::move(error)));
  return std::string(text.begin(), text.end());
}

/// The text without the zero bytes at its end.
std::string trimmed(std::string text) {
  text.resize(strnlen(text.data(), text.size()));
  return text;
}

/// Whether PTX with this `.target` runs on the device: sm_90a only on its own
/// architecture.
bool runsOn(llvm::StringRef text, unsigned capability) {
  llvm::StringRef name =
      text.split(".target").second.ltrim().take_while([](char c) {
        return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
      });
  bool isExact = name.consume_back("a");
  unsigned target;
  return name.consume_front("sm_") && !name.getAsInteger(10, target) &&
         (isExact ? target == capability : target <= capability);
}

/// The newest PTX of one fat binary that runs on the device.
std::variant<std::string, ImageError> newestOf(const char *fatbin,
                                               unsigned capability) {
  auto header = read<Header>(fatbin);
  if (std::memcmp(&header.magic, kFatbinMagic, 4) || header.version != 1)
    return broken("expected a header of version 1");
  const char *at = fatbin + header.headerBytes, *end = at + header.bytes;
  std::optional<std::string> best;
  unsigned newest = 0;
  std::string others;
  while (at + sizeof(Entry) <= end) {
    auto entry = read<Entry>(at);
    if (entry.headerBytes < sizeof(Entry) ||
        uint64_t(end - at) < entry.headerBytes ||
        uint64_t(end - at) - entry.headerBytes < entry.bytes)
      return broken("an entry reaches beyond the end");
    others += (others.empty() ? "" : ", ") +
              std::string(entry.kind == kPtx ? "PTX" : "machine code") +
              " for sm_" + std::to_string(entry.capability);
    if (entry.kind == kPtx && entry.capability <= capability &&
        entry.capability >= newest) {
      auto text = textOf(at, entry);
      if (auto *error = std::get_if<ImageError>(&text))
        return *error;
      std::string &found = std::get<std::string>(text);
      if (runsOn(found, capability)) {
        best = trimmed(std::move(found));
        newest = entry.capability;
      }
    }
    at += entry.headerBytes + entry.bytes;
  }
  if (best)
    return *best;
  return ImageError{
      CUDA_ERROR_NO_BINARY_FOR_GPU,
      "expected PTX for sm_" + std::to_string(capability) + " or older, got " +
          (others.empty() ? "no code" : others) +
          "; nvcc adds PTX with -arch=sm_" + std::to_string(capability)};
}

std::variant<PtxTexts, ImageError>
fromFatbins(const std::vector<const char *> &fatbins, unsigned capability) {
  PtxTexts texts;
  for (const char *fatbin : fatbins) {
    auto text = newestOf(fatbin, capability);
    if (auto *error = std::get_if<ImageError>(&text))
      return *error;
    texts.push_back(std::move(std::get<std::string>(text)));
  }
  return texts;
}

std::variant<PtxTexts, ImageError> fromWrapper(const char *image,
                                               unsigned capability) {
  auto wrapper = read<Wrapper>(image);
  if (wrapper.version == 1)
    return fromFatbins({wrapper.data}, capability);
  if (wrapper.version != 2 || !wrapper.others)
    return broken("expected a wrapper of version 1 or 2");
  std::vector<const char *> fatbins;
  for (auto *other = static_cast<const char *const *>(wrapper.others); *other;
       ++other)
    fatbins.push_back(*other);
  return fromFatbins(fatbins, capability);
}

PtxTexts fromLinked(const char *image) {
  const char *at = image + strlen(kLinkedMagic);
  PtxTexts texts(read<uint64_t>(at));
  at += sizeof(uint64_t);
  for (std::string &text : texts) {
    auto bytes = read<uint64_t>(at);
    text.assign(at + sizeof bytes, bytes);
    at += sizeof bytes + bytes;
  }
  return texts;
}

} // namespace

std::string linkedImage(const PtxTexts &texts) {
  std::string image = kLinkedMagic;
  auto add = [&](uint64_t number) {
    image.append(reinterpret_cast<const char *>(&number), sizeof number);
  };
  add(texts.size());
  for (const std::string &text : texts) {
    add(text.size());
    image += text;
  }
  return image;
}

std::variant<PtxTexts, ImageError> ptxOfImage(const void *image,
                                              unsigned capability) {
  auto *bytes = static_cast<const char *>(image);
  // Stops at a zero byte: the image may be a very short text.
  auto begins = [&](const char *magic) {
    return !std::strncmp(bytes, magic, strlen(magic));
  };
  if (begins(kWrapperMagic))
    return fromWrapper(bytes, capability);
  if (begins(kFatbinMagic))
    return fromFatbins({bytes}, capability);
  if (begins(kLinkedMagic))
    return fromLinked(bytes);
  if (bytes[0] && uint8_t(bytes[0]) < 0x7f)
    return PtxTexts{bytes};
  return ImageError{CUDA_ERROR_NO_BINARY_FOR_GPU,
                    "expected PTX, got machine code (a cubin)"};
}

std::variant<std::string, ImageError> unpackLz4(const char *data, size_t bytes,
                                                size_t most) {
  auto *at = reinterpret_cast<const uint8_t *>(data), *end = at + bytes;
  std::string out;
  auto bad = [] { return broken("its LZ4 data is wrong"); };
  // A length of 15 goes on in bytes of 255 and a last smaller one.
  auto extend = [&](size_t length) {
    if (length < 15)
      return length;
    uint8_t more = 255;
    while (more == 255 && at < end)
      length += more = *at++;
    return length;
  };
  while (at < end) {
    uint8_t token = *at++;
    size_t literals = extend(token >> 4);
    if (literals > size_t(end - at) || literals > most - out.size())
      return bad();
    out.append(reinterpret_cast<const char *>(at), literals);
    at += literals;
    if (at == end)
      return out;
    if (end - at < 2)
      return bad();
    size_t distance = at[0] | at[1] << 8;
    at += 2;
    size_t length = extend(token & 15) + 4;
    if (!distance || distance > out.size() || length > most - out.size())
      return bad();
    for (size_t i = 0; i < length; ++i)
      out.push_back(out[out.size() - distance]);
  }
  return bad();
}

} // namespace cria::emulator
