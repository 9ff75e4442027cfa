/// Reading large JSON quickly: in place, and without a document.
#pragma once

#include "runtime/base/FunctionRef.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace cria {

/// Reads JSON as programs write it: its strings have printable ASCII without
/// escapes, its numbers are whole and not negative, and its objects have no
/// members but those that the reader expects. Other text is not plain, but no
/// error yet: whoever finds that `isPlain` is false after reading drops the
/// results and reads the text with parseJson, which accepts it or says what is
/// wrong.
///
///   PlainJson json(text);
///   json.object([&](std::string_view key) {
///     sizes[key] = json.number();
///   });
///   if (!json.isPlain()) ...
class PlainJson {
public:
  /// `text` must outlive the strings that are read.
  explicit PlainJson(std::string_view text)
      : at(text.data()), end(at + text.size()) {}

  /// Reads an object, whose keys must differ. `member` reads the value of
  /// `key`.
  void object(FunctionRef<void(std::string_view key)> member);
  /// Reads an array. `element` reads an element.
  void array(FunctionRef<void()> element);
  /// A string; empty if the text is not plain.
  std::string_view string();
  /// A number below 10^18; 0 if the text is not plain.
  uint64_t number();
  /// Passes over a string or a number.
  void scalar();

  /// Notes that the text is not what the reader can take.
  void fail();
  /// Whether all of the text was read, and was plain.
  bool isPlain();

private:
  void skipSpace();
  bool take(char c);
  void expect(char c);
  std::string_view quoted();
  void count();

  const char *at, *end;
  bool plain = true;
  uint64_t values = 0; // at most as many as parseJson takes
  /// Hashes of the keys of the objects around `at`.
  std::vector<uint64_t> seen;
};

} // namespace cria
