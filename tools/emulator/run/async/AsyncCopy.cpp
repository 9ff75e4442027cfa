#include "tools/emulator/run/async/AsyncCopy.h"

#include "tools/emulator/run/Block.h"

#include <cstring>

using namespace cria::emulator;

namespace {

void finish(AsyncCopy &copy) {
  if (copy.done)
    return;
  copy.done = true;
  auto *target = reinterpret_cast<char *>(copy.target);
  std::memcpy(target, reinterpret_cast<void *>(copy.source), copy.valid);
  std::memset(target + copy.valid, 0, copy.bytes - copy.valid);
}

/// Makes copies whose writes become visible now.
void arrive(Thread &thread, std::vector<AsyncCopy> &copies) {
  for (AsyncCopy &copy : copies) {
    finish(copy);
    if (thread.block->launch().checks.accesses())
      thread.block->checkShared(
          thread, copy.target, copy.bytes,
          {0, copy.bytes, Shadow::Kind::Arrive, copy.line}, "cp.async");
  }
  copies.clear();
}

} // namespace

void emulatorCopyAsync(Thread *thread, void *target, void *source,
                       uint32_t bytes, uint32_t valid, int line) {
  AsyncCopy copy{uint64_t(target),
                 uint64_t(source),
                 bytes,
                 valid < bytes ? valid : bytes,
                 line,
                 false};
  Block &block = *thread->block;
  if (block.launch().checks.accesses()) {
    block.checkGlobal(*thread, copy.source, copy.valid, bytes, line,
                      "source of cp.async");
    block.checkShared(*thread, copy.target, bytes,
                      {0, bytes, Shadow::Kind::Issue, line},
                      "target of cp.async");
  }
  if (block.launch().seed && (block.random().next() & 1))
    finish(copy);
  thread->open.push_back(copy);
}

void emulatorCopyCommit(Thread *thread) {
  thread->groups.push_back(std::move(thread->open));
  thread->open.clear();
}

void emulatorCopyWait(Thread *thread, uint32_t left, uint32_t all) {
  auto &groups = thread->groups;
  while (groups.size() > left) {
    arrive(*thread, groups.front());
    groups.erase(groups.begin());
  }
  if (all)
    arrive(*thread, thread->open);
}

void emulatorCopyArrive(Thread *thread, void *mbarrier, uint32_t counts,
                        int line) {
  emulatorCopyWait(thread, 0, true);
  if (counts)
    thread->block->mbarriers().arrive({*thread, uint64_t(mbarrier), line}, {});
}
