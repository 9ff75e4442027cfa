/// A chat template as tokens.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cria::chat {

/// A token of a template.
struct Token {
  enum class Kind {
    Text,      // outside of tags
    OpenPrint, // {{
    ClosePrint,
    OpenBlock, // {%
    CloseBlock,
    Name,
    Integer,
    Float,
    String, // without quotes and escapes
    Operator,
    End
  };
  Kind kind;
  std::string text;
  int line;
};

/// Cuts a template as Jinja does with trim_blocks and lstrip_blocks: no line
/// break after a block, no white space before a block that begins its line.
Result<std::vector<Token>> tokenize(std::string_view source);

} // namespace cria::chat
