/// What the handles of cria_text.h hold that several files use.
#pragma once

#include "runtime/base/Api.h"
#include "runtime/cria_text.h"
#include "runtime/text/grammar/TokenTrie.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <mutex>

struct cria_tokenizer {
  std::shared_ptr<const cria::Tokenizer> object;
  /// For grammars; made by the first one.
  mutable std::mutex mutex;
  mutable std::shared_ptr<const cria::grammar::TokenTrie> tokens;
};
