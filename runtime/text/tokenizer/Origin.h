/// Who wrote a text.
#pragma once

namespace cria {

/// Who wrote a byte of a conversation's text, and so what it may be.
enum class Origin : char {
  Template, // a part of special tokens
  Name,     // that, but not their beginning: in "<|" + role + "|>"
  Given     // no part of them
};

} // namespace cria
