/// The schemas that one value must match, and what their keywords say together.
///
/// Several schemas may apply to one value: by allOf, by $ref beside other
/// keywords, or because two schemas name the same property. The list of these
/// schemas is a conjunction.
#pragma once

#include "runtime/text/grammar/schema/Checks.h"
#include "runtime/text/grammar/schema/JsonTree.h"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace cria::grammar {

/// The type of a value; an integer is both a number and an integer.
enum Types : uint8_t {
  null = 1,
  boolean = 2,
  object = 4,
  array = 8,
  string = 16,
  integer = 32,
  fraction = 64, // numbers that need not be integers
  number = integer | fraction,
  anyType = 127
};

/// The type of a value.
uint8_t typeOf(const JsonTree &value);
/// The types of values.
uint8_t typesOf(const std::vector<const JsonTree *> &values);

/// A schema that the value must match. `anyOfMade`: a branch of its anyOf has
/// been chosen, and is a part of its own. `oneOfMade`: so has one of its oneOf.
struct Part {
  const JsonTree *schema;
  bool anyOfMade = false, oneOfMade = false;

  bool operator<(const Part &other) const {
    return std::tie(schema, anyOfMade, oneOfMade) <
           std::tie(other.schema, other.anyOfMade, other.oneOfMade);
  }
};

/// Schemas that one value must match. `never`: no value matches them.
struct Conjunction {
  std::vector<Part> parts;
  bool never = false;
};

/// Reads the conjunctions of a document.
class Conjunctions {
public:
  using Values = std::vector<const JsonTree *>;

  /// `root` must outlive the object and stay where it is.
  Conjunctions(const JsonTree &root, Checks &checks)
      : root(root), checks(checks) {}

  /// Adds a schema, and the schemas of its "$ref" and "allOf".
  void add(Conjunction &all, const JsonTree &schema);
  /// The schemas of a list such as anyOf.
  const std::vector<JsonTree> &listAt(const JsonTree &place);

  /// The types that all parts allow.
  uint8_t typesOf(const std::vector<Part> &parts);
  /// The values that enum and const list. False if there is neither.
  bool valuesOf(const std::vector<Part> &parts, Values &values);
  /// The values that are in both lists.
  Values common(const Values &values, const Values &others);
  /// Refuses keywords that limit values of `types`, because they stand beside
  /// enum or const.
  void refuseBesideValues(const std::vector<Part> &parts, uint8_t types);

private:
  void checkKeywords(const JsonTree &schema);
  const JsonTree *resolve(const JsonTree &ref);

  const JsonTree &root;
  Checks &checks;
  std::map<const JsonTree *, std::string> canonicals; // of enum and const
  std::vector<const JsonTree *> open; // each refers to the next one
  static constexpr size_t mostOpen = 100;
};

} // namespace cria::grammar
