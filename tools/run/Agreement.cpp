/// What the ranks of cria-run have in common: options, prompts and the lines
/// that rank 0 reads for all.
#include "tools/run/Run.h"

#include "runtime/Abi.h"
#include "runtime/ranks/JoinRanks.h"
#include "tools/Ids.h"

#include <chrono>
#include <future>
#include <string>

namespace cria {

static uint64_t hashOf(const std::string &text) {
  return criaFnv1a64(CRIA_FNV_OFFSET, text.data(), text.size());
}

/// A hash of everything that decides which steps a run takes.
static uint64_t hashOfSteps(const Run &run) {
  const RunOptions &options = run.options;
  std::string text = joinIds(run.prompt);
  for (uint64_t number :
       {static_cast<uint64_t>(run.limit),
        static_cast<uint64_t>(options.maxTokens.value_or(-1)), *options.seed,
        uint64_t(!options.logits.empty()), uint64_t(options.chat),
        uint64_t(!options.prompts.empty()),
        static_cast<uint64_t>(options.draftRows),
        static_cast<uint64_t>(run.prefix.rows)})
    text += " " + std::to_string(number);
  SamplerOptions sampling = samplerOptions(run);
  for (double value :
       {sampling.temperature, sampling.topP, sampling.minP,
        sampling.repetitionPenalty, sampling.presencePenalty,
        sampling.frequencyPenalty, static_cast<double>(sampling.penaltyWindow),
        static_cast<double>(sampling.topK)})
    text += " " + std::to_string(value);
  for (int64_t id : run.generation.eos)
    text += " " + std::to_string(id);
  for (const std::string &stop : stopStrings(run))
    text += " " + std::to_string(stop.size()) + " " + stop;
  for (const auto &form : {options.jsonSchema, options.grammar, options.regex})
    text += " " + form.value_or("");
  return hashOf(text);
}

Status agree(Run &run) {
  if (!run.ranks)
    return Status();
  return agreeRanks(*run.ranks, {{"options and prompt", hashOfSteps(run)}});
}

Status agreeOnIds(const Run &run, const Result<std::vector<int32_t>> &ids) {
  if (!run.ranks)
    return Status();
  std::string text = ids.ok() ? joinIds(*ids) : ids.status().message();
  return agreeRanks(*run.ranks, {{"ids of a prompt", hashOf(text)}});
}

/// Waits for a line of rank 0, which may be read from a person. Rank 0 says all
/// the while that there is none yet, because the others would give it up.
static Result<bool> readForAll(Run &run, Lines &lines, std::string &line) {
  const CriaRanks &ranks = *run.ranks;
  constexpr int64_t kNotYet = -1, kEnd = -2, kFailed = -3;
  int64_t size = kNotYet;
  std::future<Result<bool>> reading;
  Result<bool> found = false;
  if (ranks.rank == 0)
    reading = std::async(std::launch::async, [&] { return lines.next(line); });
  while (size == kNotYet) {
    if (ranks.rank == 0 && reading.wait_for(std::chrono::milliseconds(200)) ==
                               std::future_status::ready) {
      found = reading.get();
      size = !found.ok() ? kFailed
             : *found    ? static_cast<int64_t>(line.size())
                         : kEnd;
    }
    ranks.broadcast(ranks.data, &size, sizeof(size));
  }
  if (size == kFailed) {
    run.failsTogether = true;
    return found.ok() ? Status(CRIA_ABORTED, "rank 0 could not read")
                      : found.status();
  }
  if (size == kEnd)
    return false;
  line.resize(static_cast<size_t>(size));
  if (size > 0)
    ranks.broadcast(ranks.data, line.data(), size);
  return true;
}

Result<bool> readLine(Run &run, Lines &lines, std::string &line) {
  Result<bool> found =
      run.ranks ? readForAll(run, lines, line) : lines.next(line);
  if (!line.empty() && line.back() == '\r') // as lines end on Windows
    line.pop_back();
  return found;
}

} // namespace cria
