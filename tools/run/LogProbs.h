/// --logprobs: how likely each drawn id was, and which ids were likelier.
#pragma once

#include "tools/run/Run.h"

namespace cria {

/// A line of JSON for `id`, which was drawn from run.logits: the natural
/// logarithms of the model's own probabilities, the softmax of the logits,
/// whatever temperature and other options of sampling are. `top` has the
/// likeliest ids, as many as --logprobs says; of two that are equally likely
/// the smaller is first. `text` has the bytes that the id adds to the text;
/// what is not UTF-8 in them is U+FFFD.
///
///   {"id":5,"text":" a","logprob":-0.25,"top":[{"id":5,"text":" a", ...},
///   ...]}
Result<std::string> logProbsLine(const Run &run, int32_t id);

} // namespace cria
