#include "runtime/text/grammar/schema/Apart.h"

#include <string>

namespace cria::grammar {

namespace {

class Apartness {
public:
  Apartness(Conjunctions &conjunctions, Checks &checks)
      : conjunctions(conjunctions), checks(checks) {}

  void check(const JsonTree &oneOf);

private:
  bool areApart(const Conjunction &one, const Conjunction &other, int depth);
  bool mustHave(const Conjunction &all, const std::string &name,
                Conjunction &its);

  Conjunctions &conjunctions;
  Checks &checks;
};

} // namespace

/// The elements of a list that may be missing.
static const std::vector<JsonTree> &namesIn(const JsonTree *list) {
  static const std::vector<JsonTree> none;
  return list ? list->elements : none;
}

/// Whether the schemas require a property. Adds its own schemas to `its`.
bool Apartness::mustHave(const Conjunction &all, const std::string &name,
                         Conjunction &its) {
  bool found = false;
  for (const Part &part : all.parts) {
    const JsonTree *properties = part.schema->find("properties");
    checks.spend(properties ? properties->members.size() : 1);
    if (const JsonTree *own = properties ? properties->find(name) : nullptr)
      conjunctions.add(its, *own);
    const auto &names = namesIn(part.schema->find("required"));
    checks.spend(names.size());
    for (const JsonTree &required : names)
      found |= required.text == name;
  }
  return found;
}

/// Whether it is clear that no value matches both.
bool Apartness::areApart(const Conjunction &one, const Conjunction &other,
                         int depth) {
  if (!checks.spend(one.parts.size() + other.parts.size() + 1) || one.never ||
      other.never)
    return true;
  Conjunctions::Values values, others;
  bool isList = conjunctions.valuesOf(one.parts, values),
       isOtherList = conjunctions.valuesOf(other.parts, others);
  uint8_t types =
      conjunctions.typesOf(one.parts) & conjunctions.typesOf(other.parts);
  if (isList)
    types &= typesOf(values);
  if (isOtherList)
    types &= typesOf(others);
  if (!types)
    return true;
  if (isList && isOtherList)
    return conjunctions.common(values, others).empty();
  if (types != object || depth == 2)
    return false;
  // A property that both require, and whose two schemas no value matches.
  for (const Part &part : one.parts)
    for (const JsonTree &name : namesIn(part.schema->find("required"))) {
      Conjunction its, theirs;
      if (mustHave(one, name.text, its) && mustHave(other, name.text, theirs) &&
          areApart(its, theirs, depth + 1))
        return true;
    }
  return false;
}

void Apartness::check(const JsonTree &oneOf) {
  const std::vector<JsonTree> &list = conjunctions.listAt(oneOf);
  std::vector<Conjunction> all(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    conjunctions.add(all[i], list[i]);
    for (size_t before = 0; before < i && checks.ok(); ++before)
      if (!areApart(all[before], all[i], 0))
        checks.fail(
            oneOf,
            "branches " + std::to_string(before) + " and " + std::to_string(i) +
                " may both match, which is not supported: write anyOf, or "
                "give each another type, or a required property with another "
                "const",
            CRIA_UNIMPLEMENTED);
  }
}

void checkApart(const JsonTree &oneOf, Conjunctions &conjunctions,
                Checks &checks) {
  Apartness(conjunctions, checks).check(oneOf);
}

} // namespace cria::grammar
