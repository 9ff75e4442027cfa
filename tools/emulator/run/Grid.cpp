#include "tools/emulator/run/Grid.h"

#include "tools/emulator/run/Block.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

namespace cria::emulator {
namespace {

constexpr double kDeadlockSeconds = 1.0;
constexpr size_t kMaxResident = 256;

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void add(SegmentRanges &ranges, SegmentRange next) {
  if (!ranges.empty() && ranges.back().high == next.low)
    ranges.back().high = next.high;
  else
    ranges.push_back(next);
}

/// Unused blocks, with their stacks and shadows.
class BlockPool {
public:
  std::unique_ptr<Block> take() {
    std::lock_guard<std::mutex> lock(mutex);
    if (free.empty())
      return std::make_unique<Block>();
    auto block = std::move(free.back());
    free.pop_back();
    return block;
  }
  void give(Cluster::Blocks blocks) {
    std::lock_guard<std::mutex> lock(mutex);
    for (auto &block : blocks)
      if (free.size() < 64)
        free.push_back(std::move(block));
  }

private:
  std::mutex mutex;
  std::vector<std::unique_ptr<Block>> free;
};

BlockPool &blockPool() {
  static auto *pool = new BlockPool; // must outlive threads of other libraries
  return *pool;
}

} // namespace

static uint64_t nextId() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

Grid::Grid(const Launch &launch)
    : launch(launch), id(nextId()), began(now()),
      total(launch.grid.total() / launch.cluster.total()) {
  if (launch.checks.global)
    races = std::make_unique<GlobalRaces>(*launch.memory, launch.grid.total(),
                                          (launch.block.total() + 31) / 32);
  if (launch.cooperative)
    std::memset(reinterpret_cast<void *>(launch.memory->gridWorkspace()), 0, 8);
  if (launch.seed == 0 || total < 2)
    return;
  Random random(launch.seed);
  offset = random.next() % total;
  do
    multiplier = random.next() % std::min<uint64_t>(total, UINT32_MAX);
  while (std::gcd(multiplier, total) != 1);
}

Dim Grid::clusterAt(uint64_t number) const {
  uint64_t i =
      uint64_t(((unsigned __int128)number * multiplier + offset) % total);
  uint32_t x = launch.grid.x / launch.cluster.x,
           y = launch.grid.y / launch.cluster.y;
  return {uint32_t(i % x), uint32_t(i / x % y), uint32_t(i / x / y)};
}

double Grid::seconds() const { return now() - began; }

void Grid::stop(Finding found) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!finding)
    finding = std::move(found);
  isStopped = true;
}

LaunchResult Grid::run() {
  uint64_t count = std::min<uint64_t>(std::max(launch.workers, 1u), total);
  for (uint64_t i = 0; i < count; ++i)
    workers.push_back(std::make_unique<Worker>());
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i < count; ++i)
    threads.emplace_back([this, i] { work(*workers[i]); });
  work(*workers[0]);
  for (std::thread &thread : threads)
    thread.join();
  LaunchResult result;
  result.finding = finding;
  for (auto &worker : workers)
    result.counts.add(worker->counts);
  for (auto &[block, text] : printed)
    result.printed += text;
  LaunchTrace &trace = result.trace;
  if (races)
    trace.own = races->range();
  trace.beforeWait = launch.beforeWait;
  trace.afterWait = launch.afterWait;
  trace.hasWaited = hasWaited || !launch.overlaps;
  trace.waitedFirst = waitedFirst || !launch.overlaps;
  return result;
}

/// Starts the next cluster of the launch in this worker; false if there is
/// none.
bool Grid::startNext(Worker &worker) {
  if (next.load() >= total || worker.resident.size() >= kMaxResident)
    return false;
  uint64_t number = next++;
  if (number >= total)
    return false;
  Cluster::Blocks blocks;
  for (uint64_t i = 0; i < launch.cluster.total(); ++i)
    blocks.push_back(blockPool().take());
  worker.resident.push_back(std::make_unique<Cluster>(
      *this, clusterAt(number), number, std::move(blocks)));
  lastProgress = now();
  return true;
}

/// Lets each resident cluster run until it ends or polls without a change.
void Grid::step(Worker &worker) {
  bool allSpin = true, anyNews = false;
  double stepBegan = now();
  for (auto &cluster : worker.resident) {
    Cluster::State state = cluster->run();
    allSpin &= state == Cluster::State::Spinning;
    anyNews |= cluster->sawNews();
    if (state != Cluster::State::Ended)
      continue;
    cluster->addCounts(worker.counts);
    blockPool().give(cluster->takeBlocks());
    cluster.reset();
    anyNews = true;
  }
  if (anyNews)
    lastProgress = now();
  auto &resident = worker.resident;
  resident.erase(std::remove(resident.begin(), resident.end(), nullptr),
                 resident.end());
  worker.spinning = allSpin && !resident.empty();
  worker.vainStep = worker.spinning ? stepBegan : 0;
}

/// Reports a deadlock if, since long before each worker's last step, no block
/// has begun, ended or seen a polled value change: then no thread will ever
/// write what they wait for. A worker in the middle of a long step may still
/// write it.
void Grid::checkProgress(const Worker &worker) {
  double since = lastProgress + kDeadlockSeconds;
  if (std::all_of(workers.begin(), workers.end(),
                  [&](auto &other) { return other->vainStep > since; }))
    worker.resident.front()->reportDeadlock();
}

void Grid::work(Worker &worker) {
  // All blocks of a cooperative launch exist before any of them runs.
  while (launch.cooperative && startNext(worker))
    ;
  while (!stopped()) {
    if (worker.resident.empty() || worker.spinning)
      if (!startNext(worker) && worker.resident.empty())
        break;
    step(worker);
    if (worker.spinning && next.load() >= total)
      checkProgress(worker);
  }
  for (auto &cluster : worker.resident)
    blockPool().give(cluster->takeBlocks());
  worker.resident.clear();
  worker.vainStep = HUGE_VAL; // no other worker waits for this one
}

/// A kernel that did not wait for earlier launches may have ended before them,
/// and so does not order them before the next launch. The next launch begins
/// when all blocks have allowed it or have ended.
void overlap(Launch &launch, const LaunchTrace &previous) {
  launch.overlaps = true;
  launch.afterWait =
      previous.hasWaited ? previous.afterWait : previous.beforeWait;
  launch.beforeWait =
      previous.waitedFirst ? previous.afterWait : previous.beforeWait;
  add(launch.beforeWait, previous.own);
}

LaunchResult runLaunch(const Launch &launch) { return Grid(launch).run(); }

} // namespace cria::emulator
