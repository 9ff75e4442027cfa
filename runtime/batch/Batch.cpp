#include "runtime/batch/Batch.h"

#include <algorithm>
#include <string>
#include <utility>

namespace cria {

/// A part of a message.
struct Word {
  Word(const char *text) : text(text) {}
  Word(int64_t number) : number(number) {}

  const char *text = nullptr; // or else the number
  int64_t number = 0;
};

/// An error whose message is `words`.
static Status failed(cria_status code, std::initializer_list<Word> words) {
  std::string message;
  for (const Word &word : words)
    message += word.text ? word.text : std::to_string(word.number);
  return Status(code, message);
}

Batch::Batch(std::shared_ptr<const Model> model,
             std::unique_ptr<PagedBackend> backend, const BatchOptions &options,
             const Sampler &greedy)
    : shared(std::move(model)), backend(std::move(backend)), options(options),
      pool(options.pages, spec().page), greedy(1, greedy) {}

/// The pages that `options` ask for.
static Result<int64_t> pageCount(const BatchOptions &options,
                                 const Manifest &manifest) {
  const BatchSpec &spec = *manifest.batch;
  int64_t pages = options.pages ? options.pages : spec.rows * spec.width;
  if (options.cacheBytes) {
    uint64_t fit = options.cacheBytes / manifest.pageBytes();
    if (!options.pages || fit < static_cast<uint64_t>(pages))
      pages = static_cast<int64_t>(fit);
  }
  auto most = std::min<int64_t>(
      INT32_MAX, INT64_MAX / static_cast<int64_t>(manifest.pageBytes()));
  if (pages < 1 || pages > most)
    return failed(CRIA_INVALID_ARGUMENT,
                  {"the batch would have ", pages, " pages of ",
                   static_cast<int64_t>(manifest.pageBytes()),
                   " bytes, expected 1 to ", most});
  return pages;
}

Result<std::unique_ptr<Batch>> Batch::create(std::shared_ptr<const Model> model,
                                             const BatchOptions &given) {
  BatchOptions options = given;
  const Manifest &manifest = model->manifest();
  if (Status status = checkThreads(options.threads); !status.ok())
    return status;
  if (options.chunk < 0)
    return failed(CRIA_INVALID_ARGUMENT,
                  {"chunk is ", options.chunk, ", expected 0 or more"});
  options.chunk =
      options.chunk ? std::min(options.chunk, manifest.chunk) : manifest.chunk;
  if (manifest.batch) {
    Result<int64_t> pages = pageCount(options, manifest);
    if (!pages.ok())
      return pages.status();
    options.pages = *pages;
  }
  auto backend = model->bound().newPagedBackend(options.threads, options.pages);
  if (!backend.ok())
    return backend.status();
  return create(std::move(model), options, std::move(*backend));
}

Result<std::unique_ptr<Batch>>
Batch::create(std::shared_ptr<const Model> model, const BatchOptions &options,
              std::unique_ptr<PagedBackend> backend) {
  SamplerOptions likeliest;
  likeliest.temperature = 0;
  auto greedy = Sampler::create(likeliest, model->manifest().vocabSize);
  if (!greedy.ok())
    return greedy.status();
  return std::unique_ptr<Batch>(
      new Batch(std::move(model), std::move(backend), options, *greedy));
}

Result<Sequence *> Batch::find(int64_t number) const {
  auto isBefore = [](const std::unique_ptr<Sequence> &each, int64_t number) {
    return each->number < number;
  };
  auto found =
      std::lower_bound(sequences.begin(), sequences.end(), number, isBefore);
  if (found == sequences.end() || (*found)->number != number)
    return failed(CRIA_NOT_FOUND, {"the batch has no sequence ", number});
  return found->get();
}

Status Batch::checkOptions(const SequenceOptions &options) const {
  int64_t vocab = shared->manifest().vocabSize;
  if (options.sampler && options.sampler->vocabSize() != vocab)
    return failed(CRIA_INVALID_ARGUMENT,
                  {"the sampler's vocab_size is ", options.sampler->vocabSize(),
                   ", expected the model's ", vocab});
  if (options.loras && options.loras->model() != shared)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the LoRA set is of another model than the batch");
  // They draw side by side, each on a thread.
  for (const auto &other : sequences)
    if (options.sampler && other->sampler == options.sampler)
      return failed(CRIA_INVALID_ARGUMENT,
                    {"the sampler is that of sequence ", other->number});
  return Status();
}

/// Adds a sequence whose ids, if there are any, its sampler has not seen.
int64_t Batch::add(std::unique_ptr<Sequence> sequence,
                   const SequenceOptions &options) {
  static_cast<SequenceOptions &>(*sequence) = options;
  sequence->number = nextNumber;
  // A step changes sequences and takes no memory for that, so that it may fail
  // for want of memory only before.
  for (auto *list : {&running, &waiting})
    if (list->capacity() <= sequences.size())
      list->reserve(2 * sequences.size() + 1);
  sequence->pages.reserve(static_cast<size_t>(spec().width));
  sequences.push_back(std::move(sequence));
  if (options.sampler)
    for (int32_t id : sequences.back()->ids)
      options.sampler->accept(id);
  return nextNumber++;
}

Result<int64_t> Batch::join(const SequenceOptions &options) {
  Status status = checkOptions(options);
  if (!status.ok())
    return status;
  auto sequence = std::make_unique<Sequence>();
  sequence->weights = options.loras ? options.loras->number() : 0;
  sequence->key = sequence->weights;
  return add(std::move(sequence), options);
}

Result<int64_t> Batch::fork(int64_t number, const SequenceOptions &options) {
  Result<Sequence *> from = find(number);
  if (!from.ok())
    return from.status();
  if (Status status = checkOptions(options); !status.ok())
    return status;
  if (options.loras && options.loras != (*from)->loras)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the LoRA set is another than that of the sequence to fork");
  SamplerUse use(options.sampler.get());
  if (!use.status().ok())
    return use.status();
  SequenceOptions chosen = options;
  chosen.loras = (*from)->loras;
  auto copy = std::make_unique<Sequence>(**from);
  copy->state = Sequence::State::Idle;
  copy->left = 0;
  copy->lastUse = steps;
  int64_t made = add(std::move(copy), chosen);
  for (int32_t page : sequences.back()->pages)
    pool.share(page);
  return made;
}

/// Gives back the pages that hold no position that was computed.
void Batch::releaseUnused(Sequence &sequence) {
  auto needed = static_cast<size_t>(pagesOf(sequence.computed));
  for (; sequence.pages.size() > needed; sequence.pages.pop_back())
    pool.release(sequence.pages.back());
}

/// The last page first: of pages that are kept it is the one to go first, for
/// the others can be found without it.
void Batch::releasePages(Sequence &sequence) {
  sequence.computed = sequence.entered = 0;
  releaseUnused(sequence);
  sequence.key = sequence.weights;
}

Status Batch::leave(int64_t number) {
  Result<Sequence *> found = find(number);
  if (!found.ok())
    return found.status();
  Sequence *sequence = *found;
  releasePages(*sequence);
  running.erase(std::remove(running.begin(), running.end(), sequence),
                running.end());
  waiting.erase(std::remove(waiting.begin(), waiting.end(), sequence),
                waiting.end());
  auto is = [&](const std::unique_ptr<Sequence> &each) {
    return each.get() == sequence;
  };
  sequences.erase(std::find_if(sequences.begin(), sequences.end(), is));
  return Status();
}

/// RESOURCE_EXHAUSTED: a sequence that has `held` pages needs so many.
Status Batch::shortOf(int64_t number, int64_t pages, int64_t held) const {
  return failed(CRIA_RESOURCE_EXHAUSTED,
                {"sequence ", number, " needs ", pages, " pages and has ", held,
                 ": ", pool.available(), " of the batch's ", pool.pages(),
                 " are free"});
}

Status Batch::checkFeed(const Sequence &sequence, const int32_t *ids,
                        int64_t count, int64_t most) const {
  const Manifest &manifest = shared->manifest();
  if (sequence.state != Sequence::State::Idle)
    return failed(
        CRIA_FAILED_PRECONDITION,
        {"sequence ", sequence.number, " has not finished what it was fed"});
  if (count < 0 || most < 0 ||
      (count == 0 && sequence.computed == sequence.end()))
    return failed(CRIA_INVALID_ARGUMENT,
                  {count, " ids and ", most,
                   " to draw, expected at least one id and 0 or more"});
  for (int64_t i = 0; i < count; ++i)
    if (ids[i] < 0 || ids[i] >= manifest.vocabSize)
      return failed(CRIA_INVALID_ARGUMENT,
                    {"id ", int64_t(ids[i]), " at index ", i,
                     ", expected 0 to ", manifest.vocabSize - 1});
  int64_t end = sequence.end();
  if (count > manifest.maxSeq - end)
    return failed(CRIA_OUT_OF_RANGE,
                  {count, " ids at position ", end, " make ", end + count,
                   ", the artifact's context holds ", manifest.maxSeq});
  if (pagesOf(end + count) > pool.pages())
    return shortOf(sequence.number, pagesOf(end + count),
                   static_cast<int64_t>(sequence.pages.size()));
  return Status();
}

Status Batch::feed(int64_t number, const int32_t *ids, int64_t count,
                   int64_t most) {
  Result<Sequence *> found = find(number);
  if (!found.ok())
    return found.status();
  Sequence &sequence = **found;
  SamplerUse use(sequence.sampler.get());
  Status status = checkFeed(sequence, ids, count, most);
  if (status.ok())
    status = use.status();
  if (!status.ok())
    return status;
  int64_t room = shared->manifest().maxSeq - sequence.end() - count + 1;
  size_t size =
      sequence.ids.size() + static_cast<size_t>(count + std::min(most, room));
  sequence.ids.reserve(size);
  sequence.decodes.reserve(size);
  sequence.ids.insert(sequence.ids.end(), ids, ids + count);
  sequence.decodes.resize(sequence.ids.size());
  if (count) // an id that was drawn last is computed with those that follow
    std::fill(sequence.decodes.begin() + (sequence.settled - sequence.unknown),
              sequence.decodes.end(), sequence.end() - sequence.settled == 1);
  if (sequence.sampler)
    std::for_each(ids, ids + count,
                  [&](int32_t id) { sequence.sampler->accept(id); });
  sequence.left = most;
  sequence.state = Sequence::State::Waiting;
  waiting.push_back(&sequence);
  return Status();
}

Result<std::pair<int64_t, int64_t>> Batch::position(int64_t number) const {
  Result<Sequence *> found = find(number);
  if (!found.ok())
    return found.status();
  return std::pair((*found)->computed, (*found)->end());
}

/// FAILED_PRECONDITION where the pages are not those of the text so far.
Status Batch::checkPages(const Sequence &sequence) const {
  if (sequence.computed >= sequence.settled)
    return Status();
  return failed(CRIA_FAILED_PRECONDITION,
                {"sequence ", sequence.number,
                 " gave its pages back, and is computed anew when it runs"});
}

Result<uint64_t> Batch::stateBytes(int64_t number) const {
  Result<Sequence *> found = find(number);
  if (!found.ok())
    return found.status();
  if (Status status = checkPages(**found); !status.ok())
    return status;
  return sizeof(SessionHeader) +
         bytesOf(cacheRanges(shared->manifest(), (*found)->computed));
}

Status Batch::save(int64_t number, std::byte *state) const {
  Result<uint64_t> size = stateBytes(number);
  if (!size.ok())
    return size.status();
  const Sequence &sequence = **find(number);
  Result<SessionHeader> header = headerOf(*shared);
  if (!header.ok())
    return header.status();
  header->position = header->prompt = header->rotated = sequence.computed;
  header->bytes = *size - sizeof(SessionHeader);
  const Manifest &manifest = shared->manifest();
  std::byte *to = state + sizeof(SessionHeader);
  auto pages = static_cast<size_t>(pagesOf(sequence.computed));
  for (size_t cache = 0; cache < manifest.caches.size(); ++cache)
    for (size_t i = 0; i < pages; ++i) {
      uint64_t bytes = manifest.caches[cache].bytes;
      Status status = backend->readPage(cache, sequence.pages[i], 0, to, bytes);
      if (!status.ok())
        return status;
      to += bytes;
    }
  sealState(*header, state);
  return Status();
}

Status Batch::restore(int64_t number, const std::byte *state, uint64_t size) {
  Result<Sequence *> found = find(number);
  if (!found.ok())
    return found.status();
  Sequence &sequence = **found;
  if (sequence.end() > 0)
    return failed(CRIA_FAILED_PRECONDITION,
                  {"sequence ", number, " holds ", sequence.end(),
                   " positions, expected none"});
  const Manifest &manifest = shared->manifest();
  Result<SessionHeader> own = headerOf(*shared);
  if (!own.ok())
    return own.status();
  Result<SessionHeader> given = openState(state, size, *own, manifest);
  if (!given.ok())
    return given.status();
  int64_t pages = pagesOf(given->position);
  if (pages > pool.available())
    return shortOf(number, pages, 0);
  for (int64_t i = 0; i < pages; ++i)
    sequence.pages.push_back(pool.take());
  const std::byte *from = state + sizeof(SessionHeader);
  Status status;
  for (size_t cache = 0; cache < manifest.caches.size(); ++cache)
    for (int32_t page : sequence.pages) {
      uint64_t bytes = manifest.caches[cache].bytes;
      if (status.ok())
        status = backend->writePage(cache, page, 0, from, bytes);
      from += bytes;
    }
  if (!status.ok()) {
    releasePages(sequence);
    return status;
  }
  sequence.unknown = sequence.computed = sequence.settled = given->position;
  return status;
}

} // namespace cria
