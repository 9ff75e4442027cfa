/// The grammars of late requests: many clients send one schema again and again,
/// and a grammar remembers the masks that it has computed.
#pragma once

#include "runtime/cria_text.hpp"

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace cria::serve {

/// What the text of an answer must be.
struct Constraint {
  cria_grammar_kind kind = CRIA_GRAMMAR_JSON_SCHEMA;
  std::string source;
};

class Grammars {
public:
  /// The grammar of `constraint` for texts that `ends` end. Only requests with
  /// the same `salt` share one. Any thread may call it. Throws Error, also if
  /// no text can begin.
  std::shared_ptr<const Grammar> get(const Tokenizer &tokenizer,
                                     int64_t vocabSize,
                                     const Constraint &constraint,
                                     const std::vector<int32_t> &ends,
                                     int32_t salt);

private:
  struct Entry {
    Constraint constraint;
    std::vector<int32_t> ends;
    int32_t salt;
    std::shared_ptr<const Grammar> grammar;
  };

  std::mutex mutex;
  std::list<Entry> entries; // the last used first
};

} // namespace cria::serve
