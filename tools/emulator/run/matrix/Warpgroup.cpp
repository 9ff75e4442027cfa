#include "tools/emulator/run/matrix/Warpgroup.h"

#include "tools/emulator/run/Block.h"
#include "tools/emulator/run/matrix/MatrixView.h"
#include "tools/emulator/run/matrix/Narrow.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace cria::emulator {
namespace {

constexpr uint32_t kRows = 64, kDepth = 16, kMostColumns = 256;
constexpr uint32_t kRegisters = 65536; // of a block

/// One product in f32.
struct Operands {
  float a[kRows][kDepth], b[kDepth][kMostColumns], d[kRows][kMostColumns];
};

float floatOf(uint16_t bits, bool isHalf) {
  return isHalf ? floatOfHalf(bits) : floatOfBFloat(bits);
}

/// Calls `visit` with the address of each unit of rows [from, end) of A, or of
/// columns of B, and with the index of its first element: (row, k) or (column,
/// k).
template <typename F>
void forEachUnit(uint64_t descriptor, bool isMnMajor, uint32_t from,
                 uint32_t end, F visit) {
  MatrixView view = MatrixView::of(descriptor);
  for (uint32_t i = from; i < end; i += isMnMajor ? 8 : 1)
    for (uint32_t k = 0; k < kDepth; k += isMnMajor ? 1 : 8)
      visit(isMnMajor ? view.unitAt(true, i / 8, k)
                      : view.unitAt(false, k / 8, i),
            i, k);
}

/// Notes that the warpgroup's hardware reads rows of A or columns of B for
/// `thread`.
void noteReads(Block &block, Thread &thread, uint64_t descriptor,
               bool isMnMajor, uint32_t from, uint32_t end, int line) {
  if (!block.launch().checks.accesses())
    return;
  Shadow::Access access{0, 16, Shadow::Kind::Read, line};
  access.agent = kProductAgents + thread.warpIndex / 4;
  access.isAsyncProxy = true;
  forEachUnit(descriptor, isMnMajor, from, end,
              [&](uint32_t unit, uint32_t, uint32_t) {
                block.checkShared(thread, uint64_t(thread.shared) + unit, 16,
                                  access, "matrix of wgmma");
              });
}

void checkView(Block &block, const Thread &thread, uint64_t descriptor,
               int line) {
  MatrixView view = MatrixView::of(descriptor);
  if (view.baseOffset)
    block.report(Finding::Misuse, thread, line,
                 "matrix of wgmma with a base offset, which is not supported");
  if (!view.isAligned())
    block.report(Finding::Misaligned, thread, line,
                 "misaligned matrix of wgmma: its swizzle's pattern begins "
                 "at no multiple of 8 rows");
}

/// Calls `put` with the row or column, k and the value of each element of A or
/// B.
template <typename F>
void gather(const char *shared, const ProductConfig &config,
            uint64_t descriptor, bool isMnMajor, bool negates, uint32_t end,
            F put) {
  forEachUnit(descriptor, isMnMajor, 0, end,
              [&](uint32_t unit, uint32_t i, uint32_t k) {
                uint16_t bits[8];
                std::memcpy(bits, shared + unit % kArena, 16);
                for (uint32_t e = 0; e < 8; ++e) {
                  float value = floatOf(bits[e], config.isHalf);
                  put(i + (isMnMajor ? e : 0), k + (isMnMajor ? 0 : e),
                      negates ? -value : value);
                }
              });
}

/// Reads a thread's words of A, which have the layout of mma.m16n8k16.
void gatherRegisters(Operands &to, const Product &product) {
  const ProductConfig &config = product.config;
  for (uint32_t thread = 0; thread < 128; ++thread)
    for (uint32_t word = 0; word < 4; ++word)
      for (uint32_t half = 0; half < 2; ++half) {
        auto bits = uint16_t(product.wordsOfA[thread][word] >> (16 * half));
        float value = floatOf(bits, config.isHalf);
        uint32_t row = thread / 32 * 16 + thread % 32 / 4 + word % 2 * 8;
        to.a[row][word / 2 * 8 + thread % 4 * 2 + half] =
            config.negatesA ? -value : value;
      }
}

/// Calls `visit` with each accumulator of a thread: its row, its column, its
/// word and, for f16, its half of the word.
template <typename F>
void forEachSum(const ProductConfig &config, uint32_t thread, F visit) {
  uint32_t first = thread / 32 * 16 + thread % 32 / 4;
  for (uint32_t i = 0; i < config.n / 2; ++i) {
    uint32_t row = first + i / 2 % 2 * 8;
    uint32_t column = i / 4 * 8 + thread % 4 * 2 + i % 2;
    visit(row, column, config.halfResult ? i / 2 : i, i % 2);
  }
}

void gatherSums(Operands &to, const Product &product) {
  for (uint32_t thread = 0; thread < 128; ++thread)
    forEachSum(
        product.config, thread,
        [&](uint32_t row, uint32_t column, uint32_t word, uint32_t half) {
          uint32_t bits = product.sums[thread][product.places[word]];
          float &sum = to.d[row][column];
          if (!product.addsToD)
            sum = 0;
          else if (product.config.halfResult)
            sum = floatOfHalf(uint16_t(bits >> (16 * half)));
          else
            std::memcpy(&sum, &bits, 4);
        });
}

void scatterSums(const Operands &from, const Product &product) {
  for (uint32_t thread = 0; thread < 128; ++thread)
    forEachSum(
        product.config, thread,
        [&](uint32_t row, uint32_t column, uint32_t word, uint32_t half) {
          uint32_t &bits = product.sums[thread][product.places[word]];
          float sum = from.d[row][column];
          if (!product.config.halfResult)
            std::memcpy(&bits, &sum, 4);
          else if (!half)
            bits = bitsOfHalf(sum);
          else
            bits |= uint32_t(bitsOfHalf(sum)) << 16;
        });
}

__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3",
                             "default"))) void
multiply(Operands &p, uint32_t columns) {
  for (uint32_t row = 0; row < kRows; ++row)
    for (uint32_t k = 0; k < kDepth; ++k)
      for (uint32_t column = 0; column < columns; ++column)
        p.d[row][column] += p.a[row][k] * p.b[k][column];
}

/// Whether `next` continues the sums of `product`.
bool isContinued(const Product &product, const Product &next) {
  return next.addsToD && product.config.n == next.config.n &&
         product.config.halfResult == next.config.halfResult &&
         std::equal(product.sums, product.sums + 128, next.sums) &&
         std::equal(product.places, product.places + product.config.words(),
                    next.places);
}

/// Multiplies; the sums are in `operands`.
void run(const Product &product, const char *shared, Operands &operands) {
  const ProductConfig &config = product.config;
  if (config.aInRegisters)
    gatherRegisters(operands, product);
  else
    gather(shared, config, product.a, config.transposesA, config.negatesA,
           kRows, [&](uint32_t row, uint32_t k, float value) {
             operands.a[row][k] = value;
           });
  gather(shared, config, product.b, config.transposesB, config.negatesB,
         config.n, [&](uint32_t column, uint32_t k, float value) {
           operands.b[k][column] = value;
         });
  multiply(operands, config.n);
}

} // namespace

uint64_t Warpgroup::begun() const {
  return *std::min_element(issued, issued + 4);
}

/// Checks that all lanes of all warps have the same matrices.
void Warpgroup::check(Block &block, const Product &product, Thread &thread,
                      int line) {
  if (product.config.packed() != thread.config || product.line != line ||
      product.b != thread.in[1] || product.addsToD != bool(thread.in[2]) ||
      (!product.config.aInRegisters && product.a != thread.in[0]))
    block.report(Finding::DivergentWarp, thread, line,
                 "divergent wgmma: threads of a warpgroup bring different "
                 "descriptors or instructions",
                 "  another thread executes " + block.placeOf(product.line) +
                     "\n");
}

void Warpgroup::issue(Block &block, Warp &warp, int line) {
  Thread &leader = warp.lanes[0];
  block.checkWarpgroup(leader, line, "wgmma");
  uint64_t number = issued[leader.warpIndex % 4];
  if (number - ended == products.size()) {
    Product &made = products.emplace_back();
    made.config = ProductConfig::unpacked(leader.config);
    made.a = leader.in[0];
    made.b = leader.in[1];
    made.addsToD = leader.in[2];
    made.line = line;
    made.places = leader.places;
  }
  Product &product = products[number - ended];
  for (unsigned lane = 0; lane < 32; ++lane) {
    Thread &thread = warp.lanes[lane];
    check(block, product, thread, line);
    product.sums[thread.index % 128] = thread.outWords;
    if (product.config.aInRegisters)
      std::copy_n(thread.inWords, 4, product.wordsOfA[thread.index % 128]);
  }
  ++issued[leader.warpIndex % 4];
  if (begun() <= number)
    return;
  begin(block, product, number, warp);
  block.wakeWarpgroup(leader.warpIndex / 4);
}

void Warpgroup::begin(Block &block, const Product &product, uint64_t number,
                      Warp &last) {
  const ProductConfig &config = product.config;
  Warp *warps = &last - last.lanes[0].warpIndex % 4;
  if (!config.aInRegisters)
    checkView(block, last.lanes[0], product.a, product.line);
  checkView(block, last.lanes[0], product.b, product.line);
  for (uint32_t i = 0; i < 4 && !config.aInRegisters; ++i)
    noteReads(block, warps[i].lanes[0], product.a, config.transposesA, 16 * i,
              16 * i + 16, product.line);
  // The warps take turns, because each must have waited for the data it
  // multiplies.
  noteReads(block, warps[number % 4].lanes[0], product.b, config.transposesB, 0,
            config.n, product.line);
  if (block.launch().seed && block.random().next() & 1)
    end(block, last.lanes[0], number + 1);
}

void Warpgroup::end(Block &block, Thread &thread, uint64_t count) {
  auto operands = std::make_unique<Operands>(); // too large for a stack
  for (bool hasSums = false; ended < count; ++ended) {
    const Product &product = products.front();
    const ProductConfig &config = product.config;
    if (!config.aInRegisters)
      noteReads(block, thread, product.a, config.transposesA, 0, kRows,
                product.line);
    noteReads(block, thread, product.b, config.transposesB, 0, config.n,
              product.line);
    if (!hasSums)
      gatherSums(*operands, product);
    run(product, thread.shared, *operands);
    hasSums = ended + 1 < count && isContinued(product, products[1]) &&
              !config.halfResult; // f16 is rounded each time
    if (!hasSums)
      scatterSums(*operands, product);
    products.pop_front();
    epochs.push_back(block.newEpoch());
  }
}

void Warpgroup::commit(Warp &warp) {
  uint32_t index = warp.lanes[0].warpIndex % 4;
  groups[index].push_back(issued[index]);
}

void Warpgroup::beginWait(Warp &warp) {
  uint32_t index = warp.lanes[0].warpIndex % 4;
  auto &open = groups[index];
  while (open.size() > warp.lanes[0].config) {
    waited[index] = open.front();
    open.pop_front();
  }
  for (unsigned lane = 0; lane < 32; ++lane)
    warp.lanes[lane].out = waited[index];
}

void Warpgroup::wait(Block &block, Thread &thread, uint64_t count, int line) {
  while (begun() < count)
    block.suspend(thread, Wait::Warpgroup, line);
  if (ended < count)
    end(block, thread, count);
  if (count)
    block.acquireAgent(thread, kProductAgents + thread.warpIndex / 4,
                       epochs[count - 1]);
}

void Warpgroup::setRegisters(Block &block, Warp &warp, int line) {
  Thread &leader = warp.lanes[0];
  block.checkWarpgroup(leader, line, "setmaxnreg");
  std::vector<int> &own = changes[leader.warpIndex % 4];
  for (const std::vector<int> &others : changes)
    if (others.size() > own.size() && others[own.size()] != line)
      block.report(Finding::DivergentWarp, leader, line,
                   "divergent setmaxnreg: warps of a warpgroup execute "
                   "different instructions",
                   "  another warp executes " +
                       block.placeOf(others[own.size()]) + "\n");
  own.push_back(line);
  registers[leader.warpIndex % 4] = leader.config;
  uint64_t wanted = block.registersWanted();
  if (wanted > kRegisters)
    block.report(Finding::Misuse, leader, line,
                 "setmaxnreg: the threads of the block want " +
                     std::to_string(wanted) + " registers of 65536");
}

void Warpgroup::checkEnd(Block &block, const Warp &warp) const {
  const Thread &leader = warp.lanes[0];
  uint32_t index = leader.warpIndex % 4;
  if (issued[index] != waited[index])
    block.report(Finding::Misuse, leader,
                 products.empty() ? leader.line : products.back().line,
                 "thread ends with wgmma that it has not waited for");
  for (uint32_t i = 0; i < 4; ++i)
    if (changes[i].size() != changes[index].size() ||
        issued[i] != issued[index])
      block.report(Finding::DivergentWarp, leader, leader.line,
                   "warps of a warpgroup have executed different numbers of "
                   "wgmma or setmaxnreg");
}

} // namespace cria::emulator
