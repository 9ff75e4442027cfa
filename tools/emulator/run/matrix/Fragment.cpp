// wmma.load and wmma.store: a warp's part of a matrix from and to memory.
#include "tools/emulator/run/matrix/Fragment.h"

#include "tools/emulator/run/Block.h"

#include <cstring>

namespace cria::emulator {
namespace {

/// One lane's accesses.
class Mover {
public:
  Mover(Block &block, Thread &thread, const FragmentConfig &config, int line)
      : block(block), thread(thread), config(config),
        layout(config.role, config.element, config.shape), line(line) {}

  void move() {
    for (unsigned slot = 0; slot < layout.slots(); ++slot) {
      MatrixPlace place = layout.place(thread.lane, slot);
      // The elements of a slot follow one another along k, in C along the row.
      bool alongColumn = config.role == FragmentRole::B;
      unsigned bit = slot * layout.each * layout.bits;
      if (alongColumn == config.byColumns) {
        transfer(place, bit, layout.each * layout.bits / 8);
        continue;
      }
      for (unsigned i = 0; i < layout.each; ++i) {
        transfer(place, bit + i * layout.bits, layout.bits / 8);
        ++(alongColumn ? place.row : place.column);
      }
    }
  }

private:
  /// Moves `bytes` at `place` to or from bit `bit` of the lane's words.
  void transfer(MatrixPlace place, unsigned bit, unsigned bytes) {
    uint64_t stride = uint32_t(thread.in[1]);
    uint64_t element = config.byColumns ? place.column * stride + place.row
                                        : place.row * stride + place.column;
    uint64_t address = thread.in[0] + element * layout.bits / 8;
    auto *memory = reinterpret_cast<char *>(address);
    const char *stored =
        reinterpret_cast<const char *>(thread.inWords) + bit / 8;
    if (block.launch().checks.accesses())
      block.check(thread, address, flags(bytes).packed(), line,
                  config.isStore ? stored : nullptr);
    if (config.isStore)
      std::memcpy(memory, stored, bytes);
    else
      std::memcpy(reinterpret_cast<char *>(thread.outWords) + bit / 8, memory,
                  bytes);
  }

  AccessFlags flags(unsigned bytes) const {
    AccessFlags flags;
    flags.bytes = bytes;
    flags.isStore = config.isStore;
    flags.isShared = config.isShared;
    flags.isGeneric = config.isGeneric;
    return flags;
  }

  Block &block;
  Thread &thread;
  FragmentConfig config;
  FragmentLayout layout;
  int line;
};

} // namespace

void moveFragments(Block &block, Warp &warp, uint32_t lanes, int line) {
  auto config =
      FragmentConfig::unpacked(warp.lanes[__builtin_ctz(lanes)].config);
  for (unsigned lane : Lanes(lanes))
    Mover(block, warp.lanes[lane], config, line).move();
}

} // namespace cria::emulator
