/// What the fuzz targets share. A target is one LLVMFuzzerTestOneInput; the
/// sanitizers say what is wrong with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria::fuzz {

inline std::string_view textOf(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// A folder in memory, removed with the process.
class Folder {
public:
  Folder();
  ~Folder();
  /// Writes the file `name` and returns its path.
  std::string write(const std::string &name, std::string_view bytes) const;
  const std::string &path() const { return folder; }

private:
  std::string folder;
};

/// Pairs of texts that may stand around a part of an input: {"[", "]"}.
using Brackets = std::vector<std::pair<std::string_view, std::string_view>>;

/// Changes an input as libFuzzer's own mutations do not. It puts up to
/// thousands of one of `brackets` around a part of `text`, or repeats a part as
/// often. The result has at most `limit` bytes; `seed` decides.
std::string nest(std::string_view text, const Brackets &brackets, size_t limit,
                 unsigned seed);

/// For LLVMFuzzerCustomMutator: nests one time in four, and else leaves the
/// input to libFuzzer.
size_t mutate(uint8_t *data, size_t size, size_t limit, unsigned seed,
              const Brackets &brackets);

/// Ends the process as a crash, saying `what`, unless `holds`.
void require(bool holds, const char *what);

} // namespace cria::fuzz
