/// Reading JSON whose every member either counts or is refused by name.
#pragma once

#include "runtime/Json.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace cria {

/// Refuses a value that is well formed and means something not done here.
inline void refuse(const JsonCursor &place, const std::string &expected) {
  std::string found =
      place.raw().dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (found.size() > 60)
    found = found.substr(0, 60) + "...";
  place.fail("is " + found + ", which is not supported: expected " + expected,
             CRIA_UNIMPLEMENTED);
}

/// Refuses the members of `object` that are not among `keys`.
inline void onlyKeys(const JsonCursor &object,
                     std::initializer_list<std::string_view> keys) {
  if (!object.raw().is_object())
    return object.expected("an object");
  for (const auto &[key, value] : object.raw().items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      object[key].fail("is not supported", CRIA_UNIMPLEMENTED);
}

/// Counts the components of one member of a tokenizer.json, such as its
/// normalizers. Sequences may hold sequences; the limit is for all together.
class ComponentCount {
public:
  /// Counts the one at `place`; false, and an error, where it is one too many.
  bool add(const JsonCursor &place) {
    if (++count > most)
      place.fail("is one of more than " + std::to_string(most) +
                 " components, sequences included");
    return place.ok();
  }

private:
  static constexpr size_t most = 64;
  size_t count = 0;
};

} // namespace cria
