#include "runtime/batch/BatchStep.h"

#include <algorithm>

namespace cria {

static const BoundLoras *adapters(const Sequence &sequence) {
  return sequence.loras ? &sequence.loras->bound() : nullptr;
}

/// The sampler that draws from a row. Takes that of its sequence from all other
/// threads.
Result<Sampler *> BatchStep::samplerOf(const Row &row) {
  Sampler *sampler = row.sequence->sampler.get();
  if (!sampler)
    return &greedy[greedyInUse++];
  if (row.isDraft) {
    bool isSecond = !drawing.empty() && drawing.back().isDraft &&
                    drawing.back().sequence == row.sequence;
    Sampler &next = ahead[aheadInUse++];
    next.follow(isSecond ? *draws.back().sampler : *sampler, row.id);
    if (Status status = row.mask ? next.allow(*row.mask) : Status();
        !status.ok())
      return status;
    return &next;
  }
  if (!sampler->enter())
    return samplerIsInUse();
  inUse.push_back(sampler);
  return sampler;
}

Status BatchStep::addDraw(const Row &row) {
  Result<Sampler *> sampler = samplerOf(row);
  if (!sampler.ok())
    return sampler.status();
  draws.push_back({*sampler, row.sequence->wantsLogits});
  drawing.push_back(row);
  return Status();
}

/// The first of pairs of numbers.
static const int32_t *first(const StateNumbers *numbers) {
  static_assert(sizeof(StateNumbers) == 2 * sizeof(int32_t));
  return &numbers->read;
}

/// Adds a table with the window pages of a text. Those of positions that no id
/// sees any more are the first page that it has, which holds finite numbers of
/// its own.
void BatchStep::addWindows(const Sequence &sequence) {
  const PageList &list = sequence.windowPages;
  auto behind = static_cast<size_t>(list.first);
  windowTables.insert(windowTables.end(), behind, list.numbers.front());
  windowTables.insert(windowTables.end(), list.numbers.begin(),
                      list.numbers.end());
  windowTables.resize(windowTables.size() +
                      static_cast<size_t>(manifest.batch->width) - behind -
                      list.numbers.size());
}

/// Makes room for the hidden states of all steps.
void BatchStep::roomForHidden(Chosen &chosen) {
  chosen.hiddenRows = 0;
  if (chosen.prompt && chosen.prompt->wantsHidden)
    chosen.hiddenRows = std::clamp<int64_t>(
        chosen.prompt->computed + chosen.promptTokens - chosen.prompt->settled,
        0, chosen.promptTokens);
  auto count = static_cast<size_t>(chosen.hiddenRows);
  if (std::any_of(chosen.rows.begin(), chosen.rows.end(),
                  [](const Row &row) { return row.sequence->wantsHidden; }))
    count += chosen.rows.size(); // at most
  states.resize(count * static_cast<size_t>(manifest.hiddenSize));
  nextState = states.data();
}

Status BatchStep::addPrompt(Chosen &chosen) {
  Sequence &prompt = *chosen.prompt;
  int64_t tokens = chosen.promptTokens;
  bool draws = prompt.drawsAt(prompt.computed + tokens);
  Step step = {prompt.nextIds(), tokens, prompt.computed,
               tokens - (draws ? 1 : 0), nullptr};
  step.isOfPrompt = true;
  step.loras = adapters(prompt);
  step.pages = prompt.pages.numbers.data();
  if (manifest.batch->window) {
    step.windowPages = windowTables.data();
    addWindows(prompt);
  }
  numbers.push_back(chosen.promptStates);
  step.states = first(numbers.data());
  step.hiddenRows = chosen.hiddenRows;
  step.hidden = nextState;
  chosen.hidden = nextState;
  nextState += chosen.hiddenRows * manifest.hiddenSize;
  steps.push_back(step);
  return draws ? addDraw({&prompt, prompt.ids.back(), prompt.end() - 1,
                          /*draws=*/true, /*isDraft=*/false})
               : Status();
}

/// Adds the rows, those with the same adapters in one step.
Status BatchStep::addRows(std::vector<Row> &rows) {
  // The steps point to them.
  ids.clear();
  positions.clear();
  tables.clear();
  ids.reserve(rows.size());
  positions.reserve(rows.size());
  tables.reserve(rows.size() * static_cast<size_t>(manifest.batch->width));
  Status status;
  Row *end = rows.data() + rows.size();
  for (Row *begin = rows.data(); begin != end && status.ok();) {
    uint64_t weights = begin->sequence->weights;
    Row *next = std::stable_partition(begin, end, [&](const Row &row) {
      return row.sequence->weights == weights;
    });
    status = addRows(begin, next);
    begin = next;
  }
  return status;
}

/// Adds the rows [begin, end), those that draw last. From the first one whose
/// hidden state is wanted, the step computes all.
Status BatchStep::addRows(Row *begin, Row *end) {
  auto width = static_cast<size_t>(manifest.batch->width);
  Row *firstToDraw = std::stable_partition(
      begin, end, [](const Row &row) { return !row.draws; });
  Step step = {ids.data() + ids.size(), end - begin, begin->position,
               firstToDraw - begin, nullptr};
  step.loras = adapters(*begin->sequence);
  step.pages = tables.data() + tables.size();
  if (manifest.batch->window)
    step.windowPages = windowTables.data() + windowTables.size();
  step.states = first(numbers.data() + numbers.size());
  step.positions = positions.data() + positions.size();
  steps.push_back(step);
  steps.back().hidden = nextState;
  for (Row *row = begin; row != end; ++row) {
    bool wantsHidden = row->sequence->wantsHiddenAt(row->position);
    row->hidden = wantsHidden ? nextState : nullptr;
    if (wantsHidden || steps.back().hiddenRows) {
      ++steps.back().hiddenRows;
      nextState += manifest.hiddenSize;
    }
    const std::vector<int32_t> &pages = row->sequence->pages.numbers;
    if (pages.size() > width)
      return Status(CRIA_INTERNAL, "a sequence has more pages than a context");
    ids.push_back(row->id);
    numbers.push_back(row->states);
    positions.push_back(static_cast<int32_t>(row->position));
    tables.insert(tables.end(), pages.begin(), pages.end());
    tables.resize(tables.size() + width - pages.size());
    if (manifest.batch->window)
      addWindows(*row->sequence);
    Status status = row->draws ? addDraw(*row) : Status();
    if (!status.ok())
      return status;
  }
  return Status();
}

/// Makes the steps and draws of what was chosen.
Status BatchStep::collect(Chosen &chosen) {
  size_t most = chosen.rows.size() + 1;
  steps.clear();
  draws.clear();
  drawing.clear();
  numbers.clear();
  numbers.reserve(most); // steps point to these two
  windowTables.clear();
  if (manifest.batch->window)
    windowTables.reserve(most * static_cast<size_t>(manifest.batch->width));
  inUse.reserve(most);
  // Draws point to the samplers.
  auto plain = static_cast<size_t>(chosen.prompt && !chosen.prompt->sampler);
  size_t drafts = 0;
  for (const Row &row : chosen.rows) {
    plain += !row.sequence->sampler;
    drafts += row.isDraft && row.sequence->sampler;
  }
  roomForHidden(chosen);
  greedyInUse = aheadInUse = 0;
  greedy.resize(std::max(greedy.size(), plain), greedy.front());
  ahead.resize(std::max(ahead.size(), drafts), greedy.front());
  Status status;
  if (chosen.prompt)
    status = addPrompt(chosen);
  return status.ok() ? addRows(chosen.rows) : status;
}

Status BatchStep::run(Chosen &chosen) {
  begun = false;
  Status status = collect(chosen);
  if (!status.ok())
    return status;
  begun = true;
  return backend.draw(steps.data(), steps.size(), draws.data(), draws.size());
}

void BatchStep::end() {
  for (Sampler *sampler : inUse)
    sampler->leave();
  inUse.clear();
}

} // namespace cria
