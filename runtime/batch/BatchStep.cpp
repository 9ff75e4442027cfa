#include "runtime/batch/BatchStep.h"

#include <algorithm>

namespace cria {

static const BoundLoras *adapters(const Sequence &sequence) {
  return sequence.loras ? &sequence.loras->bound() : nullptr;
}

static bool isGreedy(const Sequence *sequence) { return !sequence->sampler; }

/// Takes the sequence's sampler from all other threads.
Status BatchStep::addDraw(Sequence &sequence) {
  Sampler *sampler = sequence.sampler.get();
  if (sampler && !sampler->enter())
    return samplerIsInUse();
  if (sampler)
    inUse.push_back(sampler);
  // The sequences before that draw the likeliest id have the first ones.
  size_t plain = draws.size() - inUse.size();
  draws.push_back({sampler ? sampler : &greedy[plain], sequence.wantsLogits});
  drawing.push_back(&sequence);
  return Status();
}

Status BatchStep::addPrompt(Sequence &prompt, int64_t tokens) {
  bool draws = prompt.drawsAt(prompt.computed + tokens);
  Step step = {prompt.nextIds(), tokens, prompt.computed,
               tokens - (draws ? 1 : 0), nullptr};
  step.isOfPrompt = true;
  step.loras = adapters(prompt);
  step.pages = prompt.pages.data();
  steps.push_back(step);
  return draws ? addDraw(prompt) : Status();
}

/// Adds the rows, those with the same adapters in one step.
Status BatchStep::addRows(std::vector<Sequence *> &rows) {
  // The steps point to them.
  ids.clear();
  positions.clear();
  tables.clear();
  ids.reserve(rows.size());
  positions.reserve(rows.size());
  tables.reserve(rows.size() * static_cast<size_t>(manifest.batch->width));
  Status status;
  Sequence **end = rows.data() + rows.size();
  for (Sequence **begin = rows.data(); begin != end && status.ok();) {
    Sequence **next =
        std::stable_partition(begin, end, [&](const Sequence *row) {
          return row->weights == (*begin)->weights;
        });
    status = addRows(begin, next);
    begin = next;
  }
  return status;
}

/// Adds the rows [begin, end), those that draw last.
Status BatchStep::addRows(Sequence **begin, Sequence **end) {
  auto width = static_cast<size_t>(manifest.batch->width);
  Sequence **firstToDraw =
      std::stable_partition(begin, end, [](const Sequence *row) {
        return !row->drawsAt(row->computed + 1);
      });
  Step step = {ids.data() + ids.size(), end - begin, (*begin)->computed,
               firstToDraw - begin, nullptr};
  step.loras = adapters(**begin);
  step.pages = tables.data() + tables.size();
  step.positions = positions.data() + positions.size();
  steps.push_back(step);
  for (Sequence **at = begin; at != end; ++at) {
    Sequence &row = **at;
    if (row.pages.size() > width)
      return Status(CRIA_INTERNAL, "a sequence has more pages than a context");
    ids.push_back(*row.nextIds());
    positions.push_back(static_cast<int32_t>(row.computed));
    tables.insert(tables.end(), row.pages.begin(), row.pages.end());
    tables.resize(tables.size() + width - row.pages.size());
    Status status = at < firstToDraw ? Status() : addDraw(row);
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
  inUse.reserve(most);
  size_t plain =
      std::count_if(chosen.rows.begin(), chosen.rows.end(), isGreedy) +
      (chosen.prompt && isGreedy(chosen.prompt));
  greedy.resize(std::max(greedy.size(), plain), greedy.front());
  Status status;
  if (chosen.prompt)
    status = addPrompt(*chosen.prompt, chosen.promptTokens);
  return status.ok() ? addRows(chosen.rows) : status;
}

Status BatchStep::run(Chosen &chosen) {
  Status status = collect(chosen);
  if (!status.ok())
    return status;
  return backend.draw(steps.data(), steps.size(), draws.data(), draws.size());
}

void BatchStep::end() {
  for (Sampler *sampler : inUse)
    sampler->leave();
  inUse.clear();
}

} // namespace cria
