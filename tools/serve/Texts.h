/// From a request to the job that answers it: its prompts as ids, its options
/// with the model's defaults.
#pragma once

#include "tools/serve/Job.h"
#include "tools/serve/Request.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cria::serve {

/// The ids of a request's prompts, or of its messages by the chat template.
std::optional<ApiError> encodePrompts(const Engine &engine,
                                      const Request &request,
                                      std::vector<Ids> &prompts);

/// The text of the request's messages by the chat template.
std::optional<ApiError>
renderMessages(const Engine &engine, const Request &request, std::string &text);

/// Fills `job` from a checked request for texts or embeddings. The job has its
/// exchange already.
std::optional<ApiError> makeJob(const Engine &engine, const Request &request,
                                Job &job);

} // namespace cria::serve
