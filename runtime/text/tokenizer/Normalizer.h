/// The changes that a tokenizer.json makes to a text first.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/ComponentCount.h"
#include "runtime/text/tokenizer/Pattern.h"
#include "runtime/text/tokenizer/TracedText.h"

#include <functional>
#include <vector>

namespace cria {

/// One normalizer; a "Sequence" is a list.
class Normalizer {
public:
  /// Appends the steps of the member "normalizer".
  static void read(const JsonCursor &normalizer, ComponentCount &count,
                   std::vector<Normalizer> &steps);

  /// Changes `text`, of at most maxTextBytes before and after.
  Status apply(TracedText &text, Effort &effort) const;

private:
  using Function = std::function<Status(TracedText &text, Effort &effort)>;
  explicit Normalizer(Function function) : function(std::move(function)) {}

  static Function readPrepend(const JsonCursor &normalizer);
  static Function readReplace(const JsonCursor &normalizer);
  static Function readStrip(const JsonCursor &normalizer);
  static Function readBert(const JsonCursor &normalizer);
  static Function readPrecompiled(const JsonCursor &normalizer);

  Function function;
};

} // namespace cria
