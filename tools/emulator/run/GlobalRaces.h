/// Finds races in global memory, between blocks and between warps of a block.
///
/// Each granule of 8 bytes of device memory has a stamp of 8 bytes at a fixed
/// distance: the last writer and the last reader, and the bytes they accessed.
/// A writer or reader is a segment: the accesses of one warp between two
/// barriers or fences. Segments are numbered for the life of the device. So
/// stamps of earlier launches are older than the launch's first segment and
/// mean nothing, because the end of a kernel orders everything. Lanes of one
/// warp are not distinguished.
///
/// An access that conflicts with a stamp is a race unless the stamp's segment
/// happened before (Clock.h): in the thread's own block by barriers, fences and
/// flags; in another block if that block released the segment with a ticket
/// that the thread has seen. Each block keeps the clocks that it released.
///
/// A stamp has room for one reader. If a second block reads the same bytes, the
/// reader becomes "many". When a thread writes there, a race is reported only
/// if the thread has acquired nothing from other blocks. If segments access
/// different bytes of a granule, the newer replaces the older. A store of the
/// value that is already there is not a race. All of this can hide a race and
/// never reports a false one.
///
/// Most lines of 64 bytes are accessed by only one segment, or only read. Such
/// a line has a stamp of its own (LineStamp), and translated code notes
/// accesses to the line without a call:
///
/// - a segment takes a line that no other has accessed in the launch;
/// - its reader notes more reads; its writer, if it is the only reader, notes
///   more writes;
/// - bytes that several blocks have already read need not be noted again.
///
/// A line that one segment writes and another accesses, or of which single
/// bytes are accessed, belongs to no segment (noOwner) for the rest of the
/// launch: the contents of its stamp move to the granules, which are used from
/// then on. If segments only read a line in turn, the last one owns it, and
/// what the others read moves to the granules.
///
/// Each word of 8 bytes of a stamp is valid on its own, so that two workers
/// that change a stamp at once can lose notes but not mix them.
///
/// Cost and bounds: stamps take 1.5 times the memory that they describe, only
/// for memory that kernels touch, and are freed after a launch that touched
/// much. A launch has at most kMaxSegments segments. In large grids a whole
/// block is one segment, and beyond the bound nothing more is noted.
#pragma once

#include "tools/emulator/run/DeviceMemory.h"
#include "tools/emulator/run/Launch.h"
#include "tools/emulator/run/Thread.h"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace cria::emulator {

/// What a warp does between two barriers or fences.
struct Segment {
  static constexpr uint32_t kAnyWarp = 0xffff;

  /// Where it accessed memory, by PTX line, for messages.
  struct Site {
    uint64_t low = 0, high = 0;
    int line = 0;
    bool isWrite = false;
  };

  struct Places {
    Site all[4];
    unsigned next = 0; ///< counts
  };

  ~Segment() { delete places.load(); }

  uint64_t block = 0;
  uint32_t epoch = 0; ///< of the block, when it began
  uint32_t warp = 0;
  /// Null if it only took lines; other workers read it.
  std::atomic<Places *> places = nullptr;
};

/// A race, for messages.
struct GlobalRace {
  const char *what;
  const Segment *other; ///< null: several blocks
  int otherLine = 0;    ///< 0: not known
};

/// The races of one launch. All functions may be called by several workers.
class GlobalRaces {
public:
  /// `warps` is the number of warps of a block.
  GlobalRaces(const DeviceMemory &memory, uint64_t blocks, uint64_t warps);
  ~GlobalRaces();

  /// Whether a segment is a whole block.
  bool wholeBlocks() const { return coarse; }
  /// A new segment of a warp, as in stamps; kNoSegment if there are no more.
  uint32_t addSegment(uint64_t block, uint32_t warp, uint32_t epoch);
  /// The segment of words that several blocks read.
  uint32_t manyReaders() const { return first << kSegmentShift; }

  struct Access {
    uint64_t address;
    uint32_t bytes; ///< at most 256
    bool isWrite, isStrong, isAtomic;
    int line;
    const char *stored; ///< the bytes to be written, null if not known
  };
  /// Notes an access of `thread`, whose segment is set, in block `block`, or
  /// finds a race.
  std::optional<GlobalRace> access(const Access &access, const Thread &thread,
                                   uint64_t block);

  /// Whether several blocks have already read all of it, so that another reader
  /// need not be noted.
  bool readByMany(const Access &access) const;

  /// The segments of this launch.
  SegmentRange range() const { return {first, first + used()}; }
  /// The kind of race if an access conflicts with one of the earlier launches
  /// `open`, else null.
  const char *conflictWith(const SegmentRanges &open,
                           const Access &access) const;

  /// The ticket of a new release by `block`, which `clock` knows of.
  uint64_t draw(uint64_t block, const Clock &clock);
  /// Releases the ticket at `address`.
  void release(uint64_t address, uint64_t ticket);
  /// The last ticket that was released at `address`, or 0.
  uint64_t ticketAt(uint64_t address);

private:
  struct Release {
    uint64_t ticket;
    Clock clock;
  };
  static constexpr uint32_t kChunk = 4096;

  uint32_t used() const;
  Segment &segment(uint32_t number) const;
  bool ordered(uint32_t number, const Thread &thread, uint64_t block);
  bool released(const Segment &other, uint64_t seen);
  bool isOld(uint32_t half) const;
  GlobalRace describe(const char *what, uint32_t number, const Access &access,
                      bool wrote) const;
  std::optional<GlobalRace> checkGranule(const Access &access, uint64_t at,
                                         uint32_t mask, const Thread &thread,
                                         uint64_t block);
  bool noteLine(LineStamp &line, uint32_t bits, const Access &access,
                const Thread &thread, uint64_t block);
  void moveToGranules(uint64_t address, uint64_t noted, bool isWrite);
  LineStamp &lineOf(uint64_t address) const {
    return *reinterpret_cast<LineStamp *>(memory.lineOf(address));
  }
  /// The segment of lines whose granules have the stamps.
  uint32_t noOwner() const { return (first + 1) << kSegmentShift; }
  void notePlace(const Access &access, const Thread &thread) const;
  uint32_t readBy(uint32_t half, uint32_t mask, const Thread &thread,
                  uint64_t block);

  const DeviceMemory &memory;
  bool coarse;
  uint32_t first;                  ///< number of manyReaders
  std::atomic<uint32_t> count = 2; ///< of segments, with the two special ones
  std::atomic<uint32_t> published = 0; ///< segments whose contents are written
  std::vector<std::atomic<Segment *>> chunks;
  std::atomic<uint64_t> tickets = 0;
  std::atomic<bool> anyRelease = false;
  std::atomic<uint64_t> touched = 0; ///< bytes of stamps, about
  std::mutex mutex;
  std::unordered_map<uint64_t, uint64_t> ticketsAt;           ///< by address
  std::unordered_map<uint64_t, std::deque<Release>> releases; ///< by block
};

} // namespace cria::emulator
