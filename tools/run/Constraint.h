/// What --json-schema, --grammar and --regex ask of the text.
#pragma once

#include "tools/run/Run.h"

#include <future>
#include <vector>

namespace cria {

/// Reads the grammar of the command line, if there is one.
Status loadGrammar(Run &run);

/// Notes in the run that its grammar failed, if `status` is an error, and names
/// the option in it.
Status ofGrammar(Run &run, const Status &status);

/// The ids that may come next in a text of the run's grammar. A thread finds
/// them from the construction on, while the session computes.
class NextIds {
public:
  explicit NextIds(Run &run);

  /// Lets `sampler` draw these ids alone; nothing without a grammar.
  Status allow(Sampler &sampler);

private:
  Run &run;
  std::vector<uint32_t> bits;
  std::future<Status> found;
};

/// Lets `sampler` draw only what `matcher` allows.
Status allowNext(grammar::Matcher &matcher, Sampler &sampler);

} // namespace cria
