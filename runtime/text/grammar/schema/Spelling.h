/// Builds the rules and expressions that spell JSON. Schema.cpp says which of
/// them a schema needs.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/grammar/Expression.h"
#include "runtime/text/grammar/Regex.h"
#include "runtime/text/grammar/schema/Checks.h"
#include "runtime/text/grammar/schema/JsonTree.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria::grammar {

class Spelling {
public:
  using Names = std::vector<std::string_view>;

  explicit Spelling(Checks &checks) : checks(checks) {}
  /// Makes the rules of JSON without a schema. The root is the first.
  Status begin();

  /// A call of a rule of `begin`: "value", "string", "char", "number" or
  /// "integer".
  Expression any(std::string_view name) const {
    return call(builtin.find(name)->second);
  }
  RuleId addRule();
  void define(RuleId rule, Expression body) {
    rules[rule].body = std::move(body);
  }
  std::vector<Rule> takeRules() { return std::move(rules); }

  /// The texts of one value.
  Expression exactly(const JsonTree &value);
  /// A string that a regular expression matches. Errors name `place`. `regex`
  /// must outlive the object.
  Expression patternOf(const JsonTree &place, std::string_view regex,
                       Match match);
  /// Any key but `names`, which are sorted.
  Expression keyExcept(Names names);
  Expression member(Expression key, Expression value) const {
    return sequence({std::move(key), literal(":"), blank(), std::move(value)});
  }
  /// `least` to `most` elements of a list. They begin the list if `first`; if
  /// not, each of them follows a comma.
  Expression elementsOf(Expression element, bool first, uint32_t least,
                        uint32_t most);
  /// Blanks where they may stand, and a comma with these.
  Expression blank() const { return any("ws"); }
  Expression next() const { return sequence({literal(","), blank()}); }

private:
  Expression spelledSet(const Characters &set);
  Expression spelled(Expression text);

  Checks &checks;
  std::vector<Rule> rules;
  std::map<std::string, RuleId, std::less<>> builtin;
  std::map<std::vector<Characters::Range>, RuleId> setRules;
  std::map<std::pair<std::string_view, Match>, RuleId> regexRules;
  static constexpr size_t mostRules = 1u << 16;
};

} // namespace cria::grammar
