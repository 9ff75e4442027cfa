#include "runtime/batch/Schedule.h"

#include <algorithm>

namespace cria {

using State = Sequence::State;

Schedule::Schedule(const Manifest &manifest, int64_t chunk, bool refuses,
                   SequencePages &pages,
                   const std::vector<std::unique_ptr<Sequence>> &sequences)
    : manifest(manifest), chunk(chunk), refuses(refuses), pages(pages),
      sequences(sequences) {}

void Schedule::reserve(size_t count) {
  for (auto *list : {&running, &waiting})
    if (list->capacity() < count)
      list->reserve(2 * count);
}

void Schedule::add(Sequence &sequence) {
  sequence.state = State::Waiting;
  waiting.push_back(&sequence);
}

void Schedule::remove(const Sequence &sequence) {
  for (auto *list : {&running, &waiting})
    list->erase(std::remove(list->begin(), list->end(), &sequence),
                list->end());
}

Status Schedule::shortOf(int64_t number, int64_t needed, int64_t held) const {
  return Status(CRIA_RESOURCE_EXHAUSTED,
                {"sequence ", number, " needs ", needed, " pages and has ",
                 held, ": ", pages.pool().available(), " of the batch's ",
                 pages.pool().pages(), " are free"});
}

// ---- Who runs --------------------------------------------------------------

/// The pages of the text so far and of one id more.
int64_t Schedule::pagesToGoOn(const Sequence &sequence) const {
  return pages.countFor(std::min(sequence.end() + 1, manifest.maxSeq));
}

/// Whether there are pages for the text so far and one id more, and one for
/// each sequence that runs.
bool Schedule::fits(const Sequence &sequence) const {
  int64_t lacking =
      pagesToGoOn(sequence) - static_cast<int64_t>(sequence.pages.size());
  int64_t available = pages.pool().available();
  if (refuses)
    return lacking <= available;
  for (const auto &other : sequences)
    if (other.get() != &sequence && !other->isRunning() && other->unknown == 0)
      available += static_cast<int64_t>(other->pages.size());
  return lacking + static_cast<int64_t>(running.size()) <= available;
}

/// Lets sequences in that wait.
void Schedule::admit() {
  while (!waiting.empty() &&
         static_cast<int64_t>(running.size()) < manifest.batch->rows) {
    Sequence &next = *waiting.front();
    bool hasRoom = fits(next);
    if (!hasRoom && !refuses && !running.empty())
      return;
    waiting.erase(waiting.begin());
    if (hasRoom || !refuses) {
      next.state = State::Running;
      running.push_back(&next);
      continue;
    }
    finish(next, -1, Finish::Failed,
           shortOf(next.number, pagesToGoOn(next),
                   static_cast<int64_t>(next.pages.size())));
  }
}

// A sequence takes pages from those that come later alone, so that one that was
// chosen keeps its own.
void Schedule::begin(Chosen &chosen) {
  made.clear();
  // A sequence may be refused, and then draw.
  made.reserve(2 * (running.size() + waiting.size()));
  ++begun;
  admit();
  chosen.prompt = nullptr;
  chosen.rows.clear();
  for (Sequence *sequence : std::vector<Sequence *>(running)) {
    if (!sequence->isRunning())
      continue;
    sequence->lastUse = begun;
    if (!sequence->decodesAt(sequence->computed)) {
      if (chosen.prompt)
        continue;
      total.reused += pages.reuse(*sequence);
    }
    if (sequence->decodesAt(sequence->computed)) {
      if (provide(*sequence, sequence->computed + 1))
        chosen.rows.push_back(sequence);
      continue;
    }
    chosen.promptTokens = std::min(sequence->promptRun(), chunk);
    if (provide(*sequence, sequence->computed + chosen.promptTokens))
      chosen.prompt = sequence;
  }
}

// ---- On which pages --------------------------------------------------------

/// Gives the sequence pages of its own for the positions from `computed` to
/// `end`. False where it does not run any more.
bool Schedule::provide(Sequence &sequence, int64_t end) {
  auto index = static_cast<size_t>(sequence.computed / manifest.batch->page);
  for (; index < static_cast<size_t>(pages.countFor(end)); ++index) {
    if (pages.owns(sequence, index))
      continue;
    int32_t page = takePage(sequence);
    if (page == PagePool::none)
      return false;
    if (Status status = pages.fill(sequence, index, page); !status.ok()) {
      finish(sequence, -1, Finish::Failed, status);
      return false;
    }
  }
  return true;
}

/// A page for the sequence; none where it does not run any more.
int32_t Schedule::takePage(Sequence &sequence) {
  int32_t page = pages.take();
  while (page == PagePool::none && makeRoom(sequence))
    page = pages.take();
  return page;
}

/// The sequence that does not run, has pages and can do without them, and is
/// unused for the longest.
Sequence *Schedule::idleVictim(const Sequence &sequence) const {
  Sequence *victim = nullptr;
  for (const auto &other : sequences)
    if (other.get() != &sequence && !other->isRunning() &&
        other->unknown == 0 && !other->pages.empty() &&
        (!victim || other->lastUse < victim->lastUse))
      victim = other.get();
  return victim;
}

/// Has a sequence give its pages back. False where it is `sequence` itself,
/// which runs no longer then.
bool Schedule::makeRoom(Sequence &sequence) {
  if (!refuses) {
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
  pages.releaseUnused(sequence);
  finish(sequence, -1, Finish::Failed,
         shortOf(sequence.number, needed, pages.countFor(sequence.computed)));
  return false;
}

/// Takes a sequence's pages; one that runs then waits, before all others.
void Schedule::putBack(Sequence &sequence) {
  pages.release(sequence);
  ++total.putBack;
  if (!sequence.isRunning())
    return;
  running.erase(std::find(running.begin(), running.end(), &sequence));
  sequence.state = State::Waiting;
  waiting.insert(waiting.begin(), &sequence);
}

// ---- What becomes of them --------------------------------------------------

/// Notes that this number of ids more is computed.
void Schedule::advance(Sequence &sequence, int64_t tokens) {
  total.recomputed +=
      std::clamp<int64_t>(sequence.settled - sequence.computed, 0, tokens);
  sequence.computed += tokens;
  sequence.settled = std::max(sequence.settled, sequence.computed);
  pages.enter(sequence);
  if (sequence.computed == sequence.end() && sequence.left == 0)
    finish(sequence, -1, Finish::Length);
}

void Schedule::advance(const Chosen &chosen) {
  if (chosen.prompt) {
    total.prefilled += chosen.promptTokens;
    advance(*chosen.prompt, chosen.promptTokens);
  }
  total.decoded += static_cast<int64_t>(chosen.rows.size());
  for (Sequence *row : chosen.rows)
    advance(*row, 1);
}

void Schedule::take(Sequence &sequence, const Result<int32_t> &id,
                    const float *logits) {
  if (!id.ok())
    return finish(sequence, -1, Finish::Failed, id.status());
  if (sequence.sampler)
    sequence.sampler->accept(*id, true);
  sequence.ids.push_back(*id);
  sequence.decodes.push_back(true);
  --sequence.left;
  bool ends = std::find(sequence.ends.begin(), sequence.ends.end(), *id) !=
              sequence.ends.end();
  bool isFull = sequence.computed == manifest.maxSeq;
  Finish why = ends                 ? Finish::End
               : sequence.left == 0 ? Finish::Length
               : isFull             ? Finish::Context
                                    : Finish::None;
  finish(sequence, *id, why, {}, sequence.wantsLogits ? logits : nullptr);
}

/// Tells the caller of a sequence, which runs no longer unless `why` is None.
void Schedule::finish(Sequence &sequence, int32_t id, Finish why,
                      const Status &status, const float *logits) {
  made.push_back({sequence.number, id, why, status, logits});
  if (why == Finish::None)
    return;
  running.erase(std::remove(running.begin(), running.end(), &sequence),
                running.end());
  sequence.state = State::Idle;
  pages.releaseUnused(sequence);
}

void Schedule::end() {
  for (Sequence *sequence : running)
    pages.releaseUnused(*sequence);
}

} // namespace cria
