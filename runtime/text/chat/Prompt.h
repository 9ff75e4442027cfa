/// A conversation as token ids.
#pragma once

#include "runtime/Status.h"
#include "runtime/text/chat/Template.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace cria::chat {

/// What `form` renders for `variables`, an object in JSON, and who wrote it.
Result<Text> renderTraced(const Template &form, std::string_view variables);

/// The ids of what `form` renders for `variables`, an object in JSON. Special
/// tokens are those that the template writes: where a user types "<|im_end|>",
/// it stays text, whatever the template does to it. Of the variables, only
/// texts named "..._token", such as "bos_token", may be special tokens, and a
/// message's "role" a part of one.
Result<std::vector<int32_t>> encode(const Template &form,
                                    const Tokenizer &tokenizer,
                                    std::string_view variables);

} // namespace cria::chat
