/// What the handles of cria_text.h hold that several files use.
#pragma once

#include "runtime/base/Api.h"
#include "runtime/cria_text.h"
#include "runtime/text/tokenizer/Tokenizer.h"

struct cria_tokenizer {
  std::shared_ptr<const cria::Tokenizer> object;
};
