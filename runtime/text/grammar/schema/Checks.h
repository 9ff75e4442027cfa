/// What is wrong with a schema, and the work that it has taken so far.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/grammar/schema/JsonTree.h"

#include <cstddef>
#include <string>

namespace cria::grammar {

class Checks {
public:
  /// Notes an error at `place`, unless there is one.
  void fail(const JsonTree &place, const std::string &what,
            cria_status code = CRIA_INVALID_ARGUMENT);
  /// Notes that `what` is expected at `place`, and what is there.
  void failExpected(const JsonTree &place, const std::string &what,
                    cria_status code = CRIA_INVALID_ARGUMENT);
  /// Notes an error of the whole schema.
  void fail(const std::string &what, cria_status code);
  /// Pays for work, in units of some ten nanoseconds. False after an error.
  bool spend(size_t units);

  bool ok() const { return first.ok(); }
  /// The first error.
  const Status &status() const { return first; }

private:
  Status first;
  size_t work = 0;
  static constexpr size_t mostWork = 1u << 24;
};

} // namespace cria::grammar
