/// Runs many prompts at once and prints a line of JSON for each, in the order
/// of the prompts.
///
/// A line is printed when its prompt and all earlier ones are done. Few prompts
/// run at a time, whatever their number.
#include "tools/run/Constraint.h"
#include "tools/run/Run.h"

#include "runtime/batch/Batch.h"

#include <nlohmann/json.hpp>

#include <deque>
#include <map>
#include <string>
#include <utility>

namespace cria {

namespace {

/// A prompt, and its result.
struct Reply {
  std::string prompt;
  std::vector<int32_t> promptIds, ids; // given, and drawn
  std::optional<TextStream> stream;
  std::shared_ptr<Sampler> sampler;
  std::optional<grammar::Matcher> matcher;
  std::string text;     // of the drawn ids, after the prompt's
  bool stopped = false; // by a string
  Finish finish = Finish::None;
  Status status;
  bool isDone = false;
};

/// Reads prompts, runs them in a batch and prints the results.
class Prompts {
public:
  Prompts(Run &run, Batch &batch, Lines &lines)
      : run(run), batch(batch), lines(lines) {}

  Status runAll();

private:
  void readMore();
  Status begin(Reply &reply);
  Status propose();
  bool note(const BatchResult &result);
  Status print();

  Run &run;
  Batch &batch;
  Lines &lines;              // prompts that were not read yet
  std::deque<Reply> replies; // replies that were not printed, in the order of
                             // the prompts
  std::map<int64_t, Reply *> bySequence; // replies that run
  Status agreed;                         // an error if ranks have other prompts
  Status read; // an error ends the prompts; those before it are answered
  size_t failed = 0, count = 0;
};

} // namespace

/// Begins the text that follows the prompt's.
static Status openText(const Run &run, Reply &reply) {
  reply.stream.emplace(*run.tokenizer);
  for (int32_t id : reply.promptIds)
    if (Result<std::string> piece = reply.stream->push(id); !piece.ok())
      return piece.status();
  return reply.stream->stopAt(stopStrings(run), reply.promptIds);
}

/// Begins the text in the grammar, if there is one.
static Status beginMatcher(const Run &run, Reply &reply) {
  if (!run.grammar)
    return Status();
  Result<grammar::Matcher> matcher = grammar::Matcher::create(run.grammar);
  if (!matcher.ok())
    return matcher.status();
  reply.matcher = std::move(*matcher);
  return allowNext(*reply.matcher, *reply.sampler);
}

/// Goes on in the grammar, for the next draw if there is one.
static Status match(Reply &reply, const BatchResult &result) {
  if (!reply.matcher)
    return Status();
  Status status = reply.matcher->accept(result.id);
  bool isLast = result.finish != Finish::None || reply.stream->stopped() ||
                reply.matcher->isFinished();
  if (!status.ok() || isLast)
    return status;
  return allowNext(*reply.matcher, *reply.sampler);
}

/// Adds a prompt to the batch.
Status Prompts::begin(Reply &reply) {
  auto ids = promptOf(run, "--prompts", reply.prompt, "--ids");
  if (agreed.ok())
    agreed = agreeOnIds(run, ids);
  if (!ids.ok())
    return ids.status();
  reply.promptIds = std::move(*ids);
  auto length = static_cast<int64_t>(reply.promptIds.size());
  Result<int64_t> limit = newIds(run, length);
  if (!limit.ok())
    return limit.status();
  auto sampler = Sampler::create(samplerOptions(run), run.manifest().vocabSize);
  if (!sampler.ok())
    return sampler.status();
  if (Status status = openText(run, reply); !status.ok())
    return status;
  reply.sampler = std::make_shared<Sampler>(std::move(*sampler));
  if (Status status = beginMatcher(run, reply); !status.ok())
    return status;
  SequenceOptions options;
  options.sampler = reply.sampler;
  for (int64_t id : run.generation.eos)
    options.ends.push_back(static_cast<int32_t>(id));
  Result<int64_t> sequence = batch.join(options);
  if (!sequence.ok())
    return sequence.status();
  Status status = batch.feed(*sequence, reply.promptIds.data(), length, *limit);
  if (status.ok())
    bySequence[*sequence] = &reply;
  return status;
}

/// Reads prompts, so that as many wait as run. An error in a prompt is
/// its own.
void Prompts::readMore() {
  auto ahead = static_cast<size_t>(2 * batch.texts());
  std::string line;
  for (; read.ok() && bySequence.size() < ahead; ++count) {
    Result<bool> found = readLine(run, lines, line);
    read = found.status();
    if (!read.ok() || !*found)
      break;
    Reply &reply = replies.emplace_back();
    reply.prompt = std::move(line);
    reply.status = begin(reply);
    reply.isDone = !reply.status.ok();
  }
}

/// Adds text to a reply, or an error in its place.
static void append(Reply &reply, const Result<std::string> &piece) {
  if (piece.ok())
    reply.text += *piece;
  else if (reply.status.ok())
    reply.status = piece.status();
}

/// Takes the result of a step. Whether the reply is complete now.
bool Prompts::note(const BatchResult &result) {
  auto found = bySequence.find(result.sequence);
  if (found == bySequence.end()) // a string ended it in this step
    return false;
  Reply &reply = *found->second;
  reply.status = result.status;
  if (result.id >= 0) {
    reply.ids.push_back(result.id);
    append(reply, reply.stream->push(result.id));
    Status status = match(reply, result);
    if (reply.status.ok())
      reply.status = status;
  }
  reply.finish = result.finish;
  reply.stopped = reply.stream->stopped();
  if (reply.matcher && reply.matcher->isFinished())
    reply.finish = Finish::End;
  reply.isDone =
      reply.finish != Finish::None || reply.stopped || !reply.status.ok();
  if (!reply.isDone)
    return false;
  append(reply, reply.stream->finish());
  bySequence.erase(found);
  return true;
}

static nlohmann::ordered_json toJson(const Reply &reply) {
  nlohmann::ordered_json json = {{"prompt", reply.prompt}};
  if (!reply.status.ok()) {
    json["error"] = reply.status.message();
    return json;
  }
  json["text"] = reply.text;
  json["ids"] = reply.ids;
  json["finish"] = reply.stopped                    ? "stop"
                   : reply.finish == Finish::End    ? "end"
                   : reply.finish == Finish::Length ? "length"
                                                    : "context";
  return json;
}

/// Prints the first replies that are done.
Status Prompts::print() {
  for (; !replies.empty() && replies.front().isDone; replies.pop_front()) {
    failed += !replies.front().status.ok();
    nlohmann::ordered_json json = toJson(replies.front());
    using Handler = nlohmann::ordered_json::error_handler_t;
    Status status =
        writeOut(json.dump(-1, ' ', false, Handler::replace) + "\n");
    if (!status.ok())
      return status;
  }
  return Status();
}

/// Has the step try what the grammar leaves texts no choice in.
Status Prompts::propose() {
  auto texts = static_cast<int64_t>(bySequence.size());
  auto words = static_cast<size_t>(run.manifest().vocabSize + 31) / 32;
  for (auto &[sequence, reply] : bySequence) {
    if (!reply->matcher || reply->ids.empty() || run.options.draftRows <= texts)
      continue;
    auto most = static_cast<size_t>(run.options.draftRows - texts);
    std::vector<int32_t> ids = reply->matcher->forced(most);
    std::vector<uint32_t> masks(ids.size() * words);
    size_t count =
        reply->matcher->masksAfter(ids.data(), ids.size(), masks.data(), words);
    Status status = batch.propose(
        sequence, ids.data(), static_cast<int64_t>(count), masks.data(), words);
    if (!status.ok())
      return status;
  }
  return Status();
}

Status Prompts::runAll() {
  double began = now();
  for (readMore(); batch.unfinished() > 0 || !replies.empty(); readMore()) {
    if (!agreed.ok())
      return agreed;
    if (Status status = propose(); !status.ok())
      return status;
    Status status = batch.step();
    std::vector<BatchResult> results = batch.results();
    for (const BatchResult &result : results) {
      if (note(result) && status.ok())
        status = batch.leave(result.sequence);
    }
    if (status.ok())
      status = print();
    if (!status.ok())
      return status;
  }
  const BatchCounts &counts = batch.counts();
  double seconds = now() - began;
  auto computed = static_cast<double>(counts.prefilled + counts.decoded);
  if (run.talks() && counts.drafted)
    fprintf(stderr, "of %lld drafts, %lld were drawn\n",
            static_cast<long long>(counts.drafted),
            static_cast<long long>(counts.accepted));
  if (run.talks())
    fprintf(stderr,
            "prompts %zu, prefill %lld tokens and decode %lld tokens in %.3f s "
            "(%.1f tokens/s), %lld tokens were there already\n",
            count, static_cast<long long>(counts.prefilled),
            static_cast<long long>(counts.decoded), seconds,
            seconds > 0 ? computed / seconds : 0,
            static_cast<long long>(counts.reused));
  if (failed == 0 || !read.ok())
    return read;
  run.failsTogether = true;
  return Status(CRIA_INVALID_ARGUMENT, "--prompts: " + std::to_string(failed) +
                                           " of " + std::to_string(count) +
                                           " prompts failed");
}

Status runPrompts(Run &run) {
  Result<Lines> lines = Lines::open(run.isFirst() ? run.options.prompts : "-");
  if (!lines.ok())
    return lines.status();
  BatchOptions options;
  options.threads = run.options.threads;
  options.draftRows = run.options.draftRows;
  options.texts = run.texts;
  auto batch = Batch::create(run.model, options);
  if (!batch.ok())
    return batch.status();
  return Prompts(run, **batch, *lines).runAll();
}

} // namespace cria
