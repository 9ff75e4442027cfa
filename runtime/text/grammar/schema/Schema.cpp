/// A schema excludes values; a grammar lists texts. So the schemas that one
/// value must match are kept as a conjunction (Conjunction.h) until the value's
/// type is known. Then the function of this type combines their keywords. A
/// branch of anyOf or oneOf is chosen before that: each branch makes another
/// conjunction. Equal conjunctions share a rule, so the work ends for schemas
/// that refer to themselves.
#include "runtime/text/grammar/schema/Schema.h"

#include "runtime/base/Json.h"
#include "runtime/text/grammar/schema/Apart.h"
#include "runtime/text/grammar/schema/Checks.h"
#include "runtime/text/grammar/schema/Conjunction.h"
#include "runtime/text/grammar/schema/Formats.h"
#include "runtime/text/grammar/schema/JsonTree.h"
#include "runtime/text/grammar/schema/Numbers.h"
#include "runtime/text/grammar/schema/Spelling.h"

#include <algorithm>
#include <map>
#include <string>

namespace cria::grammar {

using Type = JsonTree::Type;

namespace {

class SchemaCompiler {
public:
  Result<std::vector<Rule>> compile(std::string_view text);

private:
  using Names = Spelling::Names;
  struct Properties {
    Names names;    // in the order of the schemas
    Names required; // sorted
    std::map<std::string_view, std::vector<const JsonTree *>> schemas;
    std::vector<const JsonTree *> others; // of other properties
  };

  // Of any type.
  Expression valueOf(Conjunction all);
  Expression valueOf(std::vector<const JsonTree *> schemas);
  Expression body(const std::vector<Part> &parts);
  Expression branches(std::vector<Part> parts, size_t at, bool any);
  Expression enumeration(const std::vector<Part> &parts,
                         const Conjunctions::Values &values, uint8_t types);

  // By type.
  uint32_t count(const JsonTree &place);
  void counts(const std::vector<Part> &parts, const char *leastName,
              const char *mostName, uint32_t &least, uint32_t &most);
  Expression stringOf(const std::vector<Part> &parts);
  Expression numberOf(const std::vector<Part> &parts, bool whole);
  Expression elementOf(const std::vector<Part> &parts, size_t index);
  Expression arrayOf(const std::vector<Part> &parts);
  Properties propertiesOf(const std::vector<Part> &parts);
  Expression otherMember(const Properties &all);
  Expression objectOf(const std::vector<Part> &parts);

  JsonTree root;
  Checks checks;
  Conjunctions conjunctions{root, checks};
  Spelling spelling{checks};
  using RuleIds = std::map<std::vector<Part>, RuleId>;
  RuleIds ruleIds;
  std::vector<RuleIds::const_iterator> pending; // rules without a body so far
};

} // namespace

Expression SchemaCompiler::valueOf(std::vector<const JsonTree *> schemas) {
  Conjunction all;
  for (const JsonTree *schema : schemas)
    conjunctions.add(all, *schema);
  return valueOf(std::move(all));
}

Expression SchemaCompiler::valueOf(Conjunction all) {
  if (all.never || !checks.spend(all.parts.size()))
    return choice({});
  if (all.parts.empty())
    return spelling.any("value");
  auto [found, isNew] = ruleIds.try_emplace(std::move(all.parts), 0);
  if (isNew) {
    found->second = spelling.addRule();
    pending.push_back(found);
  }
  return call(found->second);
}

Expression SchemaCompiler::body(const std::vector<Part> &parts) {
  for (const Part &part : parts)
    if (!checks.spend(8 * part.schema->members.size()))
      return {};
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].anyOfMade && parts[i].schema->find("anyOf"))
      return branches(parts, i, true);
    if (!parts[i].oneOfMade && parts[i].schema->find("oneOf"))
      return branches(parts, i, false);
  }
  uint8_t types = conjunctions.typesOf(parts);
  Conjunctions::Values values;
  if (conjunctions.valuesOf(parts, values))
    return enumeration(parts, values, types);
  std::vector<Expression> made;
  auto add = [&](uint8_t type, auto make) {
    if ((types & type) == type && checks.ok())
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
    checkApart(list, conjunctions, checks);
  std::vector<Expression> made;
  for (const JsonTree &branch : conjunctions.listAt(list)) {
    if (!checks.spend(parts.size()))
      break;
    Conjunction all{parts};
    conjunctions.add(all, branch);
    made.push_back(valueOf(std::move(all)));
  }
  return choice(std::move(made));
}

Expression SchemaCompiler::enumeration(const std::vector<Part> &parts,
                                       const Conjunctions::Values &values,
                                       uint8_t types) {
  std::vector<Expression> made;
  uint8_t listed = 0;
  for (const JsonTree *value : values)
    if (uint8_t type = typeOf(*value); types & type) {
      made.push_back(spelling.exactly(*value));
      listed |= type;
    }
  conjunctions.refuseBesideValues(parts, listed);
  return choice(std::move(made));
}

// ---- Strings and numbers ---------------------------------------------------

/// A count such as minItems.
uint32_t SchemaCompiler::count(const JsonTree &place) {
  auto decimal =
      place.type == Type::Number ? Decimal::parse(place.text) : std::nullopt;
  if (!decimal || decimal->negative || !decimal->fraction.empty()) {
    checks.failExpected(place, "a whole number of at least 0");
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
        checks.failExpected(*place, "a string");
      Match how = *name == 'p' ? Match::Part : Match::Whole;
      if (shape && (how != match || shape->text != place->text))
        checks.fail(*place, "a second pattern or format is not supported",
                    CRIA_UNIMPLEMENTED);
      shape = place;
      match = how;
    }
  if (shape && isBounded)
    checks.fail(*shape, "beside minLength or maxLength, this is not supported",
                CRIA_UNIMPLEMENTED);
  if (shape && match == Match::Part)
    return spelling.patternOf(*shape, shape->text, match);
  if (shape) {
    const char *regex = formatRegex(shape->text);
    if (!regex)
      checks.fail(*shape,
                  quote(shape->text) + " is not supported, expected one of " +
                      formatNames,
                  CRIA_UNIMPLEMENTED);
    return regex ? spelling.patternOf(*shape, regex, match) : Expression();
  }
  if (!isBounded)
    return spelling.any("string");
  if (most < least)
    return choice({});
  return sequence({literal("\""), repeat(spelling.any("char"), least, most),
                   literal("\"")});
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
        checks.failExpected(*place,
                            "a number of at most 19 digits and 40 after the "
                            "point");
      Bound bound{decimal.value_or(Decimal()), name[0] == 'e'};
      if (name.substr(name.size() - 7) == "minimum" ||
          name == "exclusiveMinimum")
        range.atLeast(std::move(bound));
      else
        range.atMost(std::move(bound));
    }
  if (!range.low && !range.high)
    return spelling.any(whole ? "integer" : "number");
  return whole ? integersIn(range) : numbersIn(range);
}

// ---- Arrays and objects ----------------------------------------------------

/// The element at `index`.
Expression SchemaCompiler::elementOf(const std::vector<Part> &parts,
                                     size_t index) {
  std::vector<const JsonTree *> schemas;
  checks.spend(4 * parts.size());
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

Expression SchemaCompiler::arrayOf(const std::vector<Part> &parts) {
  uint32_t least = 0, most = 0;
  counts(parts, "minItems", "maxItems", least, most);
  size_t prefix = 0; // elements that have schemas of their own
  for (const Part &part : parts)
    if (const JsonTree *list = part.schema->find("prefixItems"))
      prefix = std::max(prefix, conjunctions.listAt(*list).size());
  // What follows `prefix` elements; in the loop, what follows fewer.
  auto count = static_cast<uint32_t>(prefix);
  Expression rest = choice({});
  if (most >= count)
    rest = spelling.elementsOf(
        elementOf(parts, prefix), prefix == 0, least - std::min(least, count),
        most == Expression::unbounded ? most : most - count);
  for (size_t i = prefix; i-- > 0;) {
    RuleId rule = spelling.addRule();
    spelling.define(rule, std::move(rest));
    std::vector<Expression> choices;
    if (i < most)
      choices.push_back(
          sequence({i > 0 ? spelling.next() : sequence({}), elementOf(parts, i),
                    call(rule), i == 0 ? spelling.blank() : sequence({})}));
    if (i >= least)
      choices.push_back(sequence({}));
    rest = choice(std::move(choices));
  }
  return sequence(
      {literal("["), spelling.blank(), std::move(rest), literal("]")});
}

/// The properties that the schemas name, and the schemas of each property.
SchemaCompiler::Properties
SchemaCompiler::propertiesOf(const std::vector<Part> &parts) {
  Properties all;
  auto addName = [&](std::string_view name) {
    if (checks.spend(8 + name.size()) && all.schemas.try_emplace(name).second)
      all.names.push_back(name);
  };
  for (const Part &part : parts) {
    if (const JsonTree *properties = part.schema->find("properties")) {
      if (properties->type != Type::Object)
        checks.failExpected(*properties, "an object");
      for (const auto &[key, schema] : properties->members)
        addName(key);
    }
    if (const JsonTree *additional = part.schema->find("additionalProperties"))
      all.others.push_back(additional);
  }
  for (const Part &part : parts)
    if (const JsonTree *list = part.schema->find("required")) {
      if (list->type != Type::Array)
        checks.failExpected(*list, "a list of names");
      for (const JsonTree &name : list->elements) {
        if (name.type != Type::String)
          checks.failExpected(name, "a name");
        addName(name.text);
        all.required.push_back(name.text);
      }
    }
  std::sort(all.required.begin(), all.required.end());
  for (const Part &part : parts) {
    const JsonTree *properties = part.schema->find("properties"),
                   *additional = part.schema->find("additionalProperties");
    if (!checks.spend(8 * all.names.size()))
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

/// A property that the schemas do not name.
Expression SchemaCompiler::otherMember(const Properties &all) {
  Expression value = valueOf(all.others);
  if (value.kind == Expression::Kind::Choice) // without parts
    return value;
  Names sorted = all.names;
  std::sort(sorted.begin(), sorted.end());
  return spelling.member(sorted.empty() ? spelling.any("string")
                                        : spelling.keyExcept(std::move(sorted)),
                         std::move(value));
}

/// An object has the named properties in their order, then others. For each
/// named property a rule says what may follow it; rules are made from the last
/// property to the first.
Expression SchemaCompiler::objectOf(const std::vector<Part> &parts) {
  Properties all = propertiesOf(parts);
  Expression other = otherMember(all);
  RuleId rule = spelling.addRule(); // what follows a member
  spelling.define(rule, repeat(sequence({spelling.next(), other}), 0,
                               Expression::unbounded));
  bool mayBeEmpty = all.required.empty();
  std::vector<Expression> firsts; // which member comes first
  if (mayBeEmpty)
    firsts.push_back(sequence({std::move(other), call(rule)}));
  for (size_t i = all.names.size(); i-- > 0 && checks.ok();) {
    std::string_view name = all.names[i];
    Expression one =
        spelling.member(literal(jsonString(name)), valueOf(all.schemas[name]));
    Expression more = sequence({spelling.next(), one});
    // An object begins with the first required property, or one before it.
    if (std::binary_search(all.required.begin(), all.required.end(), name))
      firsts.clear();
    else
      more = optional(std::move(more));
    firsts.push_back(sequence({std::move(one), call(rule)}));
    RuleId before = spelling.addRule();
    spelling.define(before, sequence({std::move(more), call(rule)}));
    rule = before;
  }
  Expression inside = sequence({choice(std::move(firsts)), spelling.blank()});
  return sequence({literal("{"), spelling.blank(),
                   mayBeEmpty ? optional(std::move(inside)) : std::move(inside),
                   literal("}")});
}

// ---- The whole -------------------------------------------------------------

Result<std::vector<Rule>> SchemaCompiler::compile(std::string_view text) {
  Status status = parseJsonTree(text, root);
  if (status.ok())
    status = spelling.begin();
  if (!status.ok())
    return status;
  spelling.define(0, valueOf(std::vector<const JsonTree *>{&root}));
  while (!pending.empty() && checks.ok()) {
    const auto &[parts, rule] = *pending.back();
    pending.pop_back();
    spelling.define(rule, body(parts));
  }
  if (!checks.ok())
    return checks.status();
  return spelling.takeRules();
}

Result<std::vector<Rule>> parseSchema(std::string_view json) {
  return SchemaCompiler().compile(json);
}

} // namespace cria::grammar
