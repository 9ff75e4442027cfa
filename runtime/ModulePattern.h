/// The patterns by which a LoRA adapter's config names modules: Python's
/// regular expressions, as far as names of modules need them.
#pragma once

#include "runtime/Status.h"

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

namespace cria {

/// A compiled pattern: an automaton that takes one step for each byte of a name
/// and each state that it may be in. No pattern backtracks.
class ModulePattern {
public:
  /// Compiles literals, classes, '.', \d, groups, '|', anchors and repetitions.
  /// Other syntax of Python is UNIMPLEMENTED, and text that is not such an
  /// expression is INVALID_ARGUMENT.
  static Result<ModulePattern> compile(std::string_view pattern);

  /// Whether the pattern matches all of `module`, or all that follows one of
  /// its dots: PEFT's (.*\.)?(PATTERN)$. Takes the number of visited states
  /// from `budget`; INVALID_ARGUMENT if that is too small.
  Result<bool> matches(std::string_view module, uint64_t &budget) const;

private:
  class Parser;

  /// A state. Offsets to the next states count from its own index.
  struct State {
    enum Kind { Byte, Fork, Begin, End, Match } kind;
    int32_t next = 1, other = 1; // `other` of a Fork
    std::bitset<256> bytes = {}; // of a Byte
  };

  std::vector<State> states;
};

} // namespace cria
