/// A schema says what a value must not be; a grammar, what a text may be. What
/// several schemas say of one value (allOf, $ref beside other keywords, the
/// same property in two of them) is kept as a list, a conjunction, until it is
/// known what type the value has: then each keyword of a type is combined by
/// a rule of its own. A choice (anyOf) is made before that: one conjunction for
/// each branch. A conjunction has one rule, however often it comes up, so that
/// schemas that refer to themselves end.
#include "runtime/text/grammar/Schema.h"

#include "runtime/base/Json.h"
#include "runtime/text/grammar/Formats.h"
#include "runtime/text/grammar/Gbnf.h"
#include "runtime/text/grammar/JsonTree.h"
#include "runtime/text/grammar/Numbers.h"
#include "runtime/text/grammar/Regex.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <tuple>

namespace cria::grammar {

using Type = JsonTree::Type;

/// JSON without a schema. A blank or a line may follow a bracket, a comma and a
/// colon, and precede a closing bracket.
static constexpr const char *json = R"(
root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)* ws)? "}"
array ::= "[" ws (value ("," ws value)* ws)? "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" unit)
unit ::= ([0-9A-CE-Fa-ce-f] hex | [dD] [0-7]) hex hex |
         [dD] [89ABab] hex hex "\\u" [dD] [C-Fc-f] hex hex
hex ::= [0-9A-Fa-f]
number ::= integer ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
integer ::= "-"? ("0" | [1-9] [0-9]*)
ws ::= (" " | "\n" [ \t]{0,20})?
plain ::= [^"\\\x00-\x1F] | "\\" (["\\bfnrt] | "u00" [01] [0-9a-f])
)";

namespace {

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

constexpr std::pair<std::string_view, uint8_t> typeNames[] = {
    {"null", null},     {"boolean", boolean}, {"object", object},
    {"array", array},   {"string", string},   {"integer", integer},
    {"number", number},
};

/// What a keyword constrains: values of these types; 0 for none.
struct Keyword {
  std::string_view name;
  uint8_t types;
};

constexpr Keyword keywords[] = {
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

/// A schema that holds, but for the choices in it that are made already.
struct Part {
  const JsonTree *schema;
  bool anyOfMade = false, oneOfMade = false;

  bool operator<(const Part &other) const {
    return std::tie(schema, anyOfMade, oneOfMade) <
           std::tie(other.schema, other.anyOfMade, other.oneOfMade);
  }
};

/// Schemas that hold of one value. `never`: none does.
struct Conjunction {
  std::vector<Part> parts;
  bool never = false;
};

class SchemaCompiler {
public:
  Result<std::vector<Rule>> compile(std::string_view text);

private:
  using Names = std::vector<std::string_view>;
  struct Properties {
    Names names;    // in the order of the schemas
    Names required; // sorted
    std::map<std::string_view, std::vector<const JsonTree *>> schemas;
    std::vector<const JsonTree *> others; // of properties without a name
  };

  void fail(const JsonTree &place, const std::string &what,
            cria_status code = CRIA_INVALID_ARGUMENT);
  bool spend(size_t units);
  RuleId known(std::string_view name) const;
  RuleId addRule();

  // Which schemas hold.
  void addTo(Conjunction &all, const JsonTree &schema);
  void checkKeywords(const JsonTree &schema);
  const JsonTree *resolve(const JsonTree &ref);
  const std::vector<JsonTree> &listAt(const JsonTree &place);

  // The texts of what holds.
  Expression valueOf(Conjunction all);
  Expression valueOf(std::vector<const JsonTree *> schemas);
  Expression body(const std::vector<Part> &parts);
  Expression branches(std::vector<Part> parts, size_t at, bool any);
  void checkApart(const JsonTree &oneOf);
  bool areApart(const Conjunction &one, const Conjunction &other, int depth);
  bool mustHave(const Conjunction &all, const std::string &name,
                Conjunction &its);
  uint8_t typesOf(const std::vector<Part> &parts);
  bool valuesOf(const std::vector<Part> &parts,
                std::vector<const JsonTree *> &values);
  Expression enumeration(const std::vector<Part> &parts,
                         const std::vector<const JsonTree *> &values,
                         uint8_t types);
  std::vector<const JsonTree *>
  common(const std::vector<const JsonTree *> &values,
         const std::vector<const JsonTree *> &others);
  Expression exactly(const JsonTree &value);

  // By type.
  uint32_t count(const JsonTree &place);
  void counts(const std::vector<Part> &parts, const char *leastName,
              const char *mostName, uint32_t &least, uint32_t &most);
  Expression stringOf(const std::vector<Part> &parts);
  Expression spelledSet(const Characters &set);
  Expression spelled(Expression text);
  Expression patternOf(const JsonTree &place, std::string_view regex,
                       Match match);
  Expression numberOf(const std::vector<Part> &parts, bool whole);
  Expression elementOf(const std::vector<Part> &parts, size_t index);
  Expression elementsOf(Expression element, bool first, uint32_t least,
                        uint32_t most);
  Expression arrayOf(const std::vector<Part> &parts);
  Properties propertiesOf(const std::vector<Part> &parts);
  Expression otherMember(const Properties &all);
  Expression objectOf(const std::vector<Part> &parts);
  Expression keyExcept(Names names);
  Expression member(Expression key, Expression value) const {
    return sequence({std::move(key), literal(":"), blank(), std::move(value)});
  }
  Expression blank() const { return call(known("ws")); }
  Expression next() const { return sequence({literal(","), blank()}); }

  JsonTree root;
  Status status;
  std::vector<Rule> rules;
  std::map<std::string_view, RuleId> builtin;
  using RuleIds = std::map<std::vector<Part>, RuleId>;
  RuleIds ruleIds;
  std::vector<RuleIds::const_iterator> pending; // bodies that are not made yet
  std::map<std::vector<Characters::Range>, RuleId> setRules;
  std::map<std::pair<std::string_view, Match>, RuleId> regexRules;
  std::map<const JsonTree *, std::string> canonicals; // of enum and const
  std::vector<const JsonTree *> open; // schemas that refer to the next one
  size_t work = 0;

  static constexpr size_t mostRules = 1u << 16;
  static constexpr size_t mostOpen = 100;
  static constexpr size_t mostWork = 1u << 24;
};

} // namespace

void SchemaCompiler::fail(const JsonTree &place, const std::string &what,
                          cria_status code) {
  if (!status.ok())
    return;
  std::string path = place.path();
  status =
      Status(code, (path.empty() ? "the schema" : quote(path)) + ": " + what);
}

/// Pays for work, in units of some ten nanoseconds. False after an error.
bool SchemaCompiler::spend(size_t units) {
  work += units;
  if (work > mostWork)
    fail(root, "takes too much work", CRIA_RESOURCE_EXHAUSTED);
  return status.ok();
}

/// The rule of JSON that is called so.
RuleId SchemaCompiler::known(std::string_view name) const {
  return builtin.find(name)->second;
}

RuleId SchemaCompiler::addRule() {
  if (rules.size() == mostRules) {
    fail(root, "needs more than " + std::to_string(mostRules) + " rules",
         CRIA_RESOURCE_EXHAUSTED);
    return 0;
  }
  rules.push_back({"the schema", {}});
  return static_cast<RuleId>(rules.size() - 1);
}

// ---- Which schemas hold ----------------------------------------------------

/// The elements of a list that may be missing.
static const std::vector<JsonTree> &namesIn(const JsonTree *list) {
  static const std::vector<JsonTree> none;
  return list ? list->elements : none;
}

/// The schemas of anyOf and the like.
const std::vector<JsonTree> &SchemaCompiler::listAt(const JsonTree &place) {
  if (place.type != Type::Array || place.elements.empty())
    fail(place, "expected a list of schemas");
  return place.elements;
}

void SchemaCompiler::checkKeywords(const JsonTree &schema) {
  for (const auto &[key, value] : schema.members) {
    std::string_view name = key;
    bool isKnown = std::any_of(
        std::begin(keywords), std::end(keywords),
        [&](const Keyword &keyword) { return keyword.name == name; });
    bool isHarmless = name.substr(0, 2) == "x-" ||
                      (name == "uniqueItems" && value.type == Type::Boolean &&
                       !value.boolean);
    if (!isKnown && !isHarmless)
      fail(value, "this keyword is not supported", CRIA_UNIMPLEMENTED);
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
const JsonTree *SchemaCompiler::resolve(const JsonTree &ref) {
  std::string_view pointer = ref.text;
  const JsonTree *found = &root;
  if (ref.type != Type::String || pointer.substr(0, 1) != "#" ||
      (pointer.size() > 1 && pointer[1] != '/')) {
    fail(ref, "expected a place in this schema, such as '#/$defs/name'",
         CRIA_UNIMPLEMENTED);
    return found;
  }
  pointer.remove_prefix(1);
  spend(pointer.size());
  while (found && !pointer.empty()) {
    size_t end = std::min(pointer.find('/', 1), pointer.size());
    std::string key = keyOf(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
    spend(found->members.size());
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
    fail(ref, quote(ref.text) + " is nowhere in the schema");
  return found ? found : &root;
}

/// Adds a schema, and those that hold with it.
void SchemaCompiler::addTo(Conjunction &all, const JsonTree &schema) {
  if (!spend(1 + 8 * schema.members.size() + all.parts.size()))
    return;
  if (schema.type == Type::Boolean) {
    all.never |= !schema.boolean;
    return;
  }
  if (schema.type != Type::Object)
    return fail(schema, "expected a schema: an object, true or false");
  if (std::find(open.begin(), open.end(), &schema) != open.end())
    return fail(schema, "this schema holds only if it holds itself");
  for (const Part &part : all.parts)
    if (part.schema == &schema) {
      if (part.anyOfMade || part.oneOfMade)
        fail(schema, "a branch of this schema refers back to the schema");
      return;
    }
  if (open.size() == mostOpen)
    return fail(schema,
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
    addTo(all, *resolve(*ref));
  if (const JsonTree *list = schema.find("allOf"))
    for (const JsonTree &one : listAt(*list))
      addTo(all, one);
  open.pop_back();
}

// ---- Conjunctions ----------------------------------------------------------

Expression SchemaCompiler::valueOf(std::vector<const JsonTree *> schemas) {
  Conjunction all;
  for (const JsonTree *schema : schemas)
    addTo(all, *schema);
  return valueOf(std::move(all));
}

Expression SchemaCompiler::valueOf(Conjunction all) {
  if (all.never || !spend(all.parts.size()))
    return choice({});
  if (all.parts.empty())
    return call(known("value"));
  auto [found, isNew] = ruleIds.try_emplace(std::move(all.parts), 0);
  if (isNew) {
    found->second = addRule();
    pending.push_back(found);
  }
  return call(found->second);
}

Expression SchemaCompiler::body(const std::vector<Part> &parts) {
  for (const Part &part : parts)
    if (!spend(8 * part.schema->members.size()))
      return {};
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].anyOfMade && parts[i].schema->find("anyOf"))
      return branches(parts, i, true);
    if (!parts[i].oneOfMade && parts[i].schema->find("oneOf"))
      return branches(parts, i, false);
  }
  uint8_t types = typesOf(parts);
  std::vector<const JsonTree *> values;
  if (valuesOf(parts, values))
    return enumeration(parts, values, types);
  std::vector<Expression> made;
  auto add = [&](uint8_t type, auto make) {
    if ((types & type) == type && status.ok())
      made.push_back(make());
  };
  add(object, [&] { return objectOf(parts); });
  add(array, [&] { return arrayOf(parts); });
  add(string, [&] { return stringOf(parts); });
  if (types & number)
    made.push_back(numberOf(parts, !(types & fraction)));
  add(boolean, [] { return choice({literal("true"), literal("false")}); });
  add(null, [] { return literal("null"); });
  return choice(std::move(made));
}

/// A choice among the branches of one part's anyOf or oneOf.
Expression SchemaCompiler::branches(std::vector<Part> parts, size_t at,
                                    bool any) {
  const JsonTree &list = *parts[at].schema->find(any ? "anyOf" : "oneOf");
  (any ? parts[at].anyOfMade : parts[at].oneOfMade) = true;
  if (!any)
    checkApart(list);
  std::vector<Expression> made;
  for (const JsonTree &branch : listAt(list)) {
    if (!spend(parts.size()))
      break;
    Conjunction all{parts};
    addTo(all, branch);
    made.push_back(valueOf(std::move(all)));
  }
  return choice(std::move(made));
}

static uint8_t typeOf(const JsonTree &value) {
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

static uint8_t typesOf(const std::vector<const JsonTree *> &values) {
  uint8_t types = 0;
  for (const JsonTree *value : values)
    types |= typeOf(*value);
  return types;
}

/// The values that are among `others`, too.
std::vector<const JsonTree *>
SchemaCompiler::common(const std::vector<const JsonTree *> &values,
                       const std::vector<const JsonTree *> &others) {
  auto textOf = [&](const JsonTree *value) -> std::string_view {
    auto [found, isNew] = canonicals.try_emplace(value);
    if (isNew && status.ok())
      found->second = canonical(*value);
    spend(4 + (isNew ? found->second.size() : 0));
    return found->second;
  };
  std::set<std::string_view> texts;
  for (const JsonTree *other : others)
    texts.insert(textOf(other));
  std::vector<const JsonTree *> both;
  for (const JsonTree *value : values)
    if (texts.count(textOf(value)))
      both.push_back(value);
  return both;
}

/// Exactly one of the branches of oneOf may hold: which is so if no two can.
void SchemaCompiler::checkApart(const JsonTree &oneOf) {
  const std::vector<JsonTree> &list = listAt(oneOf);
  std::vector<Conjunction> all(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    addTo(all[i], list[i]);
    for (size_t before = 0; before < i && status.ok(); ++before)
      if (!areApart(all[before], all[i], 0))
        fail(oneOf,
             "branches " + std::to_string(before) + " and " +
                 std::to_string(i) +
                 " may both hold, which is not supported: write anyOf, or "
                 "give each another type, or a required property with another "
                 "const",
             CRIA_UNIMPLEMENTED);
  }
}

/// Whether it is clear that no value is both.
bool SchemaCompiler::areApart(const Conjunction &one, const Conjunction &other,
                              int depth) {
  if (!spend(one.parts.size() + other.parts.size() + 1) || one.never ||
      other.never)
    return true;
  std::vector<const JsonTree *> values, others;
  bool isList = valuesOf(one.parts, values),
       isOtherList = valuesOf(other.parts, others);
  uint8_t types = typesOf(one.parts) & typesOf(other.parts);
  if (isList)
    types &= grammar::typesOf(values);
  if (isOtherList)
    types &= grammar::typesOf(others);
  if (!types)
    return true;
  if (isList && isOtherList)
    return common(values, others).empty();
  if (types != object || depth == 2)
    return false;
  // A property that both must have, and that cannot be both.
  for (const Part &part : one.parts)
    for (const JsonTree &name : namesIn(part.schema->find("required"))) {
      Conjunction its, others;
      if (mustHave(one, name.text, its) && mustHave(other, name.text, others) &&
          areApart(its, others, depth + 1))
        return true;
    }
  return false;
}

/// Whether a property is required; adds what holds of it to `its`.
bool SchemaCompiler::mustHave(const Conjunction &all, const std::string &name,
                              Conjunction &its) {
  bool found = false;
  for (const Part &part : all.parts) {
    const JsonTree *properties = part.schema->find("properties");
    spend(properties ? properties->members.size() : 1);
    if (const JsonTree *own = properties ? properties->find(name) : nullptr)
      addTo(its, *own);
    const auto &names = namesIn(part.schema->find("required"));
    spend(names.size());
    for (const JsonTree &required : names)
      found |= required.text == name;
  }
  return found;
}

/// The types that all parts allow.
uint8_t SchemaCompiler::typesOf(const std::vector<Part> &parts) {
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
      fail(name, "expected one of null, boolean, object, array, string, "
                 "integer and number");
    };
    spend(type->elements.size());
    if (type->type == Type::Array)
      for (const JsonTree &name : type->elements)
        add(name);
    else
      add(*type);
    types &= allowed;
  }
  return types;
}

// ---- Values that are given -------------------------------------------------

/// The values that enum and const list. False if there is neither.
bool SchemaCompiler::valuesOf(const std::vector<Part> &parts,
                              std::vector<const JsonTree *> &values) {
  bool found = false;
  auto restrict = [&](std::vector<const JsonTree *> allowed) {
    if (!spend(allowed.size()))
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
      fail(*list, "expected a list of values");
    std::vector<const JsonTree *> all;
    for (const JsonTree &value : list->elements)
      all.push_back(&value);
    restrict(std::move(all));
  }
  return found;
}

Expression
SchemaCompiler::enumeration(const std::vector<Part> &parts,
                            const std::vector<const JsonTree *> &values,
                            uint8_t types) {
  std::vector<Expression> made;
  uint8_t listed = 0;
  for (const JsonTree *value : values)
    if (uint8_t type = typeOf(*value); types & type) {
      made.push_back(exactly(*value));
      listed |= type;
    }
  for (const Part &part : parts)
    for (const Keyword &keyword : keywords)
      if (keyword.types != anyType && keyword.types & listed)
        if (const JsonTree *place = part.schema->find(keyword.name))
          fail(*place, "beside enum or const, this is not supported",
               CRIA_UNIMPLEMENTED);
  return choice(std::move(made));
}

/// The texts of one value.
Expression SchemaCompiler::exactly(const JsonTree &value) {
  std::vector<Expression> parts;
  if (!spend(64 + value.text.size()))
    return {};
  switch (value.type) {
  case Type::Null:
    return literal("null");
  case Type::Boolean:
    return literal(value.boolean ? "true" : "false");
  case Type::String:
    return literal(jsonString(value.text));
  case Type::Number: {
    auto decimal = Decimal::parse(value.text);
    std::string plain = decimal ? (decimal->negative ? "-" : "") +
                                      std::to_string(decimal->whole)
                                : value.text;
    if (decimal && !decimal->fraction.empty())
      plain += "." + decimal->fraction;
    if (plain == value.text)
      return literal(plain);
    return choice({literal(plain), literal(value.text)});
  }
  case Type::Array:
    for (const JsonTree &element : value.elements) {
      parts.push_back(parts.empty() ? blank() : next());
      parts.push_back(exactly(element));
    }
    parts.push_back(blank());
    parts.insert(parts.begin(), literal("["));
    parts.push_back(literal("]"));
    return sequence(std::move(parts));
  case Type::Object:
    for (const auto &[key, member] : value.members) {
      spend(key.size());
      parts.push_back(parts.empty() ? blank() : next());
      parts.push_back(literal(jsonString(key) + ":"));
      parts.push_back(blank());
      parts.push_back(exactly(member));
    }
    parts.push_back(blank());
    parts.insert(parts.begin(), literal("{"));
    parts.push_back(literal("}"));
    return sequence(std::move(parts));
  }
  return {};
}

// ---- Strings and numbers ---------------------------------------------------

/// A count such as minItems.
uint32_t SchemaCompiler::count(const JsonTree &place) {
  auto decimal =
      place.type == Type::Number ? Decimal::parse(place.text) : std::nullopt;
  if (!decimal || decimal->negative || !decimal->fraction.empty()) {
    fail(place, "expected a whole number of at least 0");
    return 0;
  }
  return static_cast<uint32_t>(
      std::min<uint64_t>(decimal->whole, Expression::unbounded - 1));
}

void SchemaCompiler::counts(const std::vector<Part> &parts,
                            const char *leastName, const char *mostName,
                            uint32_t &least, uint32_t &most) {
  least = 0;
  most = Expression::unbounded;
  for (const Part &part : parts) {
    if (const JsonTree *place = part.schema->find(leastName))
      least = std::max(least, count(*place));
    if (const JsonTree *place = part.schema->find(mostName))
      most = std::min(most, count(*place));
  }
}

/// One character of a set as JSON spells it within a string. A set has a rule
/// if some of it is escaped, because it takes many states: `.` takes 200.
Expression SchemaCompiler::spelledSet(const Characters &set) {
  Characters special{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  Characters escapes = set.intersection(special);
  if (escapes.empty())
    return oneOf(set);
  auto [found, isNew] = setRules.try_emplace(set.ranges(), 0);
  if (isNew) {
    std::vector<Expression> parts;
    for (auto [first, last] : escapes.ranges())
      for (uint32_t c = first; c <= last; ++c)
        parts.push_back(spelled(literal(utf8Of(c))));
    parts.push_back(oneOf(set.intersection(special.complement())));
    RuleId rule = found->second = addRule();
    rules[rule].body = choice(std::move(parts));
  }
  return call(found->second);
}

/// The characters of a text as JSON spells them within a string.
Expression SchemaCompiler::spelled(Expression text) {
  switch (text.kind) {
  case Expression::Kind::Literal: {
    std::string quoted = jsonString(text.text);
    text.text = quoted.substr(1, quoted.size() - 2);
    return text;
  }
  case Expression::Kind::Set:
    return spelledSet(text.set);
  default:
    for (Expression &part : text.parts)
      part = spelled(std::move(part));
    return text;
  }
}

/// A string that a regular expression matches; each expression has a rule.
Expression SchemaCompiler::patternOf(const JsonTree &place,
                                     std::string_view regex, Match match) {
  auto [found, isNew] = regexRules.try_emplace({regex, match}, 0);
  if (isNew && spend(32 * regex.size())) {
    Result<Expression> parsed = parseRegex(regex, match);
    if (!parsed.ok()) {
      fail(place, parsed.status().message(), parsed.status().code());
      return {};
    }
    Expression text = spelled(std::move(*parsed));
    RuleId rule = found->second = addRule();
    rules[rule].body =
        sequence({literal("\""), std::move(text), literal("\"")});
  }
  return call(found->second);
}

Expression SchemaCompiler::stringOf(const std::vector<Part> &parts) {
  uint32_t least = 0, most = 0;
  counts(parts, "minLength", "maxLength", least, most);
  bool isBounded = least > 0 || most != Expression::unbounded;
  const JsonTree *shape = nullptr; // a pattern or a format
  Match match = Match::Whole;      // a format as a whole
  for (const Part &part : parts)
    for (const char *name : {"pattern", "format"}) {
      const JsonTree *place = part.schema->find(name);
      if (!place)
        continue;
      if (place->type != Type::String)
        fail(*place, "expected a text");
      Match how = *name == 'p' ? Match::Part : Match::Whole;
      if (shape && (how != match || shape->text != place->text))
        fail(*place, "a second pattern or format is not supported",
             CRIA_UNIMPLEMENTED);
      shape = place;
      match = how;
    }
  if (shape && isBounded)
    fail(*shape, "beside minLength or maxLength, this is not supported",
         CRIA_UNIMPLEMENTED);
  if (shape && match == Match::Part)
    return patternOf(*shape, shape->text, match);
  if (shape) {
    const char *regex = formatRegex(shape->text);
    if (!regex)
      fail(*shape,
           quote(shape->text) + " is not supported, expected one of " +
               formatNames,
           CRIA_UNIMPLEMENTED);
    return regex ? patternOf(*shape, regex, match) : Expression();
  }
  if (!isBounded)
    return call(known("string"));
  if (most < least)
    return choice({});
  return sequence(
      {literal("\""), repeat(call(known("char")), least, most), literal("\"")});
}

Expression SchemaCompiler::numberOf(const std::vector<Part> &parts,
                                    bool whole) {
  Range range;
  for (const Part &part : parts)
    for (std::string_view name :
         {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
      const JsonTree *place = part.schema->find(name);
      if (!place)
        continue;
      auto decimal = place->type == Type::Number ? Decimal::parse(place->text)
                                                 : std::nullopt;
      if (!decimal)
        fail(*place, "expected a number of at most 19 digits and 40 after the "
                     "point");
      Bound bound{decimal.value_or(Decimal()), name[0] == 'e'};
      if (name.substr(name.size() - 7) == "minimum" ||
          name == "exclusiveMinimum")
        range.atLeast(std::move(bound));
      else
        range.atMost(std::move(bound));
    }
  if (!range.low && !range.high)
    return call(known(whole ? "integer" : "number"));
  return whole ? integersIn(range) : numbersIn(range);
}

// ---- Arrays and objects ----------------------------------------------------

/// The element at `index`.
Expression SchemaCompiler::elementOf(const std::vector<Part> &parts,
                                     size_t index) {
  std::vector<const JsonTree *> schemas;
  spend(4 * parts.size());
  for (const Part &part : parts) {
    const JsonTree *list = part.schema->find("prefixItems"),
                   *items = part.schema->find("items");
    if (list && index < list->elements.size())
      schemas.push_back(&list->elements[index]);
    else if (items)
      schemas.push_back(items);
  }
  return valueOf(schemas);
}

/// `least` to `most` more elements of one kind; `first`: none precedes them.
Expression SchemaCompiler::elementsOf(Expression element, bool first,
                                      uint32_t least, uint32_t most) {
  if (most < least)
    return choice({});
  Expression another = sequence({next(), element});
  if (!first)
    return repeat(std::move(another), least, most);
  if (most == 0)
    return sequence({});
  uint32_t left = most == Expression::unbounded ? most : most - 1;
  Expression others = repeat(std::move(another), least - (least > 0), left);
  Expression all = sequence({std::move(element), std::move(others), blank()});
  return least == 0 ? optional(std::move(all)) : all;
}

Expression SchemaCompiler::arrayOf(const std::vector<Part> &parts) {
  uint32_t least = 0, most = 0;
  counts(parts, "minItems", "maxItems", least, most);
  size_t prefix = 0; // elements that have schemas of their own
  for (const Part &part : parts)
    if (const JsonTree *list = part.schema->find("prefixItems"))
      prefix = std::max(prefix, listAt(*list).size());
  // What follows `prefix` elements or more, then what follows fewer.
  auto count = static_cast<uint32_t>(prefix);
  Expression rest = choice({});
  if (most >= count)
    rest = elementsOf(elementOf(parts, prefix), prefix == 0,
                      least - std::min(least, count),
                      most == Expression::unbounded ? most : most - count);
  for (size_t i = prefix; i-- > 0;) {
    RuleId rule = addRule();
    rules[rule].body = std::move(rest);
    std::vector<Expression> choices;
    if (i < most)
      choices.push_back(
          sequence({i > 0 ? next() : sequence({}), elementOf(parts, i),
                    call(rule), i == 0 ? blank() : sequence({})}));
    if (i >= least)
      choices.push_back(sequence({}));
    rest = choice(std::move(choices));
  }
  return sequence({literal("["), blank(), std::move(rest), literal("]")});
}

/// A key that is none of `names`, which are sorted.
Expression SchemaCompiler::keyExcept(Names names) {
  // A rule for each beginning of a name: how a key goes on after it.
  struct Beginning {
    size_t begin, end, size; // the names that begin so, and its bytes
    RuleId rule;
  };
  Expression rest = sequence(
      {repeat(call(known("plain")), 0, Expression::unbounded), literal("\"")});
  std::vector<Beginning> work = {{0, names.size(), 0, addRule()}};
  RuleId first = work[0].rule;
  while (!work.empty() && status.ok()) {
    auto [begin, end, size, rule] = work.back();
    work.pop_back();
    std::vector<Characters::Range> used;
    std::vector<Expression> choices;
    bool isName = names[begin].size() == size;
    for (size_t at = begin + isName; at < end;) {
      size_t after = size;
      uint32_t character = takeCharacter(names[at], after);
      std::string_view piece = names[at].substr(size, after - size);
      size_t stop = at + 1;
      while (stop < end && names[stop].substr(size, piece.size()) == piece)
        ++stop;
      used.push_back({character, character});
      RuleId below = addRule();
      work.push_back({at, stop, after, below});
      choices.push_back(
          sequence({spelled(literal(std::string(piece))), call(below)}));
      at = stop;
    }
    choices.push_back(sequence(
        {spelled(oneOf(Characters(std::move(used)).complement())), rest}));
    if (!isName)
      choices.push_back(literal("\""));
    rules[rule].body = choice(std::move(choices));
  }
  return sequence({literal("\""), call(first)});
}

/// What schemas say of an object's properties.
SchemaCompiler::Properties
SchemaCompiler::propertiesOf(const std::vector<Part> &parts) {
  Properties all;
  auto addName = [&](std::string_view name) {
    if (spend(8 + name.size()) && all.schemas.try_emplace(name).second)
      all.names.push_back(name);
  };
  for (const Part &part : parts) {
    if (const JsonTree *properties = part.schema->find("properties")) {
      if (properties->type != Type::Object)
        fail(*properties, "expected an object");
      for (const auto &[key, schema] : properties->members)
        addName(key);
    }
    if (const JsonTree *additional = part.schema->find("additionalProperties"))
      all.others.push_back(additional);
  }
  for (const Part &part : parts)
    if (const JsonTree *list = part.schema->find("required")) {
      if (list->type != Type::Array)
        fail(*list, "expected a list of names");
      for (const JsonTree &name : list->elements) {
        if (name.type != Type::String)
          fail(name, "expected a name");
        addName(name.text);
        all.required.push_back(name.text);
      }
    }
  std::sort(all.required.begin(), all.required.end());
  for (const Part &part : parts) {
    const JsonTree *properties = part.schema->find("properties"),
                   *additional = part.schema->find("additionalProperties");
    if (!spend(8 * all.names.size()))
      break;
    std::map<std::string_view, const JsonTree *> own;
    for (std::string_view name : all.names)
      if (additional)
        own[name] = additional;
    if (properties)
      for (const auto &[key, schema] : properties->members)
        own[key] = &schema;
    for (auto [name, schema] : own)
      all.schemas[name].push_back(schema);
  }
  return all;
}

/// A property whose name is none of those of the schemas.
Expression SchemaCompiler::otherMember(const Properties &all) {
  Expression value = valueOf(all.others);
  if (value.kind == Expression::Kind::Choice) // without parts
    return value;
  Names sorted = all.names;
  std::sort(sorted.begin(), sorted.end());
  return member(sorted.empty() ? call(known("string"))
                               : keyExcept(std::move(sorted)),
                std::move(value));
}

/// The named properties in their order, then others. A rule says what may
/// follow each of them, from the last one to the first.
Expression SchemaCompiler::objectOf(const std::vector<Part> &parts) {
  Properties all = propertiesOf(parts);
  Expression other = otherMember(all);
  RuleId rule = addRule(); // what follows a member
  rules[rule].body =
      repeat(sequence({next(), other}), 0, Expression::unbounded);
  bool mayBeEmpty = all.required.empty();
  std::vector<Expression> firsts; // which member comes first
  if (mayBeEmpty)
    firsts.push_back(sequence({std::move(other), call(rule)}));
  for (size_t i = all.names.size(); i-- > 0 && status.ok();) {
    std::string_view name = all.names[i];
    Expression one =
        member(literal(jsonString(name)), valueOf(all.schemas[name]));
    Expression more = sequence({next(), one});
    // The first required one may come first, and those before it.
    if (std::binary_search(all.required.begin(), all.required.end(), name))
      firsts.clear();
    else
      more = optional(std::move(more));
    firsts.push_back(sequence({std::move(one), call(rule)}));
    RuleId before = addRule();
    rules[before].body = sequence({std::move(more), call(rule)});
    rule = before;
  }
  Expression inside = sequence({choice(std::move(firsts)), blank()});
  return sequence({literal("{"), blank(),
                   mayBeEmpty ? optional(std::move(inside)) : std::move(inside),
                   literal("}")});
}

// ---- The whole -------------------------------------------------------------

Result<std::vector<Rule>> SchemaCompiler::compile(std::string_view text) {
  Status parsed = parseJsonTree(text, root);
  if (!parsed.ok())
    return parsed;
  Result<std::vector<Rule>> builtins = parseGbnf(json);
  if (!builtins.ok())
    return builtins.status();
  rules = std::move(*builtins);
  std::vector<std::string> names;
  for (const Rule &rule : rules)
    names.push_back(rule.name);
  for (RuleId id = 0; id < names.size(); ++id)
    builtin[names[id]] = id;
  rules[0].body = valueOf(std::vector<const JsonTree *>{&root});
  while (!pending.empty() && status.ok()) {
    const auto &[parts, rule] = *pending.back();
    pending.pop_back();
    Expression made = body(parts);
    rules[rule].body = std::move(made);
  }
  if (!status.ok())
    return status;
  return std::move(rules);
}

Result<std::vector<Rule>> parseSchema(std::string_view json) {
  return SchemaCompiler().compile(json);
}

} // namespace cria::grammar
