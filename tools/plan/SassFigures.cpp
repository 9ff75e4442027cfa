#include "tools/plan/Sass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <array>
#include <set>

using namespace cria;
using namespace cria::sass;
using llvm::StringRef;

/// Cycles of a load from memory under load (0.6 us at 1.7 GHz), and of a load
/// from the caches: between the 35 of L1 and the 250 of L2.
static constexpr int64_t kLatency = 1000, kCached = 100;
/// Turns of a loop that fill its pipeline, and as many turns that are measured.
static constexpr int kTurns = 16;

namespace {
/// The parameters that flow into each register, one bit each.
using Pointers = std::array<uint64_t, kRegisters>;

/// Finds the loads whose address comes from a streamed parameter: data flow
/// over the branches, to a fixed point.
class DataFlow {
public:
  DataFlow(Kernel &kernel, const Parameters &parameters)
      : kernel(kernel), parameters(parameters),
        copies(llvm::any_of(kernel.code, [](const Instruction &each) {
          return each.op == "LDGSTS";
        })) {}
  void run();

private:
  void mark(Instruction &instruction, const Pointers &pointers) const;
  void flow(const Instruction &instruction, Pointers &pointers) const;
  uint64_t constantOf(const Instruction &instruction, size_t result) const;
  bool merge(size_t target, const Pointers &pointers);

  Kernel &kernel;
  const Parameters &parameters;
  bool copies;
  std::map<size_t, Pointers> entering;
};
} // namespace

void DataFlow::mark(Instruction &instruction, const Pointers &pointers) const {
  llvm::SmallVector<int, 8> address;
  if (instruction.op == "LDG")
    address = instruction.reads;
  else if (instruction.op == "LDGSTS") // the operand after the destination
    addRegisters(instruction.operands[1], 1, address);
  else if (instruction.isBulk()) // two uniform registers
    addRegisters(instruction.operands[1], 2, address);
  uint64_t mask = 0;
  for (int number : address)
    mask |= pointers[number];
  // A guarded write keeps what a register had before. So beside copies, which
  // stream, a load may seem to read what was copied as well as what it reads.
  bool isOther =
      copies && instruction.op == "LDG" && (mask & ~parameters.streamed);
  instruction.streams |= !isOther && (mask & parameters.streamed);
}

/// The parameters that a constant brings into register `result` of an
/// instruction's result. If a register is added to the constant's offset, all
/// parameters from the offset on are possible.
uint64_t DataFlow::constantOf(const Instruction &instruction,
                              size_t result) const {
  if (!instruction.constant)
    return 0;
  int64_t first = *instruction.constant / 4;
  int64_t own = instruction.writes.size() > 1 ? first + result : first;
  uint64_t mask = 0;
  for (auto [word, bit] : parameters.words)
    if (word == own || (instruction.indexed && word >= first))
      mask |= bit;
  return mask;
}

void DataFlow::flow(const Instruction &instruction, Pointers &pointers) const {
  bool loads =
      llvm::is_contained({"LDG", "LDS", "LDL", "LD", "LDSM"}, instruction.op);
  uint64_t mask = 0;
  for (int number : instruction.reads)
    mask |= loads ? 0 : pointers[number];
  for (auto [i, number] : llvm::enumerate(instruction.writes)) {
    uint64_t kept = instruction.guard.empty() ? 0 : pointers[number];
    pointers[number] = mask | kept | constantOf(instruction, i);
  }
}

/// Adds the parameters that a path brings to an instruction. Returns whether
/// some are new.
bool DataFlow::merge(size_t target, const Pointers &pointers) {
  auto [found, isNew] = entering.try_emplace(target, pointers);
  for (int i = 0; i < kRegisters; ++i) {
    uint64_t &known = found->second[i];
    isNew |= (pointers[i] & ~known) != 0;
    known |= pointers[i];
  }
  return isNew;
}

void DataFlow::run() {
  std::set<size_t> starts = {0};
  for (const auto &label : kernel.labels)
    starts.insert(label.second);
  for (auto [i, each] : llvm::enumerate(kernel.code))
    if (!each.label.empty())
      starts.insert(i + 1);
  std::vector<size_t> work = {0};
  entering[0] = {};
  while (!work.empty()) {
    size_t index = work.back();
    work.pop_back();
    Pointers pointers = entering[index];
    while (true) {
      mark(kernel.code[index], pointers);
      flow(kernel.code[index], pointers);
      auto following = kernel.successors(index);
      if (following.size() == 1 && following[0] == index + 1 &&
          !starts.count(index + 1)) {
        ++index;
        continue;
      }
      for (size_t target : following)
        if (merge(target, pointers))
          work.push_back(target);
      break;
    }
  }
}

/// The sum of `count` over a loop without its inner loops.
template <typename Count>
static int64_t sumOver(const Kernel &kernel, Loop loop, Count count) {
  int64_t sum = 0;
  for (size_t i = loop.first; i <= loop.second; ++i) {
    bool isWithin = llvm::any_of(kernel.loops, [&](Loop other) {
      return other != loop && loop.first <= other.first &&
             other.second <= loop.second && other.first <= i &&
             i <= other.second;
    });
    sum += isWithin ? 0 : count(kernel.code[i]);
  }
  return sum;
}

/// Returns the loop that waits for the copies which `loop` begins: `loop`, or a
/// loop around it.
static Loop waitsFor(const Kernel &kernel, Loop loop) {
  auto has = [&](StringRef op) {
    for (size_t i = loop.first; i < loop.second; ++i)
      if (kernel.code[i].op == op)
        return true;
    return false;
  };
  if (!has("LDGSTS") || has("DEPBAR"))
    return loop;
  std::optional<Loop> around;
  for (Loop each : kernel.loops)
    if (each != loop && each.first <= loop.first && loop.second <= each.second)
      around = each;
  return around ? waitsFor(kernel, *around) : loop;
}

/// Of the loops over each weight the first with the largest `count`, if that is
/// more than half of the largest of all. If turns of loops are `peeled`, a loop
/// is left out if a loop in it has as large a count.
template <typename Count>
static std::set<Loop> mainLoops(const Kernel &kernel, bool peeled,
                                Count count) {
  std::map<uint64_t, std::pair<int64_t, Loop>> best;
  int64_t most = 0;
  for (Loop loop : kernel.loops) {
    int64_t amount = sumOver(kernel, loop, count);
    bool isAround = llvm::any_of(kernel.loops, [&](Loop other) {
      return other != loop && loop.first <= other.first &&
             other.second <= loop.second &&
             sumOver(kernel, other, count) >= amount;
    });
    if (peeled && isAround)
      continue;
    Loop around = waitsFor(kernel, loop);
    uint64_t over = 0;
    for (size_t i = around.first; i < around.second; ++i)
      over |= kernel.code[i].streams;
    auto &known = best[over];
    if (amount > known.first)
      known = {amount, around};
    most = std::max(most, amount);
  }
  std::set<Loop> loops;
  for (const auto &[over, known] : best)
    if (2 * known.first > most)
      loops.insert(known.second);
  return loops;
}

/// The number of turns of a loop in another loop. It is known where threads
/// stride over a block's work, from the thread's number on; else it is 1.
static int64_t turnsOf(const Kernel &kernel, Loop loop, int64_t threads) {
  std::string stride = "0x" + llvm::utohexstr(threads, /*LowerCase=*/true);
  std::set<int> strided;
  for (size_t i = loop.first; i < loop.second; ++i) {
    const Instruction &each = kernel.code[i];
    if (llvm::is_contained({"IADD3", "VIADD", "IADD"}, each.op) &&
        each.reads.size() == 1 &&
        llvm::is_contained(each.operands, StringRef(stride)))
      strided.insert(each.reads[0]);
  }
  StringRef guard = kernel.code[loop.second].guard;
  guard.consume_front("!");
  for (size_t i = loop.second; i-- > loop.first;) {
    const Instruction &test = kernel.code[i];
    if (test.op != "ISETP" || test.operands[0] != guard)
      continue;
    int64_t bound;
    StringRef last = test.operands[3];
    bool isKnown = last.consume_front("0x") && !last.getAsInteger(16, bound) &&
                   llvm::any_of(test.reads, [&](int number) {
                     return strided.count(number);
                   });
    return isKnown ? bound / threads + 1 : 1;
  }
  return 1;
}

using Turn = std::vector<const Instruction *>;

/// The instructions of a turn of a loop; those of its inner loops are repeated
/// as often as these run.
static Turn turnOf(const Kernel &kernel, Loop loop, int64_t threads) {
  Turn turn;
  std::map<size_t, size_t> inner;
  for (Loop other : kernel.loops)
    if (other != loop)
      inner.insert(other);
  for (size_t i = loop.first; i <= loop.second; ++i) {
    auto within = inner.find(i);
    if (within == inner.end() || i == loop.first ||
        loop.second < within->second) {
      turn.push_back(&kernel.code[i]);
      continue;
    }
    Turn once = turnOf(kernel, *within, threads);
    for (int64_t j = turnsOf(kernel, *within, threads); j > 0; --j)
      turn.insert(turn.end(), once.begin(), once.end());
    i = within->second;
  }
  return turn;
}

namespace {
/// A warp that runs instructions in order.
class Clock {
public:
  /// `waits` is the number of waits for barriers in a repeated turn of a loop.
  /// Each wait is for the bytes that the turn before has announced.
  explicit Clock(int64_t waits) : stages(waits) {}
  void run(const Instruction &instruction);
  /// Waits for all loads.
  void finish() { now = std::max(now, *llvm::max_element(arrivals)); }

  int64_t now = 0, streamed = 0; // cycles, bytes

private:
  /// The cycle when each register's load arrives, when the copies begun so far
  /// have arrived, and when each group of copies has.
  std::array<int64_t, kRegisters> arrivals{};
  int64_t copies = 0;
  std::vector<int64_t> groups;
  /// The cycles when the bulk copies of each barrier arrive, in the order of
  /// the waits; and the number of waits so far.
  std::vector<int64_t> stages;
  size_t awaited = 0;
};
} // namespace

void Clock::run(const Instruction &instruction) {
  auto await = [&](int number) {
    now = std::max(now, std::exchange(arrivals[number], 0));
  };
  llvm::for_each(instruction.reads, await);
  if (instruction.guard.empty())
    llvm::for_each(instruction.writes, await);
  int64_t arrival = now + (instruction.streams ? kLatency : kCached);
  if (instruction.op == "LDG") {
    for (int number : instruction.writes)
      arrivals[number] = arrival;
  } else if (instruction.op == "LDGSTS") {
    copies = std::max(copies, arrival);
  } else if (instruction.op == "LDGDEPBAR") {
    groups.push_back(copies);
  } else if (instruction.op == "DEPBAR" && instruction.operands[0] == "SB0") {
    int64_t allowed = 0, count = groups.size();
    instruction.operands[1].getAsInteger(0, allowed);
    for (int64_t i = 0; i < count - allowed; ++i)
      now = std::max(now, groups[i]);
  } else if (instruction.announces()) {
    stages.push_back(0);
  } else if (instruction.isBulk() && !stages.empty()) {
    stages.back() = arrival;
  } else if (instruction.awaitsBarrier() && awaited < stages.size()) {
    now = std::max(now, stages[awaited++]);
  }
  if (instruction.streams)
    streamed += instruction.bytes();
  ++now;
}

/// Removes bulk copies that a loop begins only in its last turn, for the rest
/// of a row: they announce fewer bytes than the others.
static Turn withoutRest(const Turn &turn) {
  std::vector<std::pair<Turn, int64_t>> parts(1);
  int64_t most = 0;
  for (const Instruction *each : turn) {
    if (each->announces())
      parts.emplace_back();
    auto &[part, bytes] = parts.back();
    part.push_back(each);
    bytes += each->isBulk() ? each->bytes() : 0;
    most = std::max(most, bytes);
  }
  Turn whole;
  for (auto &[part, bytes] : parts)
    for (const Instruction *each : part)
      if (bytes == most || !(each->isBulk() || each->announces()))
        whole.push_back(each);
  return whole;
}

/// The average number of 16-byte loads on their way.
static double inFlight(const Turn &all, bool isLoop) {
  Turn turn = isLoop ? withoutRest(all) : all;
  Clock clock(isLoop ? llvm::count_if(turn,
                                      [](const Instruction *each) {
                                        return each->awaitsBarrier();
                                      })
                     : 0);
  auto run = [&](int times) {
    for (int i = 0; i < times; ++i)
      for (const Instruction *each : turn)
        clock.run(*each);
  };
  if (isLoop)
    run(kTurns);
  int64_t start = clock.now, before = clock.streamed;
  run(isLoop ? kTurns : 1);
  if (!isLoop)
    clock.finish();
  return static_cast<double>((clock.streamed - before) * kLatency) /
         static_cast<double>(16 * (clock.now - start));
}

/// Reports copies whose number of bytes is unknown. The number is in a register
/// if a thread copies for its whole block. This is no problem in a kernel that
/// multiplies: there the copies fill a ring, and no lane waits for its own
/// loads.
static llvm::Error checkKnown(const Kernel &kernel, bool multiplies) {
  for (const Instruction &each : kernel.code) {
    bool copies = llvm::is_contained({"UTMALDG", "UBLKPF"}, each.op) ||
                  (each.isBulk() && !each.bulk);
    if (copies ? !multiplies : each.has("256"))
      return llvm::createStringError("SASS: figures of " + each.op +
                                     " are not known");
  }
  return llvm::Error::success();
}

llvm::Expected<Figures> sass::figuresOf(Kernel kernel, int64_t threads,
                                        const Parameters &parameters) {
  Figures figures;
  if (kernel.code.empty())
    return figures;
  bool multiplies = llvm::any_of(
      kernel.code, [](const Instruction &each) { return each.isMma(); });
  if (llvm::Error error = checkKnown(kernel, multiplies))
    return error;
  DataFlow(kernel, parameters).run();
  auto streams = [](const Instruction *each) { return each->streams != 0; };
  // ptxas peels the first turn of the loop over k where a loop over tiles is
  // around it.
  auto loops = mainLoops(kernel, multiplies, [&](const Instruction &each) {
    if (multiplies)
      return static_cast<int64_t>(each.isMma());
    return each.streams ? each.bytes() : 0;
  });
  bool isLoop = !loops.empty();
  Turn all;
  for (const Instruction &each : kernel.code)
    all.push_back(&each);
  std::vector<Turn> turns;
  for (Loop loop : loops)
    turns.push_back(turnOf(kernel, loop, threads));
  if (!isLoop)
    turns.push_back(std::move(all));
  for (const Turn &turn : turns) {
    int64_t mmas = llvm::count_if(
        turn, [](const Instruction *each) { return each->isMma(); });
    if (mmas)
      figures.mma =
          std::max(figures.mma.value_or(0), static_cast<double>(turn.size()) /
                                                static_cast<double>(mmas));
    if (llvm::any_of(turn, streams)) {
      double loads = inFlight(turn, isLoop);
      figures.loads = std::min(figures.loads.value_or(loads), loads);
    }
  }
  Parameters everything = {parameters.words, ~uint64_t(0)};
  if (figures.loads || parameters.streamed == everything.streamed)
    return figures;
  auto others = figuresOf(std::move(kernel), threads, everything);
  if (!others)
    return others.takeError();
  figures.loads = others->loads;
  return figures;
}
