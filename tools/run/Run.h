/// What cria-run holds, and its middle: from a prompt to printed text.
#pragma once

#include "runtime/Model.h"
#include "runtime/Sampler.h"
#include "runtime/Session.h"
#include "runtime/text/Generation.h"
#include "runtime/text/tokenizer/Tokenizer.h"
#include "tools/run/Npy.h"
#include "tools/run/Options.h"
#include "tools/run/Process.h"
#include "tools/run/Ranks.h"
#include "tools/run/Trace.h"

#include <memory>
#include <optional>
#include <vector>

namespace cria {

/// All that a run holds.
struct Run {
  RunOptions options;
  const CriaRanks *ranks = nullptr; // that share the model; null: one alone
  std::shared_ptr<const Model> model;
  std::unique_ptr<Session> session;
  Generation generation;
  std::optional<Tokenizer> tokenizer;
  NpyMatrix prefix; // embeddings in front of the prompt
  std::vector<int32_t> prompt, generated;
  int32_t next = 0; // drawn, not yet fed
  std::vector<RunEvent> events;
  std::vector<KernelTime> kernels; // of the present feed, for --profile
  MachineRates rates;
  int64_t limit = 0; // of new ids

  const Manifest &manifest() const { return model->manifest(); }
  /// Whether this process speaks for all.
  bool isFirst() const { return !ranks || ranks->rank == 0; }
  /// Positions that prefix and prompt take.
  int64_t promptLength() const {
    return static_cast<int64_t>(prefix.rows + prompt.size());
  }
};

/// Notes a feed of `count` ids that wants so many rows of logits.
template <typename Feed>
Status timed(Run &run, const char *name, int64_t count, int64_t logits,
             Feed body) {
  double begin = now();
  int64_t position = run.session->position();
  run.kernels.clear();
  Status status = body();
  run.events.push_back({name, begin, now() - begin, position, count, logits,
                        std::move(run.kernels)});
  return status;
}

/// How many ids to generate after a prompt of so many tokens. What the user
/// asks for must fit the context; a default, and what is asked of each reply of
/// a chat, is cut to fit.
Result<int64_t> newIds(const Run &run, int64_t prompt);
/// The same of the prompt that there is.
Status setLimit(Run &run);

/// The checkpoint's defaults with what the command line says instead. Naming a
/// sampling parameter asks for sampling.
SamplerOptions samplerOptions(const Run &run);

/// The ids of the text of `option`, with the begin id where there are none;
/// `instead` takes them where there is no tokenizer.
Result<std::vector<int32_t>> promptOf(const Run &run, const std::string &option,
                                      const std::string &text,
                                      const std::string &instead);

/// Feeds what the session does not hold of prefix and prompt, then draws,
/// prints and feeds ids until one ends the text or there are `limit`.
Status runPrompt(Run &run);

/// Goes on from each line of a file, in a batch; prints JSON lines.
Status runPrompts(Run &run);

/// Converses: reads messages from stdin, prints replies to stdout.
Status runChat(Run &run);

} // namespace cria
