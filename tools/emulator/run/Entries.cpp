#include "tools/emulator/run/Entries.h"

#include "tools/emulator/run/Block.h"
#include "tools/emulator/run/Print.h"
#include "tools/emulator/run/Rounding.h"
#include "tools/emulator/run/Texture.h"
#include "tools/emulator/run/Video.h"
#include "tools/emulator/run/async/AsyncCopy.h"
#include "tools/emulator/run/async/AsyncEntries.h"

#include <cfenv>
#include <chrono>
#include <cmath>
#include <cstring>

using namespace cria::emulator;

namespace {

uint64_t meet(Thread *thread, WarpOp op, uint32_t config, uint32_t mask,
              int line, bool sameLine) {
  thread->op = op;
  thread->config = config;
  thread->mask = mask;
  thread->matchLine = sameLine ? line : 0;
  thread->block->rendezvous(*thread, line);
  return thread->out;
}

const int kModes[] = {FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

/// Arithmetic in a rounding mode of the host. Volatile, so that the compiler
/// does not move it to where another mode is set.
template <typename T> T directed(uint32_t op, uint32_t mode, T a, T b, T c) {
  volatile T x = a, y = b, z = c, result;
  std::fesetround(kModes[mode]);
  switch (op) {
  case 0:
    result = x + y;
    break;
  case 1:
    result = x - y;
    break;
  case 2:
    result = x * y;
    break;
  case 3:
    result = x / y;
    break;
  case 4:
    result = std::fma(x, y, z);
    break;
  case 5:
    result = std::sqrt(x);
    break;
  default:
    result = T(1) / x;
  }
  std::fesetround(FE_TONEAREST);
  return result;
}

template <typename T> T bits(uint32_t value) {
  T result;
  std::memcpy(&result, &value, sizeof(T));
  return result;
}

/// a + b of 16-bit floats, computed in f32 and rounded.
uint32_t addNarrow(uint32_t a, uint32_t b, bool isBFloat) {
  if (!isBFloat) {
    auto sum = _Float16(float(bits<_Float16>(a)) + float(bits<_Float16>(b)));
    uint16_t result;
    std::memcpy(&result, &sum, 2);
    return result;
  }
  float sum = bits<float>(a << 16) + bits<float>(b << 16);
  if (sum != sum)
    return 0x7fff;
  uint32_t word;
  std::memcpy(&word, &sum, 4);
  return (word + 0x7fff + (word >> 16 & 1)) >> 16;
}

template <typename T>
uint32_t addNarrowAt(void *address, uint32_t value, bool isBFloat) {
  auto *word = static_cast<T *>(address);
  T old = __atomic_load_n(word, __ATOMIC_SEQ_CST), next;
  do {
    next = T(addNarrow(old & 0xffff, value & 0xffff, isBFloat));
    if (sizeof(T) == 4)
      next =
          T(next | addNarrow(uint32_t(old) >> 16, value >> 16, isBFloat) << 16);
  } while (!__atomic_compare_exchange_n(word, &old, next, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}

} // namespace

extern "C" {

void emulatorCheck(Thread *thread, void *address, uint32_t flags, int line,
                   const char *stored) {
  thread->block->check(*thread, uint64_t(address), flags, line, stored);
}

void emulatorRequest(Thread *thread, uint32_t site, void *address,
                     uint32_t bytes) {
  thread->block->countRequest(*thread, site, uint64_t(address), bytes);
}

void emulatorFence(Thread *thread, uint32_t deviceWide) {
  thread->block->fence(*thread, deviceWide);
}

void emulatorGridWait(Thread *thread) {
  thread->block->waitForLaunches(*thread);
}

void emulatorGridTrigger(Thread *thread) { thread->block->allowNextLaunch(); }

void emulatorSpin(Thread *thread, void *address, int line) {
  thread->block->poll(*thread, uint64_t(address), line);
}

void emulatorRounds(Thread *thread, int line) {
  thread->block->checkTime(*thread, line);
}

uint64_t emulatorShuffle(Thread *thread, uint32_t mode, uint32_t value,
                         uint32_t by, uint32_t clamp, uint32_t mask, int line) {
  thread->in[0] = value;
  thread->in[1] = by;
  thread->in[2] = clamp;
  return meet(thread, WarpOp::Shuffle, mode, mask, line, false);
}

uint32_t emulatorVote(Thread *thread, uint32_t mode, uint32_t predicate,
                      uint32_t mask, int line) {
  thread->in[0] = predicate;
  return uint32_t(meet(thread, WarpOp::Vote, mode, mask, line, false));
}

uint64_t emulatorMatch(Thread *thread, uint32_t all, uint64_t value,
                       uint32_t mask, int line) {
  thread->in[0] = value;
  return meet(thread, WarpOp::Match, all, mask, line, false);
}

uint32_t emulatorReduce(Thread *thread, uint32_t op, uint32_t value,
                        uint32_t mask, int line) {
  thread->in[0] = value;
  return uint32_t(meet(thread, WarpOp::Reduce, op, mask, line, false));
}

void emulatorSyncWarp(Thread *thread, uint32_t mask, int line) {
  meet(thread, WarpOp::Sync, 0, mask, line, false);
}

uint32_t emulatorActiveMask(Thread *thread, int line) {
  thread->block->suspend(*thread, Wait::ActiveMask, line);
  return uint32_t(thread->out);
}

uint32_t emulatorBarrier(Thread *thread, uint32_t config, uint32_t id,
                         uint32_t count, uint32_t predicate, int line) {
  return thread->block->barrier(*thread, BarrierConfig::unpacked(config), id,
                                count, predicate, line);
}

void emulatorLoadMatrix(Thread *thread, uint32_t config, void *row,
                        uint32_t *words, int line) {
  thread->in[0] = uint64_t(row);
  thread->outWords = words;
  meet(thread, WarpOp::LoadMatrix, config, ~0u, line, true);
}

void emulatorStoreMatrix(Thread *thread, uint32_t config, void *row,
                         const uint32_t *words, int line) {
  thread->in[0] = uint64_t(row);
  thread->inWords = words;
  meet(thread, WarpOp::StoreMatrix, config, ~0u, line, true);
}

void emulatorMma(Thread *thread, uint32_t config, const uint32_t *in,
                 uint32_t *out, int line) {
  thread->inWords = in;
  thread->outWords = out;
  meet(thread, WarpOp::Mma, config, ~0u, line, true);
}

void emulatorMoveFragment(Thread *thread, uint32_t config, void *matrix,
                          uint32_t stride, uint32_t *words, int line) {
  thread->in[0] = uint64_t(matrix);
  thread->in[1] = stride;
  thread->inWords = thread->outWords = words;
  meet(thread, WarpOp::MoveFragment, config, ~0u, line, true);
}

void emulatorExit(Thread *thread) { thread->block->exitThread(*thread); }

void emulatorTrap(Thread *thread, int line) {
  thread->block->report(Finding::Trap, *thread, line, "trap");
}

uint32_t emulatorSpaceOf(Thread *thread, uint64_t address) {
  return uint32_t(thread->block->spaceOf(address));
}

/// Nanoseconds, as %globaltimer has them.
uint64_t emulatorTime(Thread *) {
  return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count());
}

void emulatorStackOverflow(Thread *thread, int line) {
  thread->block->report(Finding::Misuse, *thread, line,
                        "stack overflow: a recursion is too deep");
}

void emulatorBadCall(Thread *thread, uint64_t address, int line) {
  thread->block->report(
      Finding::Misuse, *thread, line,
      "call of an address that is no function of the call's type",
      "  the address is " + thread->block->launch().memory->describe(address) +
          "\n");
}

void emulatorAssertionFailed(Thread *thread, const char *text, const char *file,
                             uint32_t sourceLine, int line) {
  thread->block->report(Finding::Assertion, *thread, line,
                        "assertion failed: " + std::string(text) + " (" + file +
                            ":" + std::to_string(sourceLine) + ")");
}

float emulatorDirected32(Thread *, uint32_t op, uint32_t mode, float a, float b,
                         float c) {
  return directed(op, mode, a, b, c);
}

double emulatorDirected64(Thread *, uint32_t op, uint32_t mode, double a,
                          double b, double c) {
  return directed(op, mode, a, b, c);
}

uint64_t emulatorRoundFloat(Thread *, uint32_t how, double value) {
  return roundFloat(value, Rounding::unpacked(how));
}

uint64_t emulatorRoundUnsigned(Thread *, uint32_t how, uint64_t value) {
  return roundInteger(value, false, Rounding::unpacked(how));
}

uint64_t emulatorRoundSigned(Thread *, uint32_t how, int64_t value) {
  uint64_t magnitude = value < 0 ? -uint64_t(value) : uint64_t(value);
  return roundInteger(magnitude, value < 0, Rounding::unpacked(how));
}

float emulatorTanh(Thread *, float value) { return std::tanh(value); }

uint32_t emulatorAtomicAddNarrow(Thread *, void *address, uint32_t value,
                                 uint32_t isBFloat, uint32_t width) {
  return width == 32 ? addNarrowAt<uint32_t>(address, value, isBFloat)
                     : addNarrowAt<uint16_t>(address, value, isBFloat);
}

} // extern "C"

namespace cria::emulator {

std::vector<RuntimeEntry> runtimeEntries() {
#define ENTRY(name)                                                            \
  { #name, reinterpret_cast < void *>(name) }
#define FLOAT_ENTRY(name)                                                      \
  { #name, reinterpret_cast < void *>(static_cast <float (*)(float)>(name)) }
  return {ENTRY(emulatorCheck),
          ENTRY(emulatorRequest),
          ENTRY(emulatorFence),
          ENTRY(emulatorGridWait),
          ENTRY(emulatorGridTrigger),
          ENTRY(emulatorSpin),
          ENTRY(emulatorRounds),
          ENTRY(emulatorShuffle),
          ENTRY(emulatorVote),
          ENTRY(emulatorMatch),
          ENTRY(emulatorReduce),
          ENTRY(emulatorSyncWarp),
          ENTRY(emulatorActiveMask),
          ENTRY(emulatorBarrier),
          ENTRY(emulatorLoadMatrix),
          ENTRY(emulatorStoreMatrix),
          ENTRY(emulatorMma),
          ENTRY(emulatorMoveFragment),
          ENTRY(emulatorExit),
          ENTRY(emulatorTrap),
          ENTRY(emulatorTime),
          ENTRY(emulatorStackOverflow),
          ENTRY(emulatorBadCall),
          ENTRY(emulatorPrint),
          ENTRY(emulatorAllocate),
          ENTRY(emulatorFree),
          ENTRY(emulatorDirected32),
          ENTRY(emulatorDirected64),
          ENTRY(emulatorRoundFloat),
          ENTRY(emulatorRoundUnsigned),
          ENTRY(emulatorRoundSigned),
          ENTRY(emulatorTanh),
          ENTRY(emulatorVideo),
          ENTRY(emulatorTexture),
          ENTRY(emulatorSurface),
          ENTRY(emulatorFindNth),
          ENTRY(emulatorSpaceOf),
          ENTRY(emulatorCopyArrive),
          ENTRY(emulatorCopyAsync),
          ENTRY(emulatorCopyCommit),
          ENTRY(emulatorCopyWait),
          ENTRY(emulatorMbarrierInit),
          ENTRY(emulatorMbarrierInvalidate),
          ENTRY(emulatorMbarrierArrive),
          ENTRY(emulatorMbarrierBytes),
          ENTRY(emulatorMbarrierWait),
          ENTRY(emulatorFenceProxy),
          ENTRY(emulatorClusterBarrier),
          ENTRY(emulatorMapShared),
          ENTRY(emulatorClusterAddress),
          ENTRY(emulatorBulkLoad),
          ENTRY(emulatorBulkStore),
          ENTRY(emulatorTensorLoad),
          ENTRY(emulatorTensorStore),
          ENTRY(emulatorBulkCommit),
          ENTRY(emulatorBulkWait),
          ENTRY(emulatorProduct),
          ENTRY(emulatorFenceProducts),
          ENTRY(emulatorCommitProducts),
          ENTRY(emulatorWaitProducts),
          ENTRY(emulatorSetRegisters),
          ENTRY(emulatorAtomicAddNarrow),
          ENTRY(emulatorAssertionFailed),
          ENTRY(memcpy),
          ENTRY(memset),
          ENTRY(memmove),
          FLOAT_ENTRY(exp2f),
          FLOAT_ENTRY(log2f),
          FLOAT_ENTRY(sinf),
          FLOAT_ENTRY(cosf)};
#undef FLOAT_ENTRY
#undef ENTRY
}

} // namespace cria::emulator
