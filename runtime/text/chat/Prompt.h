/// A conversation as token ids.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/chat/Template.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace cria::chat {

/// The text that `form` renders for `variables`, an object in JSON, with the
/// author of each byte.
Result<Text> renderTraced(const Template &form, std::string_view variables);

/// The ids of the text that `form` renders for `variables`, an object in JSON.
/// Only text that the template writes can be a special token: if a user types
/// "<|im_end|>", it stays text, whatever the template does to it. Among the
/// variables, texts named "..._token", such as "bos_token", may be special
/// tokens, and a message's "role" may be a part of a special token.
Result<std::vector<int32_t>> encode(const Template &form,
                                    const Tokenizer &tokenizer,
                                    std::string_view variables);

} // namespace cria::chat
