#include "runtime/artifact/Unpack.h"

#include <dlfcn.h>

namespace cria {

/// ZSTD_decompress of zstd.h: the number of bytes that it has written, or an
/// error, which is larger than any number of bytes.
using Decompress = size_t (*)(void *to, size_t capacity, const void *from,
                              size_t size);

/// Null where there is no library. It stays open.
static Decompress findDecompress() {
  void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
  return library
             ? reinterpret_cast<Decompress>(dlsym(library, "ZSTD_decompress"))
             : nullptr;
}

Result<std::string> unpack(std::string_view packed, uint64_t size) {
  static const Decompress decompress = findDecompress();
  if (!decompress)
    return Status(CRIA_UNAVAILABLE,
                  {"zstd, which unpacks code for GPUs, is not available: "
                   "expected libzstd.so.1; install libzstd1"});
  std::string bytes(size, '\0');
  if (decompress(bytes.data(), size, packed.data(), packed.size()) != size)
    return Status(
        CRIA_INVALID_ARGUMENT,
        {"expected a frame of zstd that stands for ", size, " bytes"});
  return bytes;
}

} // namespace cria
