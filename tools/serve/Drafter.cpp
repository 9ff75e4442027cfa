#include "tools/serve/Drafter.h"

#include <algorithm>

namespace cria::serve {

static constexpr int64_t kMostWidth = 8;

static cria_sampler_options likeliest() {
  auto options = make<cria_sampler_options>();
  options.temperature = 0;
  return options;
}

Drafter::Drafter(const Model &model, int64_t maxSeq, int64_t vocabSize,
                 int32_t threads)
    : model(model), maxSeq(maxSeq), threads(threads),
      greedy(likeliest(), vocabSize) {}

/// The number of ids that two texts begin with, from index `from` of `text`.
static size_t common(const std::vector<int32_t> &text, size_t from,
                     const std::vector<int32_t> &other) {
  auto end = std::mismatch(text.begin() + static_cast<int64_t>(from),
                           text.end(), other.begin(), other.end());
  return static_cast<size_t>(end.second - other.begin());
}

/// Has the session go on from what it has in common with `text`.
std::vector<int32_t>
Drafter::draw(Draft &draft, const std::vector<int32_t> &text, int64_t count) {
  // The last id is computed in any case, for its logits.
  size_t known = std::min(common(text, 0, draft.fed), text.size() - 1);
  draft.session->rewind(static_cast<int64_t>(known));
  draft.fed = text;
  std::vector<int32_t> next(text.begin() + static_cast<int64_t>(known),
                            text.end());
  std::vector<int32_t> drawn;
  while (static_cast<int64_t>(drawn.size()) < count) {
    int32_t id = draft.session->draw(next, greedy);
    if (!drawn.empty())
      draft.fed.push_back(drawn.back());
    drawn.push_back(id);
    next = {id};
  }
  return drawn;
}

std::vector<int32_t> Drafter::propose(int64_t sequence,
                                      const std::vector<int32_t> &text,
                                      int64_t most) {
  most = std::min(most, maxSeq - static_cast<int64_t>(text.size()));
  if (most < 1)
    return {};
  auto found = drafts.find(sequence);
  try {
    if (found == drafts.end()) {
      found = drafts.try_emplace(sequence).first;
      found->second.session.emplace(model, threads);
    }
    Draft &draft = found->second;
    if (!draft.session)
      return {};
    // One more than were drawn of the last ones.
    if (!draft.proposed.empty())
      draft.width = std::min(
          static_cast<int64_t>(common(text, draft.after, draft.proposed)) + 1,
          kMostWidth);
    draft.proposed = draw(draft, text, std::min(most, draft.width));
    draft.after = text.size();
    return draft.proposed;
  } catch (const std::exception &) { // a text needs no drafts
    if (found != drafts.end())
      found->second.session.reset();
    return {};
  }
}

} // namespace cria::serve
