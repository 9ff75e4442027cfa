/// Who last wrote and read each word of shared memory: finds reads of what
/// nobody wrote, and races.
///
/// The rule is that of epochs. A counter of the block moves on at each barrier.
/// An access is stamped with it. Each thread knows the epoch it acquired at the
/// last barrier it left: an access with an older stamp happened before. Between
/// lanes of one warp, bar.warp.sync orders too: a second stamp counts those of
/// the accessor's warp. An access that is not ordered and does not only read is
/// a race.
///
/// A word remembers one writer and one reader, or that they were several lanes
/// of one warp, or several warps. Threads that access different bytes of a word
/// do not meet.
#pragma once

#include "tools/emulator/run/Thread.h"

#include <optional>
#include <string>
#include <vector>

namespace cria::emulator {

/// What a shadow found wrong with an access.
struct ShadowFinding {
  bool isRace;      ///< else the word was never written
  const char *what; ///< for people
  int otherLine;    ///< of the earlier access
  uint32_t offset;  ///< of the first bad byte
};

class Shadow {
public:
  enum class Kind {
    Read,
    Write,
    Issue, ///< an asynchronous write begins: the data is not there yet
    Atomic
  };

  /// Forgets all, for a block with `bytes` of shared memory.
  void reset(uint32_t bytes);
  /// A barrier: returns the new epoch.
  uint32_t advance() { return ++epoch; }
  uint32_t now() const { return epoch; }

  /// Notes that `thread` accesses [offset, offset + bytes), counted from the
  /// block's shared memory; `checkInit` and `checkRace` say what to look for.
  std::optional<ShadowFinding> access(uint32_t offset, uint32_t bytes,
                                      Kind kind, int line, const Thread &thread,
                                      bool checkInit, bool checkRace);

private:
  /// Several accesses of one kind to one word.
  struct Stamp {
    uint32_t epoch = 0;
    uint32_t syncs = 0; ///< of the accessor's warp
    int line = 0;
    uint16_t who = 0;
    uint8_t bytes = 0; ///< one bit a byte
  };
  struct Word {
    Stamp write, read;
    uint8_t written = 0; ///< ever
  };

  static bool ordered(const Stamp &stamp, const Thread &thread);
  void noteWrite(Word &word, uint8_t bytes, int line, const Thread &thread);
  void noteRead(Word &word, uint8_t bytes, int line, const Thread &thread);
  const char *race(const Word &word, uint8_t bytes, bool writes,
                   const Thread &thread, int &otherLine) const;

  std::vector<Word> words;
  uint32_t epoch = 1;
};

} // namespace cria::emulator
