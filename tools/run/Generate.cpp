#include "tools/run/Process.h"
#include "tools/run/Run.h"

#include "tools/run/Constraint.h"
#include "tools/run/LogProbs.h"
#include "tools/run/PromptOutputs.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace cria {

Result<int64_t> newIds(const Run &run, int64_t prompt) {
  int64_t room = run.manifest().maxSeq - prompt;
  if (room < 0)
    return Status(CRIA_OUT_OF_RANGE, "the prompt has " +
                                         std::to_string(prompt) +
                                         " tokens, the artifact's max_seq is " +
                                         std::to_string(run.manifest().maxSeq));
  const Generation &generation = run.generation;
  if (run.manifest().bidirectional) {
    if (run.options.maxTokens.value_or(0) > 0)
      return Status(CRIA_INVALID_ARGUMENT,
                    "--max-tokens: tokens of this model see later tokens, so "
                    "it cannot generate; --logits, --hidden and --embedding "
                    "write its results");
    return 0;
  }
  if (auto wanted = run.options.maxTokens) {
    if (*wanted > room && !run.options.chat)
      return Status(CRIA_OUT_OF_RANGE,
                    "the prompt's " + std::to_string(prompt) +
                        " tokens and --max-tokens=" + std::to_string(*wanted) +
                        " exceed the artifact's max_seq " +
                        std::to_string(run.manifest().maxSeq));
    return std::min(*wanted, room);
  }
  if (run.actions)
    return std::min(run.actions->count(), room);
  if (run.options.hasEmbedding)
    return 0;
  if (generation.maxNewTokens)
    return std::min(*generation.maxNewTokens, room);
  if (generation.maxLength)
    return std::clamp<int64_t>(*generation.maxLength - prompt, 0, room);
  return room;
}

Status setLimit(Run &run) {
  Result<int64_t> limit = newIds(run, run.promptLength());
  if (limit.ok())
    run.limit = *limit;
  return limit.status();
}

SamplerOptions samplerOptions(const Run &run) {
  const RunOptions &options = run.options;
  bool narrows = options.topK || options.topP || options.minP;
  return samplerOptions(options, narrows ? run.generation.options
                                         : run.generation.defaults());
}

const std::vector<std::string> &stopStrings(const Run &run) {
  return run.options.stops.empty() ? run.generation.stopStrings
                                   : run.options.stops;
}

/// Times a feed of `count` ids that wants `logits` rows of logits.
template <typename Feed>
static Status feed(Run &run, const char *name, int64_t count, int64_t logits,
                   Feed body) {
  Status status = timed(run, name, count, logits, body);
  if (status.ok() && caughtSignal()) // the signal came after the last check
    return Status(CRIA_CANCELLED, "interrupted");
  return status;
}

/// Draws the next id from logits; all ranks take that of rank 0, as the last
/// bits of their sums may differ.
static Status drawFrom(Run &run, const float *logits, Sampler &sampler,
                       NextIds &next) {
  if (Status status = next.allow(sampler); !status.ok())
    return status;
  if (run.options.logProbs && logits != run.logits.data())
    run.logits.assign(logits, logits + run.manifest().vocabSize);
  Result<int32_t> id = sampler.sample(logits);
  run.next = id.ok() ? *id : 0;
  if (run.ranks)
    run.ranks->broadcast(run.ranks->data, &run.next, sizeof(run.next));
  return id.status();
}

/// Feeds ids and draws the id that follows them.
static Status draw(Run &run, const char *name, const int32_t *ids,
                   int64_t count, Sampler &sampler) {
  if (run.options.logProbs || run.matcher) {
    NextIds next(run);
    run.logits.resize(static_cast<size_t>(run.manifest().vocabSize));
    Status status = feed(run, name, count, 1, [&] {
      return run.session->feed(ids, count, CRIA_LOGITS_LAST, run.logits.data());
    });
    return status.ok() ? drawFrom(run, run.logits.data(), sampler, next)
                       : status;
  }
  return feed(run, name, count, 1, [&] {
    Result<int32_t> id = run.session->draw(ids, count, sampler);
    run.next = id.ok() ? *id : 0;
    return id.status();
  });
}

/// Feeds a chunk of the prompt, from index `done` on, and takes the outputs
/// that are wanted; with a sampler, draws from the chunk's last logits.
static Status take(Run &run, int64_t done, int64_t count, Sampler *sampler,
                   PromptOutputs &outputs) {
  const float *last = nullptr;
  NextIds next(run);
  Status status = outputs.feed(run, count, done, sampler ? &last : nullptr);
  if (status.ok() && caughtSignal())
    return Status(CRIA_CANCELLED, "interrupted");
  if (!status.ok() || !sampler)
    return status;
  return drawFrom(run, last, *sampler, next);
}

/// Feeds the embeddings before the prompt.
static Status feedPrefix(Run &run) {
  auto rows = static_cast<int64_t>(run.prefix.rows);
  Status status = feed(run, "prefill", rows, 0, [&] {
    return run.session->feedEmbeddings(
        run.prefix.values.data(), rows,
        static_cast<int64_t>(run.prefix.columns));
  });
  if (status.code() == CRIA_INVALID_ARGUMENT)
    return Status(status.code(),
                  run.options.prefixEmbeddings + ": " + status.message());
  return status;
}

/// Feeds the prompt chunk by chunk and draws the first id. `outputs` takes what
/// is wanted of every id.
static Status feedPrompt(Run &run, Sampler &sampler, PromptOutputs &outputs) {
  auto count = static_cast<int64_t>(run.prompt.size()),
       before = static_cast<int64_t>(run.prefix.rows);
  int64_t chunk = run.manifest().chunk,
          first = run.session->position() - before;
  bool showProgress =
      run.talks() && isatty(STDERR_FILENO) && count - first > 2 * chunk;
  for (int64_t at = first, tokens; at < count; at += tokens) {
    const int32_t *ids = &run.prompt[at];
    tokens = std::min(chunk - at % chunk, count - at); // as if all were fed
    bool isImage = run.images.at(at, tokens);
    bool draws = at + tokens == count && run.limit > 0;
    Status status;
    if (outputs.any() || isImage)
      status = take(run, at, tokens, draws ? &sampler : nullptr, outputs);
    else if (draws)
      status = draw(run, "prefill", ids, tokens, sampler);
    else
      status = feed(run, "prefill", tokens, 0, [&] {
        return run.session->feed(ids, tokens, CRIA_LOGITS_NONE, nullptr);
      });
    if (!status.ok())
      return status;
    if (showProgress)
      fprintf(stderr, "\rprefill %lld/%lld%s",
              static_cast<long long>(at + tokens),
              static_cast<long long>(count),
              at + tokens == count ? "\r\033[K" : "");
  }
  return Status();
}

/// Feeds the part of prefix and prompt that the session does not hold, as one
/// prompt.
static Status prefill(Run &run, Sampler &sampler) {
  PromptOutputs outputs(run);
  Status status = outputs.status();
  if (status.ok())
    status = run.session->expectPrompt(run.promptLength());
  if (status.ok() && !run.options.prefixEmbeddings.empty())
    status = feedPrefix(run);
  if (status.ok())
    status = feedPrompt(run, sampler, outputs);
  return status.ok() ? outputs.finish(run) : status;
}

/// Whether text is the only result that goes to stdout.
static bool printsText(const Run &run) {
  return run.options.chat || !run.options.resultsOnStdout();
}

static Status print(const Run &run, const Result<std::string> &text) {
  return text.ok() && printsText(run) ? writeOut(*text) : text.status();
}

/// Begins the text, if it is printed or a string may end it, and there is a
/// tokenizer.
static Status openText(const Run &run, std::optional<TextStream> &text) {
  bool stops = run.limit > 0 && !stopStrings(run).empty();
  if (stops && !run.tokenizer)
    return Status(CRIA_NOT_FOUND,
                  "stop strings need a tokenizer, and --weights has none");
  if (run.tokenizer && (stops || printsText(run)))
    text.emplace(*run.tokenizer);
  return Status();
}

/// Prints ids and feeds them until the text ends or there are `limit`.
static Status generate(Run &run, Sampler &sampler, TextStream *text) {
  while (static_cast<int64_t>(run.generated.size()) < run.limit) {
    int32_t id = run.next;
    sampler.accept(id, /*drawn=*/true);
    if (run.matcher)
      if (Status status = ofGrammar(run, run.matcher->accept(id)); !status.ok())
        return status;
    run.generated.push_back(id);
    if (text)
      if (Status status = print(run, text->push(id)); !status.ok())
        return status;
    if (run.options.logProbs) {
      Result<std::string> line = logProbsLine(run, id);
      Status status = line.ok() ? writeOut(*line) : line.status();
      if (!status.ok())
        return status;
    }
    if (run.generation.ends(id) || (text && text->stopped()) ||
        (run.matcher && run.matcher->isFinished()) ||
        static_cast<int64_t>(run.generated.size()) == run.limit)
      break;
    if (Status status = draw(run, "decode", &id, 1, sampler); !status.ok())
      return status;
  }
  return Status();
}

Status runPrompt(Run &run) {
  Result<Sampler> sampler =
      Sampler::create(samplerOptions(run), run.manifest().vocabSize);
  if (!sampler.ok())
    return sampler.status();
  std::optional<TextStream> text;
  if (Status status = openText(run, text); !status.ok())
    return status;
  if (run.grammar) {
    Result<grammar::Matcher> matcher = grammar::Matcher::create(run.grammar);
    if (!matcher.ok())
      return ofGrammar(run, matcher.status());
    run.matcher = std::move(*matcher);
  }
  std::string printed;
  for (int32_t id : run.prompt) {
    sampler->accept(id, /*drawn=*/false);
    if (!text || run.options.chat)
      continue;
    Result<std::string> piece = text->push(id);
    if (!piece.ok())
      return piece.status();
    printed += *piece;
  }
  if (text)
    if (Status status = text->stopAt(stopStrings(run), run.prompt);
        !status.ok())
      return status;
  // A rank that stops between two tokens would leave the others waiting.
  setRunning(run.ranks ? nullptr : run.session.get());
  Status status = prefill(run, *sampler);
  if (status.ok())
    status = print(run, printed);
  if (status.ok())
    status = generate(run, *sampler, text ? &*text : nullptr);
  setRunning(nullptr);
  if (text && (status.ok() || caughtSignal() || run.grammarFailed)) {
    Status flushed = print(run, text->finish());
    if (status.ok())
      status = flushed;
  }
  return status;
}

} // namespace cria
