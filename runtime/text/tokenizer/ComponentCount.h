#pragma once

#include "runtime/base/Json.h"

namespace cria {

/// Counts the components of one member of a tokenizer.json, such as its
/// normalizers. Sequences may hold sequences; the limit is for all together.
class ComponentCount {
public:
  /// Counts the one at `place`; false, with an error, if it is one too many.
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
