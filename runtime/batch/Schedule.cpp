#include "runtime/batch/Schedule.h"

#include <algorithm>

namespace cria {

using State = Sequence::State;

Schedule::Schedule(const Manifest &manifest, const BatchOptions &options,
                   SequencePages &pages,
                   const std::vector<std::unique_ptr<Sequence>> &sequences)
    : manifest(manifest), options(options), pages(pages), sequences(sequences) {
}

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

Status Schedule::checkFits(const Sequence &sequence, int64_t end) const {
  for (PageKind kind : pages.kinds())
    if (int64_t needed = mostPages(sequence, kind, end);
        needed > pages.pool(kind).pages())
      return shortOf(sequence, kind, needed);
  return Status();
}

Status Schedule::shortOf(const Sequence &sequence, PageKind kind,
                         int64_t needed) const {
  const PagePool &states = pages.states(), &pool = pages.pool(kind);
  return Status(
      CRIA_RESOURCE_EXHAUSTED,
      {"sequence ", sequence.number, " needs ", needed,
       kind == PageKind::Window ? " window pages" : " pages", " and has ",
       sequence.list(kind).size(), ": ", pool.available(), " of the batch's ",
       pool.pages(), " are free",
       pages.hasStates() ? concat({", and ", states.available(), " of its ",
                                   states.pages(), " states"})
                         : ""});
}

// ---- Who runs --------------------------------------------------------------

/// The most pages that the sequence takes to go on to `end` positions.
int64_t Schedule::mostPages(const Sequence &sequence, PageKind kind,
                            int64_t end) const {
  int64_t most = std::max(options.chunk, manifest.batch->rows); // in a step
  return pages.most(
      kind, end,
      std::min({most, end - sequence.computed, pages.mostTokens(end)}));
}

/// The pages of the text so far and of one id more.
int64_t Schedule::pagesToGoOn(const Sequence &sequence, PageKind kind) const {
  return mostPages(sequence, kind,
                   std::min(sequence.end() + 1, manifest.maxSeq));
}

/// The kind of pages that are not there for the text so far and one id more,
/// and one for each sequence that runs.
std::optional<PageKind> Schedule::lackingFor(const Sequence &sequence) const {
  for (PageKind kind : pages.kinds()) {
    int64_t lacking = pagesToGoOn(sequence, kind) - sequence.list(kind).size();
    int64_t available = pages.pool(kind).available();
    if (!options.refuses) {
      lacking += static_cast<int64_t>(running.size());
      for (const auto &other : sequences)
        if (other.get() != &sequence && !other->isRunning() &&
            other->unknown == 0)
          available += other->list(kind).size();
    }
    if (lacking > available)
      return kind;
  }
  return std::nullopt;
}

/// Lets sequences in that wait.
void Schedule::admit() {
  while (!waiting.empty() &&
         static_cast<int64_t>(running.size()) < options.texts) {
    Sequence &next = *waiting.front();
    std::optional<PageKind> lacking = lackingFor(next);
    if (lacking && !options.refuses && !running.empty())
      return;
    waiting.erase(waiting.begin());
    if (!lacking || !options.refuses) {
      next.state = State::Running;
      // One that cannot give its pages back takes them from all that can.
      running.insert(next.unknown ? running.begin() : running.end(), &next);
      continue;
    }
    finish(next, -1, Finish::Failed,
           shortOf(next, *lacking, pagesToGoOn(next, *lacking)));
  }
}

// A sequence takes pages from those that come later alone, so that one that was
// chosen keeps its own. Rows that the texts leave go to the sequences that were
// let in first, for as many of their ids as are known.
void Schedule::begin(Chosen &chosen) {
  made.clear();
  // A sequence may be refused, and then draw; a draft may be drawn; each row
  // and the prompt may have hidden states.
  made.reserve(2 * (running.size() + waiting.size()) + 1 +
               static_cast<size_t>(options.draftRows + manifest.batch->rows));
  ++begun;
  admit();
  chosen.prompt = nullptr;
  chosen.rows.clear();
  chosen.draftStates.clear();
  chosen.draftStates.reserve(static_cast<size_t>(options.draftRows));
  int64_t texts = std::count_if(
      running.begin(), running.end(),
      [](const Sequence *sequence) { return sequence->needsRow(); });
  for (Sequence *sequence : std::vector<Sequence *>(running)) {
    if (!sequence->isRunning())
      continue;
    texts -= sequence->needsRow(); // those that come later
    sequence->lastUse = begun;
    if (!sequence->decodesAt(sequence->computed)) {
      if (chosen.prompt)
        continue;
      if (!sequence->wantsHidden)
        total.reused += pages.reuse(*sequence);
    }
    if (sequence->decodesAt(sequence->computed)) {
      addRows(*sequence, manifest.batch->rows - texts, chosen);
      continue;
    }
    chosen.promptTokens = promptTokens(*sequence);
    if (!provide(*sequence, sequence->computed + chosen.promptTokens))
      continue;
    chosen.prompt = sequence;
    chosen.promptStates = sequence->states(/*isFirst=*/true);
  }
  addDrafts(chosen);
}

/// The next ids of a prompt. A step ends with the last full page, after which
/// states can be found again, unless those before the step serve as well.
int64_t Schedule::promptTokens(const Sequence &sequence) const {
  int64_t tokens = std::min(
      {sequence.promptRun(), options.chunk, pages.mostTokens(sequence.end())});
  return pages.hasStates() && !pages.isNearEnd(sequence)
             ? std::min(tokens, pages.toLastPage(sequence))
             : tokens;
}

/// Adds the next ids of a sequence, as far as the step then has `most` rows.
void Schedule::addRows(Sequence &sequence, int64_t most, Chosen &chosen) {
  auto room = most - static_cast<int64_t>(chosen.rows.size());
  int64_t first = sequence.computed,
          count = std::min(
              {sequence.rowRun(), room, pages.mostTokens(sequence.end())});
  if (count < 1 || !provide(sequence, first + count))
    return;
  for (int64_t i = 0; i < count; ++i)
    chosen.rows.push_back({&sequence, sequence.nextIds()[i], first + i,
                           sequence.drawsAt(first + i + 1),
                           /*isDraft=*/false, sequence.states(i == 0)});
}

/// Fills the step with drafts. Each sequence has its share of the rows.
void Schedule::addDrafts(Chosen &chosen) {
  auto texts = static_cast<int64_t>(chosen.rows.size());
  int64_t room = options.draftRows - texts - (chosen.prompt ? 1 : 0);
  chosen.rows.reserve(static_cast<size_t>(std::max(options.draftRows, texts)));
  for (int64_t i = 0; i < texts && room > 0; ++i) {
    Sequence &sequence = *chosen.rows[static_cast<size_t>(i)].sequence;
    SamplerUse use(sequence.sampler.get());
    if (!sequence.mayDraft() || !use.status().ok())
      continue;
    bool isMasked = sequence.sampler && sequence.sampler->hasMask();
    int64_t first = sequence.end(),
            share = (room + texts - i - 1) / (texts - i);
    int64_t most =
        std::min({share, sequence.left - 1, manifest.maxSeq - first});
    const Draft &draft = sequence.drafts.next(sequence.ids, most, isMasked);
    auto count = static_cast<int64_t>(draft.ids.size());
    count = count ? provideDrafts(sequence, count) : 0;
    count = provideDraftStates(count, chosen);
    sequence.drafts.tried(count);
    StateNumbers states = sequence.states(/*isFirst=*/false);
    auto next = chosen.draftStates.end() - (pages.hasStates() ? count : 0);
    for (size_t at = 0; at < static_cast<size_t>(count); ++at) {
      if (pages.hasStates())
        states = {states.written, *next++};
      chosen.rows.push_back({&sequence, draft.ids[at],
                             first + static_cast<int64_t>(at), /*draws=*/true,
                             /*isDraft=*/true, states,
                             draft.masks.empty() ? nullptr : &draft.masks[at]});
    }
    room -= count;
  }
}

// ---- On which pages --------------------------------------------------------

/// Gives the sequence pages of its own for the positions from `computed` to
/// `end`, and states to write. False where it does not run any more.
bool Schedule::provide(Sequence &sequence, int64_t end) {
  while (!pages.provideStates(sequence))
    if (!makeRoom(sequence, PageKind::Whole))
      return false;
  const std::vector<PageKind> &kinds = pages.kinds();
  return std::all_of(kinds.begin(), kinds.end(), [&](PageKind kind) {
    return provide(sequence, kind, end);
  });
}

bool Schedule::provide(Sequence &sequence, PageKind kind, int64_t end) {
  int64_t index = sequence.computed / manifest.batch->page;
  for (; index < pages.countFor(end); ++index) {
    if (pages.owns(sequence, kind, index))
      continue;
    int32_t page = takePage(sequence, kind);
    if (page == PagePool::none)
      return false;
    if (Status status = pages.fill(sequence, kind, index, page); !status.ok()) {
      finish(sequence, -1, Finish::Failed, status);
      return false;
    }
  }
  return true;
}

/// Gives the sequence pages for drafts, as far as pages are free. Returns the
/// number of the `count` drafts that have pages then.
int64_t Schedule::provideDrafts(Sequence &sequence, int64_t count) {
  int64_t end = sequence.end() + count;
  for (PageKind kind : pages.kinds()) {
    PageList &list = sequence.list(kind);
    bool isFilled = true;
    while (isFilled && list.end() < pages.countFor(end)) {
      int32_t page = pages.take(kind);
      if (page == PagePool::none)
        break;
      isFilled = pages.fill(sequence, kind, list.end(), page).ok();
    }
    // Without its zeros a page cannot be used; the step's end gives it back.
    int64_t usable = isFilled ? list.end() : list.end() - 1;
    end = std::min(end, usable * manifest.batch->page);
  }
  return end - sequence.end();
}

/// Takes states for drafts, as far as states are free. Returns the number of
/// the `count` drafts that have states then.
int64_t Schedule::provideDraftStates(int64_t count, Chosen &chosen) {
  for (int64_t i = 0; i < count && pages.hasStates(); ++i) {
    int32_t states = pages.states().take();
    if (states == PagePool::none)
      return i;
    chosen.draftStates.push_back(states);
  }
  return count;
}

/// A page for the sequence; none where it does not run any more.
int32_t Schedule::takePage(Sequence &sequence, PageKind kind) {
  int32_t page = pages.take(kind);
  while (page == PagePool::none && makeRoom(sequence, kind))
    page = pages.take(kind);
  return page;
}

/// The sequence that does not run, has pages and can do without them, and is
/// unused for the longest.
Sequence *Schedule::idleVictim(const Sequence &sequence) const {
  Sequence *victim = nullptr;
  for (const auto &other : sequences)
    if (other.get() != &sequence && !other->isRunning() &&
        other->unknown == 0 && other->pages.size() > 0 &&
        (!victim || other->lastUse < victim->lastUse))
      victim = other.get();
  return victim;
}

/// Has a sequence give its pages back. False where it is `sequence` itself,
/// which runs no longer then.
bool Schedule::makeRoom(Sequence &sequence, PageKind kind) {
  if (!options.refuses) {
    if (Sequence *victim = idleVictim(sequence)) {
      putBack(*victim);
      return true;
    }
    // Those that cannot do without their pages are the first.
    Sequence *last = running.back();
    if (last->unknown == 0 && running.size() > 1) {
      putBack(*last);
      return last != &sequence;
    }
  }
  int64_t needed = sequence.list(kind).size() + 1;
  pages.releaseUnused(sequence);
  finish(sequence, -1, Finish::Failed, shortOf(sequence, kind, needed));
  return false;
}

/// Takes a sequence's pages; one that runs then waits, before all others.
void Schedule::putBack(Sequence &sequence) {
  pages.release(sequence);
  ++total.putBack;
  if (!sequence.isRunning())
    return;
  remove(sequence);
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
  // A sequence's rows at once: its states are those after the last of them.
  for (auto row = chosen.rows.begin(), end = chosen.rows.end(); row != end;) {
    auto next = std::find_if(row, end, [&](const Row &other) {
      return other.isDraft || other.sequence != row->sequence;
    });
    if (row->isDraft) {
      ++total.drafted;
      ++row;
      continue;
    }
    total.decoded += next - row;
    advance(*row->sequence, next - row);
    row = next;
  }
}

/// Makes a draft the text's next computed id, if the text has drawn it.
bool Schedule::takeDraft(const Row &row, const Status &drawn) {
  Sequence &sequence = *row.sequence;
  if (sequence.isRunning() && sequence.computed == row.position &&
      *sequence.nextIds() == row.id) {
    ++total.decoded;
    ++total.accepted;
    sequence.drafts.accept();
    if (pages.hasStates()) {
      pages.states().share(row.states.written);
      pages.setStates(sequence, row.states.written);
    }
    advance(sequence, 1);
    if (sequence.sampler)
      sequence.sampler->skip();
    return true;
  }
  // Compiled code reads the places after a text, which must hold finite
  // numbers. Where the logits of a draft are finite, so is what it wrote.
  if (!drawn.ok() && sequence.pages.size() > 0)
    putBack(sequence);
  return false;
}

void Schedule::take(const Row &row, const Result<int32_t> &id,
                    const float *logits) {
  if (row.isDraft && !takeDraft(row, id.status()))
    return;
  Sequence &sequence = *row.sequence;
  if (!id.ok())
    return finish(sequence, -1, Finish::Failed, id.status());
  if (sequence.sampler)
    sequence.sampler->accept(*id, true);
  sequence.ids.push_back(*id);
  sequence.decodes.push_back(true);
  sequence.drewLast = true;
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
  remove(sequence);
  sequence.state = State::Idle;
  pages.releaseUnused(sequence);
}

void Schedule::fail(const Chosen &chosen) {
  auto putBackIf = [&](Sequence *sequence) {
    if (sequence && sequence->isRunning() &&
        sequence->nextState != PagePool::none &&
        sequence->nextState == sequence->ownState)
      putBack(*sequence);
  };
  for (auto row = chosen.rows.rbegin(); row != chosen.rows.rend(); ++row)
    putBackIf(row->sequence);
  putBackIf(chosen.prompt);
}

void Schedule::end(Chosen &chosen) {
  for (Sequence *sequence : running)
    pages.releaseUnused(*sequence);
  for (int32_t states : chosen.draftStates)
    pages.states().release(states);
  chosen.draftStates.clear();
}

} // namespace cria
