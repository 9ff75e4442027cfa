/// What the fuzz targets share. A target is one LLVMFuzzerTestOneInput; the
/// sanitizers say what is wrong with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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

/// What each name may become. Names stand between at signs: "[@value@]". The
/// first choice for a name ends soon.
using Grammar = std::map<std::string_view, std::vector<std::string_view>>;

/// What inputs are written in.
struct Language {
  Brackets brackets;
  Grammar grammar;
  std::vector<std::string_view> parts; // names that may replace a part
};

/// Changes an input as libFuzzer's own mutations do not. It puts up to
/// thousands of one of `brackets` around a part of `text`, or repeats a part as
/// often. The result has at most `limit` bytes; `seed` decides.
std::string nest(std::string_view text, const Brackets &brackets, size_t limit,
                 unsigned seed);

/// A text of about `limit` bytes at most that `name` becomes.
std::string generate(const Grammar &grammar, std::string_view name,
                     size_t limit, unsigned seed);

/// `text` nested, or with a part replaced by a generated one.
std::string change(std::string_view text, const Language &language,
                   size_t limit, unsigned seed);

/// JSON whose meaning nothing says.
const Language &json();

/// For LLVMFuzzerCustomMutator: changes the input as above one time in three,
/// and else leaves it to libFuzzer.
size_t mutate(uint8_t *data, size_t size, size_t limit, unsigned seed,
              const Language &language);
size_t mutate(uint8_t *data, size_t size, size_t limit, unsigned seed,
              const Brackets &brackets);

/// Ends the process as a crash, saying `what`, unless `holds`.
void require(bool holds, const char *what);

} // namespace cria::fuzz
