/// The last writer and reader of each word of shared memory: finds races, and
/// reads of memory that no thread wrote.
///
/// The rule uses epochs. A counter of the block advances at each barrier and
/// each fence. An access is stamped with the counter. Each thread knows the
/// epoch that it acquired at the last barrier it left: an access with an older
/// stamp happened before. Between lanes of one warp, bar.warp.sync orders too:
/// a second stamp counts the bar.warp.sync of the accessor's warp. Fences and
/// strong accesses order as in Clock.h. Two accesses that are not ordered and
/// not both reads are a race; two strong accesses are not a race, nor are an
/// atomic and a read.
///
/// A word remembers one writer and one reader, or that these were several lanes
/// of one warp, or several warps. Threads that access different bytes of a word
/// do not conflict.
///
/// Most accesses repeat: a thread reads again what it read or wrote, or many
/// threads read one tile. So that translated code can recognize such accesses
/// without a call, each word has a key of 32 bits after the memory itself. A
/// key holds a generation (which ends with the epoch, and when a warp passes
/// bar.warp.sync), the bits of a thread, and whether the thread wrote. That
/// thread may read the word in this generation, or read and write it, and
/// nothing new would be noted. With only the bits of a warp, all its lanes may
/// read the word; with no bits, all threads may. So a thread may read if the
/// key has no bits except the generation's and its own. A key that does not fit
/// means nothing.
#pragma once

#include "tools/emulator/run/Thread.h"

#include <optional>
#include <string>
#include <vector>

namespace cria::emulator {

/// What is wrong with an access.
struct ShadowFinding {
  enum Kind {
    NeverWritten,
    EarlyRead, ///< a write of what another thread read before any thread wrote
               ///< it
    Race,
    InFlight,    ///< access to what a pending asynchronous copy will write
    NoProxyFence ///< by the async proxy, of what a thread wrote
  };
  Kind kind;
  const char *what; ///< for messages
  int otherLine;    ///< of the earlier access, or of the copy
  uint32_t offset;  ///< of the first bad byte
};

class Shadow {
public:
  enum class Kind {
    Read,
    Write,
    Issue,  ///< an asynchronous write begins: the data has not arrived
    Arrive, ///< its data has arrived
    Atomic
  };

  /// An access to [offset, offset + bytes), counted from the block's shared
  /// memory.
  struct Access {
    uint32_t offset, bytes;
    Kind kind;
    int line;
    bool isStrong = false, isVolatile = false;
    const char *stored = nullptr; ///< the bytes to be written, if known
    const char *memory = nullptr; ///< the bytes that are there
    /// The agent (Clock.h) that makes the access, for the thread whose clock
    /// counts; 0: the thread itself. The writes of an agent were checked when
    /// the thread issued the copy.
    unsigned agent = 0;
    bool isAsyncProxy = false; ///< reads what threads wrote by a proxy fence
  };

  /// Begins to work on the memory whose shared address 0 is at `arena`.
  void attach(char *arena) {
    generationWords = reinterpret_cast<uint32_t *>(arena);
    keys = reinterpret_cast<uint32_t *>(arena + kKeys);
  }
  /// Forgets everything, for a block with `bytes` bytes of shared memory. The
  /// first `written` of them have values.
  void reset(uint32_t bytes, uint32_t written);
  /// A barrier or a fence: returns the new epoch.
  uint32_t advance();
  /// A barrier of a warp: the next accesses of its lanes are noted again.
  void newGeneration();
  /// All threads of the block have acquired the current epoch.
  void shareEpoch() { commonEpoch = epoch; }
  uint32_t now() const { return epoch; }
  /// When the block began.
  uint32_t first() const { return firstEpoch; }

  /// Notes an access of `thread`; `checkInit` and `checkRace` say what to look
  /// for. A word with a race stays as it was; a read of a word that was never
  /// written is noted like any other.
  std::optional<ShadowFinding> access(const Access &access,
                                      const Thread &thread, bool checkInit,
                                      bool checkRace);

private:
  /// Several accesses of one kind to one word.
  struct Stamp {
    uint32_t epoch = 0;
    uint32_t syncs = 0; ///< the last bar.warp.sync of the accessor
    int line = 0;
    uint16_t who = 0;
    uint8_t bytes = 0; ///< one bit for each byte
    bool isStrong = false, isVolatile = false;
  };
  struct Word {
    Stamp write, read;
    uint16_t copier = 0; ///< thread of a copy under way + 1
    int copyLine = 0;
    uint8_t written = 0; ///< ever
  };

  static bool hasMet(const Stamp &stamp, const Thread &thread);
  static bool ordered(const Stamp &stamp, const Thread &thread);
  bool fenced(const Stamp &stamp, const Thread &thread) const;
  static bool bothStrong(const Stamp &stamp, const Access &access,
                         const Thread &thread);
  bool storesTheSame(const Word &word, const Access &access, uint32_t at,
                     const Thread &thread) const;
  std::optional<ShadowFinding> race(const Word &word, uint8_t bytes,
                                    uint32_t at, const Access &access,
                                    const Thread &thread) const;
  void noteWrite(Word &word, uint8_t bytes, const Access &access, uint32_t at,
                 const Thread &thread);
  void noteRead(Word &word, uint8_t bytes, const Access &access,
                const Thread &thread);
  uint32_t keyOf(const Word &word, const Access &access, const Thread &thread,
                 bool checkInit, bool checkRace) const;

  std::vector<Word> words;
  uint32_t *keys = nullptr, *generationWords = nullptr;
  uint32_t size = 0; ///< of the block's shared memory
  uint32_t generation = 0;
  uint32_t epoch = 1, firstEpoch = 1; ///< of the block
  uint32_t commonEpoch = 1;           ///< that all threads acquired
};

} // namespace cria::emulator
