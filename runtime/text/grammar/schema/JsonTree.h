/// JSON whose members keep their order, and whose values know their place.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria::grammar {

struct JsonTree {
  enum class Type : uint8_t { Null, Boolean, Number, String, Array, Object };

  Type type = Type::Null;
  bool boolean = false;
  std::string text; // of a string; a number as it is written
  std::vector<JsonTree> elements;
  std::vector<std::pair<std::string, JsonTree>> members;
  const JsonTree *parent = nullptr;

  /// The member `key`, or null.
  const JsonTree *find(std::string_view key) const;
  /// Where the value stands in its document: "properties.a.items".
  std::string path() const;
};

/// Parses a document of at most 4 MiB. `root` gets the value; it must stay
/// where it is.
Status parseJsonTree(std::string_view text, JsonTree &root);

/// Whether a number is whole, such as 1.0 and 12e3, exactly.
bool isWhole(const JsonTree &number);

/// A text that is the same for equal values, and differs for others. 1.0 equals
/// 1, and objects may have their members in any order.
std::string canonical(const JsonTree &value);

/// A string as JSON spells it, with no more escapes than it must have.
std::string jsonString(std::string_view text);

} // namespace cria::grammar
