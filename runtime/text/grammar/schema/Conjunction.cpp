#include "runtime/text/grammar/schema/Conjunction.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>

namespace cria::grammar {

using Type = JsonTree::Type;

static constexpr std::pair<std::string_view, uint8_t> typeNames[] = {
    {"null", null},     {"boolean", boolean}, {"object", object},
    {"array", array},   {"string", string},   {"integer", integer},
    {"number", number},
};

namespace {

/// A keyword, and the types of the values that it limits: 0 for none.
struct Keyword {
  std::string_view name;
  uint8_t types;
};

} // namespace

static constexpr Keyword keywords[] = {
    {"type", anyType},
    {"enum", anyType},
    {"const", anyType},
    {"anyOf", anyType},
    {"oneOf", anyType},
    {"allOf", anyType},
    {"$ref", anyType},
    {"properties", object},
    {"required", object},
    {"additionalProperties", object},
    {"items", array},
    {"prefixItems", array},
    {"minItems", array},
    {"maxItems", array},
    {"minLength", string},
    {"maxLength", string},
    {"pattern", string},
    {"format", string},
    {"minimum", number},
    {"maximum", number},
    {"exclusiveMinimum", number},
    {"exclusiveMaximum", number},
    {"title", 0},
    {"description", 0},
    {"default", 0},
    {"example", 0},
    {"examples", 0},
    {"deprecated", 0},
    {"readOnly", 0},
    {"writeOnly", 0},
    {"discriminator", 0},
    {"contentEncoding", 0},
    {"contentMediaType", 0},
    {"contentSchema", 0},
    {"$schema", 0},
    {"$id", 0},
    {"$anchor", 0},
    {"$comment", 0},
    {"$defs", 0},
    {"definitions", 0},
};

// ---- Schemas ---------------------------------------------------------------

const std::vector<JsonTree> &Conjunctions::listAt(const JsonTree &place) {
  if (place.type != Type::Array || place.elements.empty())
    checks.failExpected(place, "a list of schemas");
  return place.elements;
}

void Conjunctions::checkKeywords(const JsonTree &schema) {
  for (const auto &[key, value] : schema.members) {
    std::string_view name = key;
    bool isKnown = std::any_of(
        std::begin(keywords), std::end(keywords),
        [&](const Keyword &keyword) { return keyword.name == name; });
    bool isHarmless = name.substr(0, 2) == "x-" ||
                      (name == "uniqueItems" && value.type == Type::Boolean &&
                       !value.boolean);
    if (!isKnown && !isHarmless)
      checks.fail(value, "this keyword is not supported", CRIA_UNIMPLEMENTED);
  }
}

/// The key that a step of a JSON pointer spells: "a~1b%20c" for "a/b c".
static std::string keyOf(std::string_view step) {
  std::string key;
  auto isHex = [&](size_t at) {
    return at < step.size() && isxdigit(static_cast<uint8_t>(step[at]));
  };
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] == '~' && i + 1 < step.size()) {
      key += step[++i] == '1' ? '/' : '~';
    } else if (step[i] == '%' && isHex(i + 1) && isHex(i + 2)) {
      std::string code(step.substr(i + 1, 2));
      key += static_cast<char>(strtol(code.c_str(), nullptr, 16));
      i += 2;
    } else {
      key += step[i];
    }
  }
  return key;
}

/// The schema that a "$ref" names.
const JsonTree *Conjunctions::resolve(const JsonTree &ref) {
  std::string_view pointer = ref.text;
  const JsonTree *found = &root;
  if (ref.type != Type::String || pointer.substr(0, 1) != "#" ||
      (pointer.size() > 1 && pointer[1] != '/')) {
    checks.failExpected(ref, "a place in this schema, such as '#/$defs/name'",
                        CRIA_UNIMPLEMENTED);
    return found;
  }
  pointer.remove_prefix(1);
  checks.spend(pointer.size());
  while (found && !pointer.empty()) {
    size_t end = std::min(pointer.find('/', 1), pointer.size());
    std::string key = keyOf(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
    checks.spend(found->members.size());
    if (found->type != Type::Array) {
      found = found->find(key);
      continue;
    }
    size_t index =
        key.empty() || key.find_first_not_of("0123456789") != key.npos
            ? SIZE_MAX
            : strtoul(key.c_str(), nullptr, 10);
    found = index < found->elements.size() ? &found->elements[index] : nullptr;
  }
  if (!found)
    checks.fail(ref, quote(ref.text) + " is nowhere in the schema");
  return found ? found : &root;
}

void Conjunctions::add(Conjunction &all, const JsonTree &schema) {
  if (!checks.spend(1 + 8 * schema.members.size() + all.parts.size()))
    return;
  if (schema.type == Type::Boolean) {
    all.never |= !schema.boolean;
    return;
  }
  if (schema.type != Type::Object)
    return checks.failExpected(schema, "a schema: an object, true or false");
  if (std::find(open.begin(), open.end(), &schema) != open.end())
    return checks.fail(
        schema,
        "this schema refers to itself, with no property or element in between");
  for (const Part &part : all.parts)
    if (part.schema == &schema) {
      if (part.anyOfMade || part.oneOfMade)
        checks.fail(schema, "a branch of this schema refers to the schema, "
                            "with no property or element in between");
      return;
    }
  if (open.size() == mostOpen)
    return checks.fail(schema,
                       "more than " + std::to_string(mostOpen) +
                           " schemas refer to each other in a row",
                       CRIA_RESOURCE_EXHAUSTED);
  checkKeywords(schema);
  bool constrains = false;
  for (const Keyword &keyword : keywords)
    constrains |= keyword.types && keyword.name != "$ref" &&
                  keyword.name != "allOf" && schema.find(keyword.name);
  if (constrains)
    all.parts.push_back({&schema});
  open.push_back(&schema);
  if (const JsonTree *ref = schema.find("$ref"))
    add(all, *resolve(*ref));
  if (const JsonTree *list = schema.find("allOf"))
    for (const JsonTree &one : listAt(*list))
      add(all, one);
  open.pop_back();
}

uint8_t typeOf(const JsonTree &value) {
  switch (value.type) {
  case Type::Null:
    return null;
  case Type::Boolean:
    return boolean;
  case Type::Number:
    return isWhole(value) ? integer : fraction;
  case Type::String:
    return string;
  case Type::Array:
    return array;
  case Type::Object:
    return object;
  }
  return 0;
}

uint8_t typesOf(const std::vector<const JsonTree *> &values) {
  uint8_t types = 0;
  for (const JsonTree *value : values)
    types |= typeOf(*value);
  return types;
}

uint8_t Conjunctions::typesOf(const std::vector<Part> &parts) {
  uint8_t types = anyType;
  for (const Part &part : parts) {
    const JsonTree *type = part.schema->find("type");
    if (!type)
      continue;
    uint8_t allowed = 0;
    auto add = [&](const JsonTree &name) {
      for (auto [known, bits] : typeNames)
        if (name.type == Type::String && name.text == known) {
          allowed |= bits;
          return;
        }
      checks.failExpected(name, "one of null, boolean, object, array, string, "
                                "integer and number");
    };
    checks.spend(type->elements.size());
    if (type->type == Type::Array)
      for (const JsonTree &name : type->elements)
        add(name);
    else
      add(*type);
    types &= allowed;
  }
  return types;
}

Conjunctions::Values Conjunctions::common(const Values &values,
                                          const Values &others) {
  auto textOf = [&](const JsonTree *value) -> std::string_view {
    auto [found, isNew] = canonicals.try_emplace(value);
    if (isNew && checks.ok())
      found->second = canonical(*value);
    checks.spend(4 + (isNew ? found->second.size() : 0));
    return found->second;
  };
  std::set<std::string_view> texts;
  for (const JsonTree *other : others)
    texts.insert(textOf(other));
  Values both;
  for (const JsonTree *value : values)
    if (texts.count(textOf(value)))
      both.push_back(value);
  return both;
}

bool Conjunctions::valuesOf(const std::vector<Part> &parts, Values &values) {
  bool found = false;
  auto restrict = [&](Values allowed) {
    if (!checks.spend(allowed.size()))
      return;
    values = found ? common(values, allowed) : std::move(allowed);
    found = true;
  };
  for (const Part &part : parts) {
    if (const JsonTree *one = part.schema->find("const"))
      restrict({one});
    const JsonTree *list = part.schema->find("enum");
    if (!list)
      continue;
    if (list->type != Type::Array)
      checks.failExpected(*list, "a list of values");
    Values all;
    for (const JsonTree &value : list->elements)
      all.push_back(&value);
    restrict(std::move(all));
  }
  return found;
}

void Conjunctions::refuseBesideValues(const std::vector<Part> &parts,
                                      uint8_t types) {
  for (const Part &part : parts)
    for (const Keyword &keyword : keywords)
      if (keyword.types != anyType && keyword.types & types)
        if (const JsonTree *place = part.schema->find(keyword.name))
          checks.fail(*place, "beside enum or const, this is not supported",
                      CRIA_UNIMPLEMENTED);
}

} // namespace cria::grammar
