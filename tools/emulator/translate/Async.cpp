// Asynchronous copies to shared memory.
#include "tools/emulator/translate/Emitter.h"

namespace cria::emulator {
namespace {

using llvm::Value;

/// Copies 4, 8 or 16 bytes. Bytes beyond the last operand's number are zeros.
void emitCopyAsync(Emitter &e) {
  auto &b = e.builder;
  e.has("async");
  bool aroundL1 = e.oneOf("ca|cg") == "cg";
  e.oneOf("shared|shared::cta");
  e.has("global");
  int64_t bytes = e.operand(2).value;
  if (bytes != 16 && (aroundL1 || (bytes != 4 && bytes != 8)))
    return e.fail("expected a copy of 16 bytes, with .ca also of 4 or 8");
  Value *to = e.address(e.operand(0), "shared");
  Value *from = e.address(e.operand(1), "global");
  Value *valid = e.operandCount() > 3 ? e.read32(3) : e.read32(2);
  e.countRequest(
      RequestKind::GlobalCopy, from,
      e.binary(llvm::Intrinsic::umin, valid, b.getInt32(uint32_t(bytes))));
  e.countRequest(RequestKind::SharedCopy, to, b.getInt32(uint32_t(bytes)));
  e.call("emulatorCopyAsync", b.getVoidTy(),
         {to, from, b.getInt32(uint32_t(bytes)), valid, e.line()});
}

void emitCommit(Emitter &e) {
  e.has("async");
  e.has("commit_group");
  e.call("emulatorCopyCommit", e.builder.getVoidTy(), {});
}

/// Waits until at most the given number of groups are pending; wait_all also
/// waits for copies in no group.
void emitWait(Emitter &e) {
  auto &b = e.builder;
  e.has("async");
  bool all = e.oneOf("wait_group|wait_all") == "wait_all";
  Value *groups =
      all ? b.getInt32(0) : b.getInt32(uint32_t(e.operand(0).value));
  e.call("emulatorCopyWait", b.getVoidTy(), {groups, b.getInt32(all)});
}

/// The copies that the thread has begun arrive at an mbarrier. Here they are
/// made now. Without .noinc the arrival is one more than the phase needs, so
/// nothing changes.
void emitCopyArrive(Emitter &e) {
  auto &b = e.builder;
  for (auto fixed : {"async", "mbarrier", "arrive", "b64"})
    e.has(fixed);
  bool counts = e.has("noinc");
  e.callBlocking(
      "emulatorCopyArrive", b.getVoidTy(),
      {e.address(e.operand(0), e.space()), b.getInt32(counts), e.line()});
}

constexpr Form kForms[] = {
    {"cp", "async ca|cg shared|shared::cta global ~L2::64B|L2::128B|L2::256B?",
     "mmis?", emitCopyAsync, 80},
    {"cp", "async mbarrier arrive noinc? shared|shared::cta? b64", "m",
     emitCopyArrive, 80},
    {"cp", "async commit_group", "", emitCommit, 80},
    {"cp", "async wait_group", "i", emitWait, 80},
    {"cp", "async wait_all", "", emitWait, 80},
};

} // namespace

llvm::ArrayRef<Form> asyncForms() { return kForms; }

} // namespace cria::emulator
