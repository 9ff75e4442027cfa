#include "runtime/session/Session.h"

#include "runtime/device/Sampler.h"
#include "runtime/session/DropPositions.h"
#include "runtime/session/Pooling.h"
#include "runtime/weights/Floats.h"
#include "runtime/weights/RopeTables.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

namespace cria {

Result<std::unique_ptr<Session>>
Session::create(std::shared_ptr<const Model> model, const Threads &threads) {
  if (Status status = checkThreads(threads.count); !status.ok())
    return status;
  auto backend = model->newBackend(threads);
  if (!backend.ok())
    return backend.status();
  return std::unique_ptr<Session>(
      new Session(std::move(model), std::move(*backend)));
}

/// Checks that `count` more positions fit. `what` names them in the error.
Status Session::checkLength(int64_t count, const char *what) const {
  const Manifest &manifest = shared->manifest();
  if (manifest.encoder && source == 0)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the model attends to a source text, and none was encoded");
  if (manifest.bidirectional && (fed > 0 || count > manifest.chunk))
    return Status(CRIA_OUT_OF_RANGE,
                  {count, " ", what, " at position ", fed,
                   ", but the model's tokens see later tokens: a text "
                   "is one call from position 0, of at most ",
                   manifest.chunk, " ids"});
  int64_t most = manifest.maxSeq;
  if (count <= 0)
    return Status(CRIA_INVALID_ARGUMENT,
                  {"no ", what, ", expected at least one"});
  if (count > most - fed)
    return Status(CRIA_OUT_OF_RANGE,
                  {count, " ", what, " at position ", fed, " make ",
                   fed + count, ", the artifact's context holds ", most});
  return Status();
}

Status Session::check(const int32_t *ids, int64_t count) const {
  Status status = checkLength(count, "ids");
  return status.ok() ? checkIds(ids, count) : status;
}

/// Sees to it that the text is computed anew if the caches lack some of it.
void Session::checkReach() {
  if (fed == 0)
    written = 0;
  if (written - fed > shared->manifest().reach())
    rotated = 0;
}

/// Keeps the first `position` positions. If the prompt ended after them, the
/// next feed is its end.
void Session::forget(int64_t position) {
  fed = position;
  checkReach();
  if (fed < prompt)
    prompt = 0;
  history.cut(fed);
}

/// INVALID_ARGUMENT unless there are ids and all are in the vocabulary.
Status Session::checkIds(const int32_t *ids, int64_t count) const {
  int64_t vocab = shared->manifest().vocabSize;
  if (shared->manifest().takesRows())
    return Status(
        CRIA_INVALID_ARGUMENT,
        "the model takes rows of numbers, such as an image's patches, "
        "in place of ids");
  if (count <= 0)
    return Status(CRIA_INVALID_ARGUMENT, "no ids, expected at least one");
  for (int64_t i = 0; i < count; ++i)
    if (ids[i] < 0 || ids[i] >= vocab)
      return Status(CRIA_INVALID_ARGUMENT, {"id ", ids[i], " at index ", i,
                                            ", expected 0 to ", vocab - 1});
  return Status();
}

Status Session::encode(const int32_t *ids, int64_t count) {
  const Manifest &manifest = shared->manifest();
  if (!manifest.encoder)
    return Status(CRIA_INVALID_ARGUMENT, "the model has no encoder");
  int64_t most = std::min(manifest.chunk, manifest.maxSeq);
  if (count > most)
    return Status(CRIA_OUT_OF_RANGE,
                  {count, " ids to encode, the artifact takes ", most});
  Status status = checkIds(ids, count);
  if (!status.ok())
    return status;
  source = 0; // a failed encode leaves no source
  forget(0);
  Step step = {ids, count, 0, count, nullptr, count, count};
  step.loras = adapters();
  status = backend->encode(step);
  if (Status intact = shared->bound().intact(); !intact.ok())
    status = intact;
  if (status.ok())
    source = count;
  return status;
}

/// Does one step of the current text, which begins with the last `earlier` ids
/// of those that were fed.
Status Session::perform(Step step, int64_t earlier, bool last, StepBody body) {
  step.prompt = prompt;
  bool looks = step.embeddings && shared->manifest().seesAhead;
  step.source = looks ? step.tokens - 1 : source;
  step.loras = adapters();
  std::vector<int32_t> ids;
  if (earlier) {
    ids = history.idsWith(earlier, step);
    step.ids = ids.data();
    step.tokens += earlier;
    step.position -= earlier;
    step.firstLogit += earlier;
  }
  Status status = caches.place(step);
  if (status.ok())
    status = body(step, last);
  // If a file of weights is damaged, that error says more than the step's.
  if (Status intact = shared->bound().intact(); !intact.ok())
    return intact;
  return status;
}

/// The positions of the text's prompt once `count` more are fed.
int64_t Session::promptWith(int64_t count) const {
  int64_t end = fed + count, length = expected ? expected : prompt;
  if (expected || prompt == 0 || count > 1)
    length = std::max(length, end);
  for (const RopeSpec &rope : shared->manifest().ropes) {
    auto original = static_cast<int64_t>(rope.original);
    if (rope.recompute && length <= original && end > original)
      length = end;
  }
  return length;
}

/// Whether the positions that were fed have the frequencies that they have in a
/// text whose prompt is the current one.
bool Session::isRotatedForPrompt() const {
  if (fed == 0 || rotated == prompt)
    return true;
  const std::vector<RopeSpec> &ropes = shared->manifest().ropes;
  return rotated > 0 &&
         std::all_of(ropes.begin(), ropes.end(), [&](const RopeSpec &rope) {
           return sameFrequencies(rope, rotated, prompt) &&
                  sameFrequencies(rope, std::max(rotated, fed), prompt);
         });
}

/// Computes the positions that were fed anew, in the steps of a text that is
/// fed at once: if ids follow, these begin in the middle of a step. Returns how
/// many earlier ids this step has.
Result<int64_t> Session::recompute(bool idsFollow) {
  // Over pages, the bits of an id do not depend on its step.
  const std::optional<BatchSpec> &batch = shared->manifest().batch;
  int64_t chunk = shared->manifest().chunk, rows = batch ? batch->rows : chunk,
          earlier = idsFollow && !batch ? history.lastIds() % chunk : 0;
  shared->log()(CRIA_LOG_INFO,
                concat({"computes ", fed,
                        written - fed > shared->manifest().reach()
                            ? " positions anew: a state or a ring is not taken "
                              "back so far"
                            : " positions anew: in the longer or shorter text "
                              "its rope has other frequencies"}));
  rotated = 0;
  Status status =
      history.replay(fed - earlier, chunk, rows, [&](const Step &step) {
        if (cancelled.load(std::memory_order_relaxed))
          return Status(CRIA_CANCELLED, "");
        return perform(step, 0, false, [&](const Step &again, bool) {
          return backend->step(again);
        });
      });
  if (!status.ok())
    return status;
  written = fed;
  return earlier;
}

/// Feeds `count` positions in steps of at most `chunk`, each done by `body`,
/// until a step fails or the feed is cancelled. `ids`: they are no embeddings.
Status Session::inChunks(int64_t count, int64_t chunk, bool ids,
                         PhaseTime &phase, MakeStep make, StepBody body) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  const auto before = std::pair(prompt, expected);
  // An earlier prompt, or a state, may have left one after the text.
  promptBegin = expected || fed < prompt ? std::min(promptBegin, fed) : fed;
  prompt = promptWith(count);
  expected = 0;
  int64_t length = prompt - promptBegin;
  Result<int64_t> earlier = 0;
  if (!isRotatedForPrompt())
    earlier = recompute(ids);
  Status status = earlier.status();
  int64_t done = 0;
  while (status.ok() && done < count &&
         !cancelled.load(std::memory_order_relaxed)) {
    Step step = make(done, std::min(count - done, chunk - *earlier));
    step.isOfPrompt = step.embeddings || length > shortFeed;
    written = std::max(written, fed + step.tokens);
    status = perform(step, *earlier, done + step.tokens == count, body);
    if (!status.ok()) {
      checkReach(); // caches may have any of the step's positions
      break;
    }
    if (shared->manifest().keepsText())
      history.append(step, shared->manifest().embeddingBytes(),
                     shared->manifest().batch && !step.isOfPrompt);
    fed += step.tokens;
    done += step.tokens;
    rotated = prompt;
    earlier = 0;
  }
  if (done == 0) // the text is as it was
    std::tie(prompt, expected) = before;
  phase.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  phase.tokens += done;
  bool ended = status.ok() || status.code() == CRIA_CANCELLED;
  if (ended && done < count) {
    cancelled.store(false);
    return Status(CRIA_CANCELLED,
                  {"cancelled after ", done, " of ", count, " positions"});
  }
  return status;
}

/// Feeds ids in the steps that `make` returns.
Status Session::advance(const int32_t *ids, int64_t count, MakeStep make,
                        StepBody body) {
  Status status = check(ids, count);
  if (!status.ok())
    return status;
  PhaseTime &phase = count == 1 ? decode : prefill;
  return inChunks(count, shared->manifest().chunk, /*ids=*/true, phase, make,
                  body);
}

/// INVALID_ARGUMENT unless the indexes ascend and are less than `count`.
static Status checkIndexes(const WantedRows &rows, int64_t count) {
  for (int64_t i = 0; i < rows.count; ++i)
    if (rows.indexes[i] < (i ? rows.indexes[i - 1] + 1 : 0) ||
        rows.indexes[i] >= count)
      return Status(CRIA_INVALID_ARGUMENT,
                    {"row ", rows.indexes[i], " at index ", i,
                     ", expected ascending ones from 0 to ", count - 1});
  return Status();
}

/// Checks what is wanted of a feed of `count` positions.
Status Session::checkOutputs(const Outputs &outputs, int64_t count) const {
  Status status = checkIndexes(outputs.logits, count);
  if (status.ok())
    status = checkIndexes(outputs.hidden, count);
  if (status.ok() && outputs.hidden.any())
    status = shared->checkHidden();
  return status;
}

Status Session::feed(const int32_t *ids, int64_t count,
                     const Outputs &outputs) {
  if (Status status = checkOutputs(outputs, count); !status.ok())
    return status;
  OutputTaker taker(outputs, count, shared->manifest());
  auto make = [&](int64_t done, int64_t tokens) {
    Step step = {ids + done, tokens, fed, tokens, nullptr};
    taker.begin(step, done);
    return step;
  };
  return advance(ids, count, make, [&](const Step &step, bool) {
    return taker.run(*backend, step);
  });
}

Status Session::embed(const int32_t *ids, int64_t count, cria_pooling kind,
                      bool normalize, float *embedding) {
  Status status = shared->checkHidden();
  if (!status.ok())
    return status;
  int64_t width = shared->manifest().hiddenSize;
  Pooling pooling(kind, count, width);
  std::vector<float> rows; // of one step
  auto make = [&](int64_t done, int64_t tokens) {
    Step step = {ids + done, tokens, fed, tokens, nullptr};
    step.hiddenRows = pooling.rowsOf(done, tokens);
    rows.resize(static_cast<size_t>(step.hiddenRows * width));
    step.hidden = rows.data();
    return step;
  };
  status = advance(ids, count, make, [&](const Step &step, bool) {
    Status done = backend->step(step);
    if (done.ok())
      pooling.add(step.hidden, step.hiddenRows);
    return done;
  });
  if (status.ok())
    pooling.finish(normalize, embedding);
  return status;
}

Result<int32_t> Session::draw(const int32_t *ids, int64_t count,
                              Sampler &sampler) {
  int64_t vocab = shared->manifest().vocabSize;
  if (sampler.vocabSize() != vocab)
    return Status(CRIA_INVALID_ARGUMENT,
                  {"the sampler's vocab_size is ", sampler.vocabSize(),
                   ", expected the model's ", vocab});
  int32_t id = 0;
  auto make = [&](int64_t done, int64_t tokens) {
    bool ends = done + tokens == count;
    return Step{ids + done, tokens, fed, ends ? tokens - 1 : tokens, nullptr};
  };
  Status status = advance(ids, count, make, [&](const Step &step, bool last) {
    if (!last)
      return backend->step(step);
    Draw draw = {&sampler};
    Status status = backend->draw(&step, 1, &draw, 1);
    if (!status.ok() || !draw.id.ok())
      return status.ok() ? draw.id.status() : status;
    id = *draw.id;
    return status;
  });
  if (!status.ok())
    return status;
  return id;
}

/// Converts `count` rows of `hidden` numbers to `type`. The error names the
/// first number that is not finite in `type`.
static Result<std::vector<std::byte>>
convertRows(const float *rows, int64_t count, int64_t hidden, DType type) {
  auto numbers = static_cast<uint64_t>(count * hidden);
  std::vector<std::byte> made(bytesOf(type, numbers));
  auto *from = reinterpret_cast<const std::byte *>(rows);
  convertElements(from, DType::F32, made.data(), type, numbers);
  std::vector<float> back(numbers);
  convertElements(made.data(), type, reinterpret_cast<std::byte *>(back.data()),
                  DType::F32, numbers);
  for (uint64_t i = 0; i < numbers; ++i)
    if (!std::isfinite(back[i]))
      return Status(CRIA_INVALID_ARGUMENT,
                    {"embedding ", i / static_cast<uint64_t>(hidden),
                     ", column ", i % static_cast<uint64_t>(hidden), " is ",
                     rows[i], ", expected a finite ", dtypeName(type)});
  return made;
}

Status Session::feedEmbeddings(const float *rows, int64_t count, int64_t hidden,
                               const Outputs &outputs) {
  const Manifest &manifest = shared->manifest();
  if (!manifest.embedding)
    return Status(CRIA_FAILED_PRECONDITION,
                  "the artifact's program has no single table of embeddings "
                  "for others to take its place");
  const WeightSpec &table = manifest.weights[*manifest.embedding];
  auto width = static_cast<int64_t>(table.shape[1]);
  if (hidden != width)
    return Status(CRIA_INVALID_ARGUMENT,
                  {"embeddings of ", hidden,
                   " numbers, expected the model's hidden size ", width});
  // A model with rows in front is bidirectional: the call is one step.
  int64_t front = manifest.frontRows;
  Status status = checkLength(front + count, "embeddings");
  if (status.ok())
    status = checkOutputs(outputs, count);
  if (!status.ok())
    return status;
  auto made = convertRows(rows, count, hidden, table.type);
  if (!made.ok())
    return made.status();
  made->insert(made->begin(),
               static_cast<size_t>(front) * manifest.embeddingBytes(),
               std::byte());
  std::vector<int32_t> ids(static_cast<size_t>(
      table.input ? manifest.chunk
                  : std::min(manifest.chunk, manifest.vocabSize)));
  std::iota(ids.begin(), ids.end(), 0);
  if (manifest.seesAhead && count > static_cast<int64_t>(ids.size()))
    return Status(CRIA_OUT_OF_RANGE,
                  {count,
                   " embeddings that see one another, the artifact takes ",
                   ids.size()});
  OutputTaker taker(outputs, count, manifest);
  auto make = [&](int64_t done, int64_t tokens) {
    Step step = {ids.data(), tokens - front, fed, tokens - front, nullptr};
    step.embeddings =
        made->data() + static_cast<uint64_t>(done) * manifest.embeddingBytes();
    taker.begin(step, done);
    step.tokens += front;
    step.firstLogit += front;
    return step;
  };
  return inChunks(
      front + count, static_cast<int64_t>(ids.size()), /*ids=*/false, prefill,
      make, [&](const Step &step, bool) { return taker.run(*backend, step); });
}

Status Session::setLoras(std::shared_ptr<const LoraSet> loras) {
  if (loras && loras->model() != shared)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the LoRA set is of another model than the session");
  loraSet = std::move(loras);
  return Status();
}

Status Session::expectPrompt(int64_t count) {
  if (count < 0 || count > shared->manifest().maxSeq)
    return Status(CRIA_OUT_OF_RANGE, {"a prompt of ", count, ", expected 0 to ",
                                      shared->manifest().maxSeq});
  expected = count;
  promptBegin = fed;
  return Status();
}

Status Session::rewind(int64_t position) {
  if (position < 0 || position > fed)
    return Status(CRIA_OUT_OF_RANGE,
                  {"position ", position, ", expected 0 to ", fed});
  forget(position);
  expected = 0;
  return Status();
}

Status Session::drop(int64_t begin, int64_t end) {
  if (begin < 0 || end < begin || end > fed)
    return Status(CRIA_OUT_OF_RANGE, "positions " + std::to_string(begin) +
                                         " to " + std::to_string(end) +
                                         ", expected some of 0 to " +
                                         std::to_string(fed));
  if (end == fed) // nothing follows them
    return rewind(begin);
  Status status = mayDropPositions(shared->manifest());
  if (!status.ok() || begin == end)
    return status;
  if (shared->manifest().keepsText()) {
    history.drop(begin, end);
    forget(fed - (end - begin));
    rotated = 0;
    return status;
  }
  status = dropPositions(shared->manifest(), caches, begin, end, fed);
  fed = status.ok() ? fed - (end - begin) : begin;
  return status;
}

/// What a header says of the text.
void Session::describe(SessionHeader &header) const {
  header.position = fed;
  header.written = std::min(written, shared->manifest().maxSeq);
  header.prompt = prompt;
  header.expected = expected;
  header.promptBegin = promptBegin;
  header.rotated = rotated;
  header.source = source;
}

/// Bytes of the caches' rows that hold the text.
uint64_t Session::rowBytes() const {
  return bytesOf(cacheRanges(shared->manifest(), std::max(fed, source)));
}

uint64_t Session::stateBytes() const {
  return sizeof(SessionHeader) + rowBytes() + history.write().size();
}

Status Session::readRows(std::byte *rows) const {
  Status status;
  for (const CacheRange &range :
       cacheRanges(shared->manifest(), std::max(fed, source))) {
    if (status.ok())
      status = caches.read(range.cache, range.begin, rows, range.bytes);
    rows += range.bytes;
  }
  return status;
}

Status Session::writeRows(const std::byte *rows, const SessionHeader &header,
                          History text) {
  source = 0; // a failed write leaves no text
  forget(0);
  Status status;
  for (const CacheRange &range : cacheRanges(
           shared->manifest(), std::max(header.position, header.source))) {
    if (status.ok())
      status = caches.write(range.cache, range.begin, rows, range.bytes);
    rows += range.bytes;
  }
  if (!status.ok())
    return status;
  const Manifest &manifest = shared->manifest();
  fed = header.position;
  // Of window pages there are those that the next id needs, and no others.
  written = manifest.batch && manifest.batch->window
                ? fed + manifest.reach()
                : std::max(fed, header.written);
  prompt = header.prompt;
  rotated = header.rotated;
  source = header.source;
  expected = header.expected;
  promptBegin = header.promptBegin;
  history = std::move(text);
  return status;
}

Status Session::save(std::byte *state) const {
  Result<SessionHeader> header = headerOf(*shared);
  if (!header.ok())
    return header.status();
  describe(*header);
  std::vector<std::byte> text = history.write();
  header->history = text.size();
  header->bytes = rowBytes() + text.size();
  std::byte *rows = state + sizeof(SessionHeader);
  Status status = readRows(rows);
  if (!status.ok())
    return status;
  std::copy(text.begin(), text.end(), rows + rowBytes());
  sealState(*header, state);
  return status;
}

Status Session::restore(const std::byte *state, uint64_t size) {
  const Manifest &manifest = shared->manifest();
  Result<SessionHeader> own = headerOf(*shared);
  if (!own.ok())
    return own.status();
  Result<SessionHeader> given = openState(state, size, *own, manifest);
  if (!given.ok())
    return given.status();
  History text;
  if (manifest.keepsText()) {
    auto read = History::read(state + size - given->history, given->history,
                              given->position, manifest);
    if (!read.ok())
      return read.status();
    text = std::move(*read);
  }
  return writeRows(state + sizeof(SessionHeader), *given, std::move(text));
}

Status Session::copy(const Session &other) {
  if (other.shared != shared)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the sessions are of different models");
  if (&other == this)
    return Status();
  std::vector<std::byte> rows(other.rowBytes());
  Status status = other.readRows(rows.data());
  if (!status.ok())
    return status;
  SessionHeader header;
  other.describe(header);
  return writeRows(rows.data(), header, other.history);
}

} // namespace cria
