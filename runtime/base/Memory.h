/// Memory by the page: files mapped for reading, and zeroed arenas.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/base/files/File.h"

#include <cstddef>
#include <cstdint>

namespace cria {

/// A range of pages; unmaps itself.
class Mapping {
public:
  Mapping() = default;
  Mapping(Mapping &&other) noexcept;
  Mapping &operator=(Mapping &&other) noexcept;
  ~Mapping();

  /// The whole of `file`, read-only.
  static Result<Mapping> ofFile(const File &file);
  /// `size` zeroed bytes, in huge pages if the system has them.
  static Result<Mapping> zeroed(uint64_t size, const char *purpose);

  std::byte *data() const { return begin; }
  uint64_t size() const { return bytes; }

private:
  std::byte *begin = nullptr;
  uint64_t bytes = 0;
};

/// Maps the pages of [data, data + size) now, by all cores at once, instead of
/// one fault at a time in the first forward pass.
void populate(const std::byte *data, uint64_t size);

/// Says that few of the pages in [data, data + size), of a file, will be read.
/// Otherwise the system also maps the pages around a page that is read: 2 MiB
/// if the file lies in such pieces in memory, even beyond an end of the range.
void expectFewReads(const std::byte *data, uint64_t size);

} // namespace cria
