#include "runtime/batch/Batch.h"

#include "runtime/session/History.h"

#include <algorithm>
#include <utility>

namespace cria {

static PageCounts countsOf(const BatchOptions &options) {
  return {options.pages, options.windowPages, options.states};
}

Batch::Batch(std::shared_ptr<const Model> model,
             std::unique_ptr<Backend> device, const BatchOptions &options,
             const Sampler &greedy)
    : shared(std::move(model)), backend(std::move(device)),
      held(shared->manifest(), *backend, countsOf(options),
           options.reusesDrawn),
      draftRows(options.draftRows),
      schedule(shared->manifest(), options, held, sequences),
      computation(shared->manifest(), *backend, greedy) {}

/// INVALID_ARGUMENT unless this number of pages, of `bytes` bytes each, can be
/// numbered and allocated. `kind` says which pages they are.
static Status checkCount(int64_t pages, uint64_t bytes, const char *kind) {
  auto most = std::min<int64_t>(
      INT32_MAX,
      INT64_MAX / static_cast<int64_t>(std::max(bytes, uint64_t(1))));
  if (pages >= 1 && pages <= most)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT,
                {"the batch would have ", pages, " ", kind, " of ",
                 static_cast<int64_t>(bytes), " bytes, expected 1 to ", most});
}

/// The window pages of a batch: what the windows of all texts take, as much
/// again for windows that can be found, and a chunk; no more than all pages of
/// the texts.
static int64_t windowPagesOf(const BatchOptions &options,
                             const BatchSpec &spec) {
  return std::min(2 * options.texts * spec.windowPages(1) +
                      spec.windowPages(std::max(options.chunk, spec.rows)),
                  options.texts * spec.width);
}

static Status checkCounts(const BatchOptions &options,
                          const Manifest &manifest) {
  Status status =
      checkCount(options.pages, manifest.pageBytes(PageKind::Whole), "pages");
  return status.ok() && manifest.batch->window
             ? checkCount(options.windowPages,
                          manifest.pageBytes(PageKind::Window), "window pages")
             : status;
}

/// Sets the numbers of pages. `cacheBytes` are shared out, beside states, as
/// the numbers that are given, or their defaults, would share them.
static Status setPages(BatchOptions &options, const Manifest &manifest) {
  const BatchSpec &spec = *manifest.batch;
  bool mayGrow = !options.pages, mayGrowWindows = !options.windowPages;
  if (mayGrow)
    options.pages = options.texts * spec.width;
  if (!spec.window)
    options.windowPages = 0;
  else if (mayGrowWindows)
    options.windowPages = windowPagesOf(options, spec);
  Status status = checkCounts(options, manifest);
  if (!status.ok() || !options.cacheBytes)
    return status;
  uint64_t whole = manifest.pageBytes(PageKind::Whole),
           window = manifest.pageBytes(PageKind::Window),
           states = manifest.pageBytes(PageKind::State) *
                    static_cast<uint64_t>(options.states),
           room = options.cacheBytes - std::min(states, options.cacheBytes);
  auto fit = [](uint64_t bytes, uint64_t each, bool mayGrow, int64_t &pages) {
    auto count = static_cast<int64_t>(bytes / each);
    if (mayGrow || count < pages)
      pages = count;
  };
  if (window) {
    auto windows = static_cast<uint64_t>(options.windowPages),
         all = whole * static_cast<uint64_t>(options.pages) + window * windows;
    int64_t ofOne = spec.windowPages(std::max(options.chunk, spec.rows));
    fit(room, all / windows, mayGrowWindows, options.windowPages);
    options.windowPages =
        std::max(options.windowPages,
                 std::min(ofOne, static_cast<int64_t>(room / window)));
    room -= window * static_cast<uint64_t>(options.windowPages);
  }
  if (whole)
    fit(room, whole, mayGrow, options.pages);
  return checkCounts(options, manifest);
}

Result<std::unique_ptr<Batch>> Batch::create(std::shared_ptr<const Model> model,
                                             const BatchOptions &given) {
  BatchOptions options = given;
  const Manifest &manifest = model->manifest();
  if (Status status = checkThreads(options.threads); !status.ok())
    return status;
  if (options.chunk < 0)
    return Status(CRIA_INVALID_ARGUMENT,
                  {"chunk is ", options.chunk, ", expected 0 or more"});
  if (options.draftRows < 0)
    return Status(CRIA_INVALID_ARGUMENT, {"draft_rows is ", options.draftRows,
                                          ", expected 0 or more"});
  if (options.texts < 0)
    return Status(CRIA_INVALID_ARGUMENT,
                  {"texts is ", options.texts, ", expected 0 or more"});
  if (!manifest.batch)
    return Status(CRIA_UNIMPLEMENTED,
                  "the artifact has no batches: compile it with --batch=N");
  options.chunk =
      options.chunk ? std::min(options.chunk, manifest.chunk) : manifest.chunk;
  int64_t rows = manifest.batch->rows;
  options.draftRows = std::min(options.draftRows, rows);
  options.texts = options.texts ? std::min(options.texts, rows) : rows;
  // As many can be found again as texts run.
  options.states = manifest.pageBytes(PageKind::State)
                       ? 2 * options.texts + options.draftRows
                       : 0;
  if (Status status = setPages(options, manifest); !status.ok())
    return status;
  auto backend = model->newBackend(options.threads, countsOf(options));
  if (!backend.ok())
    return backend.status();
  return create(std::move(model), options, std::move(*backend));
}

Result<std::unique_ptr<Batch>> Batch::create(std::shared_ptr<const Model> model,
                                             const BatchOptions &options,
                                             std::unique_ptr<Backend> backend) {
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
    return Status(CRIA_NOT_FOUND, {"the batch has no sequence ", number});
  return found->get();
}

Status Batch::checkOptions(const SequenceOptions &options) const {
  int64_t vocab = shared->manifest().vocabSize;
  if (options.sampler && options.sampler->vocabSize() != vocab)
    return Status(CRIA_INVALID_ARGUMENT,
                  {"the sampler's vocab_size is ", options.sampler->vocabSize(),
                   ", expected the model's ", vocab});
  if (options.loras && options.loras->model() != shared)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the LoRA set is of another model than the batch");
  if (Status status = shared->checkHidden();
      options.wantsHidden && !status.ok())
    return status;
  // They draw side by side, each on a thread.
  for (const auto &other : sequences)
    if (options.sampler && other->sampler == options.sampler)
      return Status(CRIA_INVALID_ARGUMENT,
                    {"the sampler is that of sequence ", other->number});
  return Status();
}

/// Adds a sequence whose ids, if there are any, its sampler has not seen.
int64_t Batch::add(std::unique_ptr<Sequence> sequence,
                   const SequenceOptions &options) {
  static_cast<SequenceOptions &>(*sequence) = options;
  sequence->number = nextNumber;
  schedule.reserve(sequences.size() + 1);
  const BatchSpec &spec = *shared->manifest().batch;
  sequence->pages.numbers.reserve(static_cast<size_t>(spec.width));
  sequence->windowPages.numbers.reserve(static_cast<size_t>(spec.windowWidth));
  sequences.push_back(std::move(sequence));
  if (options.sampler)
    std::for_each(sequences.back()->ids.begin() +
                      static_cast<int64_t>(sequences.back()->restored),
                  sequences.back()->ids.end(),
                  [&](int32_t id) { options.sampler->accept(id, false); });
  return nextNumber++;
}

Result<int64_t> Batch::join(const SequenceOptions &options) {
  Status status = checkOptions(options);
  if (!status.ok())
    return status;
  auto sequence = std::make_unique<Sequence>();
  sequence->weights = options.loras ? options.loras->number() : 0;
  sequence->salt = options.salt;
  sequence->key = sequence->chain();
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
  chosen.salt = (*from)->salt;
  auto copy = std::make_unique<Sequence>(**from);
  copy->state = Sequence::State::Idle;
  copy->left = 0;
  copy->drafts = Drafts();
  copy->lastUse = schedule.steps();
  int64_t made = add(std::move(copy), chosen);
  held.share(*sequences.back());
  return made;
}

Status Batch::leave(int64_t number) {
  Result<Sequence *> found = find(number);
  if (!found.ok())
    return found.status();
  Sequence *sequence = *found;
  held.release(*sequence);
  schedule.remove(*sequence);
  auto is = [&](const std::unique_ptr<Sequence> &each) {
    return each.get() == sequence;
  };
  sequences.erase(std::find_if(sequences.begin(), sequences.end(), is));
  return Status();
}

static Status checkIds(const int32_t *ids, int64_t count,
                       const Manifest &manifest) {
  for (int64_t i = 0; i < count; ++i)
    if (ids[i] < 0 || ids[i] >= manifest.vocabSize)
      return Status(CRIA_INVALID_ARGUMENT,
                    {"id ", int64_t(ids[i]), " at index ", i,
                     ", expected 0 to ", manifest.vocabSize - 1});
  return Status();
}

Status Batch::checkFeed(const Sequence &sequence, const int32_t *ids,
                        int64_t count, int64_t most) const {
  const Manifest &manifest = shared->manifest();
  if (!sequence.isIdle())
    return Status(
        CRIA_FAILED_PRECONDITION,
        {"sequence ", sequence.number, " has not finished what it was fed"});
  if (count < 0 || most < 0 ||
      (count == 0 && sequence.computed == sequence.end()))
    return Status(CRIA_INVALID_ARGUMENT,
                  {count, " ids and ", most,
                   " to draw, expected at least one id and 0 or more"});
  if (Status status = checkIds(ids, count, manifest); !status.ok())
    return status;
  int64_t end = sequence.end();
  if (count > manifest.maxSeq - end)
    return Status(CRIA_OUT_OF_RANGE,
                  {count, " ids at position ", end, " make ", end + count,
                   ", the artifact's context holds ", manifest.maxSeq});
  return schedule.checkFits(sequence, end + count);
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
  bool isSettled = sequence.settled == sequence.end();
  sequence.ids.insert(sequence.ids.end(), ids, ids + count);
  sequence.decodes.resize(sequence.ids.size());
  if (count) { // an id that was drawn last is fed with those that follow
    int64_t fed = count + (sequence.drewLast && !isSettled);
    int64_t length = sequence.announced > sequence.end() - count
                         ? std::max(sequence.announced, sequence.end()) -
                               sequence.announcedFrom
                         : fed;
    std::fill(sequence.decodes.end() - fed, sequence.decodes.end(),
              length <= shared->shortFeed());
    sequence.drewLast = false;
  }
  if (sequence.sampler)
    std::for_each(ids, ids + count,
                  [&](int32_t id) { sequence.sampler->accept(id, false); });
  sequence.left = most;
  schedule.add(sequence);
  return Status();
}

Status Batch::propose(int64_t number, const int32_t *ids, int64_t count,
                      const uint32_t *masks, size_t words) {
  Result<Sequence *> found = find(number);
  if (!found.ok())
    return found.status();
  if (draftRows == 0)
    return Status(CRIA_FAILED_PRECONDITION,
                  "the batch was made without draft_rows");
  if ((*found)->isIdle())
    return Status(CRIA_FAILED_PRECONDITION,
                  {"sequence ", number, " draws nothing now"});
  const Manifest &manifest = shared->manifest();
  Status status = checkIds(ids, count, manifest);
  Draft draft = {{ids, ids + std::min(count, draftRows)}, {}};
  for (size_t i = 0; masks && status.ok() && i < draft.ids.size(); ++i) {
    draft.masks.emplace_back(masks + i * words, masks + (i + 1) * words);
    status = checkMask(draft.masks.back(), manifest.vocabSize);
  }
  if (status.ok())
    (*found)->drafts.propose(std::move(draft), (*found)->ids.size());
  return status;
}

Status Batch::step() {
  struct End {
    Batch &batch;
    ~End() {
      batch.computation.end();
      batch.schedule.end(batch.chosen);
    }
  } end = {*this};
  schedule.begin(chosen);
  Status status = computation.run(chosen);
  if (Status intact = shared->bound().intact(); !intact.ok())
    status = intact;
  if (!status.ok()) {
    if (computation.hasBegun())
      schedule.fail(chosen);
    return status;
  }
  if (chosen.hiddenRows)
    schedule.give(*chosen.prompt, chosen.hidden, chosen.hiddenRows);
  for (const Row &row : chosen.rows)
    if (row.hidden)
      schedule.give(*row.sequence, row.hidden, 1);
  schedule.advance(chosen);
  computation.forEachDraw(
      [&](const Row &row, const Result<int32_t> &id, const float *logits) {
        schedule.take(row, id, logits);
      });
  return status;
}

Result<const Sequence *> Batch::sequence(int64_t number) const {
  Result<Sequence *> found = find(number);
  if (!found.ok())
    return found.status();
  return *found;
}

/// FAILED_PRECONDITION where the pages are not those of the text so far.
Status Batch::checkPages(const Sequence &sequence) const {
  if (sequence.computed >= sequence.settled)
    return Status();
  return Status(CRIA_FAILED_PRECONDITION,
                {"sequence ", sequence.number,
                 " gave its pages back, and is computed anew when it runs"});
}

/// The ids so far, as a session keeps them; none if it keeps none.
std::vector<std::byte> Batch::textOf(const Sequence &sequence) const {
  History text = sequence.before ? *sequence.before : History();
  for (int64_t at = sequence.unknown;
       shared->manifest().keepsText() && at < sequence.computed; ++at) {
    Step step = {&sequence.ids[static_cast<size_t>(at - sequence.unknown)], 1,
                 at, 1, nullptr};
    text.append(step, 0, sequence.decodesAt(at));
  }
  return text.write();
}

/// Gives the sequence the ids that a session, or a sequence, kept. If there are
/// embeddings among them, the ids stay unknown.
Status Batch::readText(const std::byte *bytes, const SessionHeader &header,
                       Sequence &sequence) {
  const Manifest &manifest = shared->manifest();
  auto text = History::read(bytes, header.history, header.position, manifest);
  if (!text.ok())
    return text.status();
  bool hasEmbeddings = false;
  Status status = text->replay(
      header.position, manifest.maxSeq, manifest.maxSeq, [&](const Step &step) {
        hasEmbeddings = hasEmbeddings || step.embeddings;
        if (hasEmbeddings && held.hasStates())
          return Status(CRIA_UNIMPLEMENTED,
                        "the state is of a text with embeddings, which a batch "
                        "of a model with states does not go on from");
        sequence.ids.insert(sequence.ids.end(), step.ids,
                            step.ids + step.tokens);
        sequence.decodes.resize(sequence.ids.size(), !step.isOfPrompt);
        return Status();
      });
  if (hasEmbeddings) {
    sequence.ids.clear();
    sequence.decodes.clear();
    sequence.before = std::make_shared<const History>(std::move(*text));
  }
  return status;
}

Result<uint64_t> Batch::stateBytes(int64_t number) const {
  Result<Sequence *> found = find(number);
  if (!found.ok())
    return found.status();
  if (Status status = checkPages(**found); !status.ok())
    return status;
  return sizeof(SessionHeader) + textOf(**found).size() +
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
  std::vector<std::byte> text = textOf(sequence);
  header->history = text.size();
  Status status = held.read(sequence, state + sizeof(SessionHeader));
  if (!status.ok())
    return status;
  std::copy(text.begin(), text.end(), state + *size - text.size());
  sealState(*header, state);
  return Status();
}

/// RESOURCE_EXHAUSTED unless there are pages for a text of `positions`
/// computed positions.
Status Batch::checkRoom(const Sequence &sequence, int64_t positions) const {
  const BatchSpec &spec = *shared->manifest().batch;
  int64_t pages = held.countFor(positions);
  for (PageKind kind : held.kinds()) {
    bool isWindow = kind == PageKind::Window;
    int64_t needed = pages - (isWindow ? spec.firstInWindow(positions) : 0);
    if (needed > held.pool(kind).available())
      return schedule.shortOf(sequence, kind, needed);
  }
  if (held.hasStates() && held.states().available() == 0)
    return schedule.shortOf(sequence, PageKind::Whole, pages);
  return Status();
}

Status Batch::restore(int64_t number, const std::byte *state, uint64_t size) {
  Result<Sequence *> found = find(number);
  if (!found.ok())
    return found.status();
  Sequence &sequence = **found;
  if (sequence.end() > 0)
    return Status(CRIA_FAILED_PRECONDITION,
                  {"sequence ", number, " holds ", sequence.end(),
                   " positions, expected none"});
  const Manifest &manifest = shared->manifest();
  Result<SessionHeader> own = headerOf(*shared);
  if (!own.ok())
    return own.status();
  Result<SessionHeader> given = openState(state, size, *own, manifest);
  if (!given.ok())
    return given.status();
  // A session that went back has to compute the text anew, and so has this.
  bool isWhole = given->rotated > 0 || !manifest.keepsText();
  if (Status status = isWhole ? checkRoom(sequence, given->position) : Status();
      !status.ok())
    return status;
  Status status;
  if (manifest.keepsText())
    status = readText(state + size - given->history, *given, sequence);
  if (status.ok() && isWhole)
    status =
        held.write(sequence, given->position, state + sizeof(SessionHeader));
  else if (status.ok() && sequence.before)
    status = Status(CRIA_UNIMPLEMENTED,
                    "the state is of a text with embeddings that is to be "
                    "computed anew, as a batch does not");
  if (!status.ok()) {
    sequence.ids.clear();
    sequence.decodes.clear();
    sequence.before = nullptr;
    return status;
  }
  sequence.settled = given->position;
  sequence.computed = isWhole ? sequence.settled : 0;
  sequence.restored = sequence.ids.size();
  // No other text shall find the pages: who knows with which adapters they were
  // computed.
  if (manifest.keepsText() && !sequence.before)
    sequence.key = held.newChain();
  else
    sequence.unknown = given->position;
  sequence.announced = given->expected ? given->expected : given->prompt;
  sequence.announcedFrom = given->promptBegin;
  return status;
}

} // namespace cria
