/// A step of a batch: who runs, on which pages, and what becomes of it.
#include "runtime/batch/Batch.h"

#include "runtime/ranks/SharedLogits.h"

#include <algorithm>

namespace cria {

using State = Sequence::State;

// ---- Who runs --------------------------------------------------------------

/// Whether there are pages for the text so far and one id more, and one for
/// each sequence that runs.
bool Batch::fits(const Sequence &sequence) const {
  auto held = static_cast<int64_t>(sequence.pages.size());
  int64_t end = std::min(sequence.end() + 1, shared->manifest().maxSeq);
  int64_t available = pool.available();
  if (options.refuses)
    return pagesOf(end) - held <= available;
  for (const auto &other : sequences)
    if (other.get() != &sequence && other->state != State::Running &&
        other->unknown == 0)
      available += static_cast<int64_t>(other->pages.size());
  return pagesOf(end) - held + static_cast<int64_t>(running.size()) <=
         available;
}

/// Lets sequences in that wait.
void Batch::admit() {
  while (!waiting.empty() &&
         static_cast<int64_t>(running.size()) < spec().rows) {
    Sequence &next = *waiting.front();
    bool hasRoom = fits(next);
    if (!hasRoom && !options.refuses && !running.empty())
      return;
    waiting.erase(waiting.begin());
    if (hasRoom || !options.refuses) {
      next.state = State::Running;
      running.push_back(&next);
      continue;
    }
    int64_t end = std::min(next.end() + 1, shared->manifest().maxSeq);
    auto held = static_cast<int64_t>(next.pages.size());
    finish(next, -1, Finish::Failed, shortOf(next.number, pagesOf(end), held));
  }
}

/// How many ids in a row prefill is to run.
int64_t Batch::promptRun(const Sequence &sequence) const {
  int64_t at = sequence.computed;
  while (at < sequence.end() && !sequence.decodesAt(at))
    ++at;
  return at - sequence.computed;
}

/// Decides what the step computes. A sequence takes pages from those that come
/// later alone, so that one that was chosen keeps its own.
void Batch::choose() {
  prompt = nullptr;
  rows.clear();
  for (Sequence *sequence : std::vector<Sequence *>(running)) {
    if (sequence->state != State::Running)
      continue;
    sequence->lastUse = steps;
    if (!sequence->decodesAt(sequence->computed)) {
      if (prompt)
        continue;
      reuse(*sequence);
    }
    if (sequence->decodesAt(sequence->computed)) {
      if (provide(*sequence, sequence->computed + 1))
        rows.push_back(sequence);
      continue;
    }
    promptTokens = std::min(promptRun(*sequence), options.chunk);
    if (provide(*sequence, sequence->computed + promptTokens))
      prompt = sequence;
  }
}

// ---- Pages -----------------------------------------------------------------

/// Takes the pages that hold the next ids of the text already, but for its last
/// id, which is computed for its logits.
void Batch::reuse(Sequence &sequence) {
  int64_t page = spec().page;
  while (sequence.unknown == 0 &&
         sequence.computed == sequence.entered * page &&
         static_cast<int64_t>(sequence.pages.size()) == sequence.entered &&
         sequence.computed + page < sequence.end()) {
    if (promptRun(sequence) < page && !options.reusesDrawn)
      return;
    PagePool::Found found = pool.find(
        sequence.key, &sequence.ids[static_cast<size_t>(sequence.computed)]);
    if (found.page == PagePool::none)
      return;
    sequence.pages.push_back(found.page);
    sequence.key = found.key;
    ++sequence.entered;
    sequence.computed += page;
    sequence.settled = std::max(sequence.settled, sequence.computed);
    total.reused += page;
  }
}

/// Enters the pages that became full.
void Batch::enterPages(Sequence &sequence) {
  int64_t page = spec().page;
  for (; sequence.unknown == 0; ++sequence.entered) {
    int64_t begin = sequence.entered * page;
    if (begin + page > sequence.computed)
      return;
    for (int64_t i = begin; i < begin + page && !options.reusesDrawn; ++i)
      if (sequence.decodesAt(i))
        return;
    sequence.key =
        pool.enter(sequence.pages[static_cast<size_t>(sequence.entered)],
                   sequence.key, &sequence.ids[static_cast<size_t>(begin)]);
  }
}

/// Makes `page` the sequence's page `index`. The page becomes a copy of the
/// shared page that it replaces, or is cleared if it is the sequence's next
/// one.
Status Batch::fill(Sequence &sequence, size_t index, int32_t page) {
  if (index == sequence.pages.size()) {
    sequence.pages.push_back(page);
    return backend->clearPage(page);
  }
  Status status = backend->copyPage(sequence.pages[index], page);
  if (status.ok())
    std::swap(sequence.pages[index], page);
  pool.release(page);
  return status;
}

/// Gives the sequence pages of its own for the positions from `computed` to
/// `end`. False where it does not run any more.
bool Batch::provide(Sequence &sequence, int64_t end) {
  auto index = static_cast<size_t>(sequence.computed / spec().page);
  for (; index < static_cast<size_t>(pagesOf(end)); ++index) {
    if (index < sequence.pages.size() && !pool.isShared(sequence.pages[index]))
      continue;
    int32_t page = takePage(sequence);
    if (page == PagePool::none)
      return false;
    if (Status status = fill(sequence, index, page); !status.ok()) {
      finish(sequence, -1, Finish::Failed, status);
      return false;
    }
  }
  return true;
}

/// A page for the sequence; none where it does not run any more.
int32_t Batch::takePage(Sequence &sequence) {
  int32_t page = pool.take();
  while (page == PagePool::none && makeRoom(sequence))
    page = pool.take();
  return page;
}

/// The sequence that does not run, has pages and can do without them, and is
/// unused for the longest.
Sequence *Batch::idleVictim(const Sequence &sequence) const {
  Sequence *victim = nullptr;
  for (const auto &other : sequences)
    if (other.get() != &sequence && other->state != State::Running &&
        other->unknown == 0 && !other->pages.empty() &&
        (!victim || other->lastUse < victim->lastUse))
      victim = other.get();
  return victim;
}

/// Has a sequence give its pages back. False where it is `sequence` itself,
/// which runs no longer then.
bool Batch::makeRoom(Sequence &sequence) {
  if (!options.refuses) {
    if (Sequence *victim = idleVictim(sequence)) {
      putBack(*victim);
      return true;
    }
    for (auto other = running.rbegin(); *other != &sequence; ++other)
      if ((*other)->unknown == 0) {
        putBack(**other);
        return true;
      }
    if (sequence.unknown == 0 && running.front() != &sequence) {
      putBack(sequence);
      return false;
    }
  }
  auto needed = static_cast<int64_t>(sequence.pages.size()) + 1;
  releaseUnused(sequence);
  finish(sequence, -1, Finish::Failed,
         shortOf(sequence.number, needed, pagesOf(sequence.computed)));
  return false;
}

/// Takes a sequence's pages; one that runs then waits, before all others.
void Batch::putBack(Sequence &sequence) {
  releasePages(sequence);
  ++total.putBack;
  if (sequence.state != State::Running)
    return;
  running.erase(std::find(running.begin(), running.end(), &sequence));
  sequence.state = State::Waiting;
  waiting.insert(waiting.begin(), &sequence);
}

// ---- What is computed ------------------------------------------------------

Status Batch::runPrompt() {
  auto position = static_cast<int32_t>(prompt->computed);
  bool draws = prompt->drawsAt(prompt->computed + promptTokens);
  PagedStep step = {
      &prompt->ids[static_cast<size_t>(prompt->computed - prompt->unknown)],
      promptTokens,
      &position,
      prompt->pages.data(),
      promptTokens - (draws ? 1 : 0),
      logits.data()};
  Status status = use(*prompt);
  return status.ok() ? backend->prefill(step) : status;
}

/// Computes with the adapters of a sequence from now on.
Status Batch::use(const Sequence &sequence) {
  return backend->use(sequence.loras ? &sequence.loras->bound() : nullptr);
}

/// Runs the rows, those with the same adapters at once.
Status Batch::runRows() {
  Status status;
  for (size_t begin = 0; begin < rows.size() && status.ok();) {
    uint64_t weights = rows[begin]->weights;
    auto end = std::stable_partition(
        rows.begin() + static_cast<ptrdiff_t>(begin), rows.end(),
        [&](const Sequence *row) { return row->weights == weights; });
    auto next = static_cast<size_t>(end - rows.begin());
    status = runRows(begin, next);
    begin = next;
  }
  return status;
}

/// Runs the rows [begin, end), those that draw last.
Status Batch::runRows(size_t begin, size_t end) {
  auto width = static_cast<size_t>(spec().width);
  auto firstToDraw = std::stable_partition(
      rows.begin() + static_cast<ptrdiff_t>(begin),
      rows.begin() + static_cast<ptrdiff_t>(end),
      [](const Sequence *row) { return !row->drawsAt(row->computed + 1); });
  auto first = static_cast<size_t>(firstToDraw - rows.begin());
  auto columns = static_cast<size_t>(shared->manifest().logitColumns);
  rowIds.clear();
  rowPositions.clear();
  tables.resize((end - begin) * width);
  for (size_t i = begin; i < end; ++i) {
    const Sequence &row = *rows[i];
    if (row.pages.size() > width)
      return Status(CRIA_INTERNAL, "a sequence has more pages than a context");
    rowIds.push_back(row.ids[static_cast<size_t>(row.computed - row.unknown)]);
    rowPositions.push_back(static_cast<int32_t>(row.computed));
    std::copy(row.pages.begin(), row.pages.end(), &tables[(i - begin) * width]);
    if (i >= first)
      rowLogits[i] = logits.data() + (i + 1) * columns;
  }
  Status status = use(*rows[begin]);
  if (!status.ok())
    return status;
  return backend->decode({rowIds.data(), static_cast<int64_t>(end - begin),
                          rowPositions.data(), tables.data(),
                          static_cast<int64_t>(first - begin),
                          logits.data() + (first + 1) * columns});
}

/// Notes that so many ids more are computed.
void Batch::advance(Sequence &sequence, int64_t tokens) {
  total.recomputed +=
      std::clamp<int64_t>(sequence.settled - sequence.computed, 0, tokens);
  sequence.computed += tokens;
  sequence.settled = std::max(sequence.settled, sequence.computed);
  enterPages(sequence);
  if (sequence.computed == sequence.end() && sequence.left == 0)
    finish(sequence, -1, Finish::Length);
}

/// Puts the parts of all ranks together, of rows whose likeliest id is not all
/// that is wanted.
void Batch::gatherDraws() {
  const Manifest &manifest = shared->manifest();
  std::vector<const float *> parts;
  for (Draw &draw : draws)
    if (draw.sequence->wantsLogits || !draw.sampler->takesBest()) {
      parts.push_back(draw.logits);
      draw.ranks = nullptr;
    }
  auto vocab = static_cast<size_t>(manifest.vocabSize);
  gathered.resize(parts.size() * vocab);
  if (parts.empty())
    return;
  gatherLogits(*shared->sharedWith(), manifest, parts, gathered.data());
  const float *row = gathered.data();
  for (Draw &draw : draws)
    if (!draw.ranks) {
      draw.logits = row;
      row += vocab;
    }
}

/// Draws for all sequences whose turn it is, on all threads; from a rank's part
/// it finds the best bid. Memory that cannot be had is a failure of one
/// sequence.
void Batch::drawAll() {
  struct Context {
    Draw *draws;
    const Manifest &manifest;
  } context = {draws.data(), shared->manifest()};
  auto body = [](void *data, int64_t begin, int64_t end) {
    auto &context = *static_cast<Context *>(data);
    for (Draw *draw = context.draws + begin; draw != context.draws + end;
         ++draw)
      try {
        if (draw->ranks)
          draw->bid = bestBid(*draw->ranks, context.manifest, draw->logits);
        else
          draw->id = draw->sampler->sample(draw->logits);
      } catch (const std::bad_alloc &) {
        draw->id = Status(CRIA_RESOURCE_EXHAUSTED, "out of memory");
      }
  };
  backend->inParallel(body, &context, static_cast<int64_t>(draws.size()));
}

/// Makes the draws of all ranks the same: the best bids of all ranks, and else
/// the ids that rank 0 drew.
void Batch::agreeOnDraws() {
  const CriaRanks *ranks = shared->sharedWith();
  if (!ranks || draws.empty())
    return;
  std::vector<uint64_t> bids;
  for (const Draw &draw : draws)
    if (draw.ranks)
      bids.push_back(draw.bid);
  if (!bids.empty())
    ranks->max(ranks->data, bids.data(), static_cast<int64_t>(bids.size()));
  std::vector<int32_t> ids;
  auto bid = bids.begin();
  for (Draw &draw : draws) {
    if (draw.ranks)
      draw.id = draw.sampler->verdict(sampledOf(*bid++));
    ids.push_back(draw.id.ok() ? *draw.id : -1);
  }
  if (bids.size() == draws.size()) // all ranks have the same maximums
    return;
  ranks->broadcast(ranks->data, ids.data(),
                   static_cast<int64_t>(ids.size() * sizeof(int32_t)));
  for (size_t i = 0; i < draws.size(); ++i)
    if (ids[i] >= 0)
      draws[i].id = ids[i];
    else if (draws[i].id.ok())
      draws[i].id = Status(CRIA_ABORTED, "rank 0 drew no id");
}

/// Appends an id that was drawn.
void Batch::take(Sequence &sequence, const Result<int32_t> &id,
                 const float *logits) {
  if (!id.ok())
    return finish(sequence, -1, Finish::Failed, id.status());
  if (sequence.sampler)
    sequence.sampler->accept(*id);
  sequence.ids.push_back(*id);
  sequence.decodes.push_back(true);
  --sequence.left;
  bool ends = std::find(sequence.ends.begin(), sequence.ends.end(), *id) !=
              sequence.ends.end();
  bool isFull = sequence.computed == shared->manifest().maxSeq;
  Finish why = ends                 ? Finish::End
               : sequence.left == 0 ? Finish::Length
               : isFull             ? Finish::Context
                                    : Finish::None;
  finish(sequence, *id, why, {}, sequence.wantsLogits ? logits : nullptr);
}

/// Tells the caller of a sequence, which runs no longer unless `why` is None.
void Batch::finish(Sequence &sequence, int32_t id, Finish why,
                   const Status &status, const float *logits) {
  made.push_back({sequence.number, id, why, status, logits});
  if (why == Finish::None)
    return;
  running.erase(std::remove(running.begin(), running.end(), &sequence),
                running.end());
  sequence.state = State::Idle;
  releaseUnused(sequence);
}

static bool isGreedy(const Sequence *sequence) { return !sequence->sampler; }

/// Finds the logits that ids are to be drawn from.
void Batch::collectDraws() {
  auto plain = greedy.begin();
  const CriaRanks *ranks =
      shared->manifest().sharesLogits() ? shared->sharedWith() : nullptr;
  draws.clear();
  auto add = [&](Sequence *sequence, const float *logits) {
    Sampler *sampler = isGreedy(sequence) ? &*plain++ : sequence->sampler.get();
    draws.push_back({sequence, sampler, logits, -1, ranks, 0});
  };
  if (prompt && prompt->drawsAt(prompt->computed + promptTokens))
    add(prompt, logits.data());
  for (size_t i = 0; i < rows.size(); ++i)
    if (rowLogits[i])
      add(rows[i], rowLogits[i]);
}

/// Takes the samplers that the step draws with from all other threads.
Status Batch::beginDraws() {
  auto begin = [&](const Sequence &sequence, int64_t tokens) {
    Sampler *sampler = sequence.sampler.get();
    if (!sampler || !sequence.drawsAt(sequence.computed + tokens))
      return Status();
    if (!sampler->enter())
      return samplerIsInUse();
    inUse.push_back(sampler);
    return Status();
  };
  Status status = prompt ? begin(*prompt, promptTokens) : Status();
  for (size_t i = 0; i < rows.size() && status.ok(); ++i)
    status = begin(*rows[i], 1);
  return status;
}

/// Computes what was chosen, and changes no sequence.
Status Batch::compute() {
  size_t most = rows.size() + 1;
  logits.resize(most * static_cast<size_t>(shared->manifest().logitColumns));
  draws.reserve(most);
  inUse.reserve(most);
  rowLogits.assign(rows.size(), nullptr);
  size_t plain = std::count_if(rows.begin(), rows.end(), isGreedy) +
                 (prompt && isGreedy(prompt));
  greedy.resize(std::max(greedy.size(), plain), greedy.front());
  Status status = beginDraws();
  if (status.ok() && prompt)
    status = runPrompt();
  if (status.ok() && !rows.empty())
    status = runRows();
  if (Status intact = shared->bound().intact(); !intact.ok())
    status = intact;
  return status;
}

/// Gives back, however the step ended, samplers, and pages for positions that
/// were not computed.
void Batch::endStep() {
  for (Sampler *sampler : inUse)
    sampler->leave();
  inUse.clear();
  for (Sequence *sequence : running)
    releaseUnused(*sequence);
}

Status Batch::step() {
  struct End {
    Batch &batch;
    ~End() { batch.endStep(); }
  } end = {*this};
  made.clear();
  made.reserve(2 * unfinished()); // one may be refused, and then draw
  ++steps;
  admit();
  choose();
  Status status = compute();
  if (!status.ok())
    return status;
  collectDraws();
  if (shared->manifest().sharesLogits())
    gatherDraws();
  drawAll();
  agreeOnDraws();
  total.prefilled += prompt ? promptTokens : 0;
  total.decoded += static_cast<int64_t>(rows.size());
  if (prompt)
    advance(*prompt, promptTokens);
  for (Sequence *row : rows)
    advance(*row, 1);
  for (const Draw &draw : draws)
    take(*draw.sequence, draw.id, draw.logits);
  return status;
}

} // namespace cria
