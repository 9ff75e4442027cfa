/// The state of cria-run, and its main part: from a prompt to printed text.
#pragma once

#include "runtime/device/Sampler.h"
#include "runtime/session/Model.h"
#include "runtime/session/Session.h"
#include "runtime/text/Generation.h"
#include "runtime/text/grammar/Grammar.h"
#include "runtime/text/tokenizer/TextStream.h"
#include "tools/Lines.h"
#include "tools/run/Actions.h"
#include "tools/run/Images.h"
#include "tools/run/Npy.h"
#include "tools/run/Options.h"
#include "tools/run/Process.h"
#include "tools/run/Trace.h"

#include <memory>
#include <optional>
#include <vector>

namespace cria {

/// The state of a run.
struct Run {
  RunOptions options;
  const CriaRanks *ranks = nullptr; // ranks that share the model; null: only
                                    // one
  std::shared_ptr<const Model> model;
  std::unique_ptr<Session> session;
  Generation generation;
  std::optional<Tokenizer> tokenizer;
  std::shared_ptr<const grammar::Grammar> grammar; // of all texts; may be null
  std::optional<grammar::Matcher> matcher;         // of the current text
  bool grammarFailed = false; // the text ended with an error of it
  std::string compiledFrom;   // the folder that --model named, if it did
  int64_t texts = 0;          // of --prompts at once; 0: the artifact's rows
  NpyMatrix prefix;           // embeddings before the prompt
  JsonDocument config;        // of the checkpoint; see loadConfig
  std::string configPath;
  const ImageModel *imageModel = nullptr; // how the model takes images
  PromptImages images;
  std::optional<Actions> actions;
  std::vector<int32_t> prompt, generated;
  int32_t next = 0;          // drawn, not yet fed
  std::vector<float> logits; // that `next` was drawn from, for --logprobs
  std::vector<RunEvent> events;
  std::vector<KernelTime> kernels; // of the current feed, for --profile
  MachineRates rates;
  int64_t limit = 0;          // of new ids
  bool failsTogether = false; // all ranks end with the same error

  const Manifest &manifest() const { return model->manifest(); }
  /// Whether this process prints for all ranks.
  bool isFirst() const { return !ranks || ranks->rank == 0; }
  /// Whether this process prints warnings, progress and statistics.
  bool talks() const { return isFirst() && !options.quiet; }
  /// Positions that prefix and prompt take.
  int64_t promptLength() const {
    return static_cast<int64_t>(prefix.rows + prompt.size());
  }
};

/// Times a feed of `count` ids that wants `logits` rows of logits.
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

/// Compiles a model, or finds what was compiled before, for the device of the
/// run. Says so unless the run is quiet.
Result<std::string> compileFor(const Run &run, CompileRequest request);

/// How many ids to generate after a prompt of `prompt` tokens. A number that
/// the user gives must fit the context. A default, and the number for each
/// reply of a chat, is cut to fit.
Result<int64_t> newIds(const Run &run, int64_t prompt);
/// Sets the limit for the current prompt.
Status setLimit(Run &run);

/// The checkpoint's defaults, replaced by the options of the command line. A
/// sampling parameter on the command line asks for sampling.
SamplerOptions samplerOptions(const Run &run);

/// The strings that end a text: those of the command line, or else the
/// checkpoint's.
const std::vector<std::string> &stopStrings(const Run &run);

/// The ids of the text of `option`, after the begin id if there are none.
/// `instead` is the option that takes ids if there is no tokenizer.
Result<std::vector<int32_t>> promptOf(const Run &run, const std::string &option,
                                      const std::string &text,
                                      const std::string &instead);

/// Whether all ranks are about to do the same steps; FAILED_PRECONDITION on all
/// ranks if not.
Status agree(Run &run);
/// The same for the ids of one of many prompts, or the error in their place.
Status agreeOnIds(const Run &run, const Result<std::vector<int32_t>> &ids);
/// Reads the next line, without its end (\n or \r\n). Rank 0 reads for all
/// ranks. False if there is none.
Result<bool> readLine(Run &run, Lines &lines, std::string &line);

/// Feeds the part of prefix and prompt that the session does not hold. Then
/// draws, prints and feeds ids until one ends the text or there are `limit`.
Status runPrompt(Run &run);

/// Continues each line of a file, in a batch; prints JSON lines.
Status runPrompts(Run &run);

/// Converses: reads messages from stdin, prints replies to stdout.
Status runChat(Run &run);

} // namespace cria
