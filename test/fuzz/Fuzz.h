/// What the fuzz targets share. A target is one LLVMFuzzerTestOneInput; the
/// sanitizers say what is wrong with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

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

/// Ends the process as a crash, saying `what`, unless `holds`.
void require(bool holds, const char *what);

} // namespace cria::fuzz
