/// A build for models that no processes share.
#include "runtime/ranks/JoinRanks.h"
#include "runtime/ranks/SharedVocabulary.h"

namespace cria {

static Status without() {
  return Status(CRIA_UNIMPLEMENTED, "this build of libcria knows no ranks");
}

Result<const CriaRanks *> joinRanks() { return without(); }

void leaveRanks() {}

WaitForRanks::WaitForRanks(int64_t) : isOuter(false) {}

WaitForRanks::~WaitForRanks() = default;

Status agreeRanks(const CriaRanks &, const RankFacts &) { return without(); }

Result<std::unique_ptr<Backend>>
shareVocabulary(std::unique_ptr<Backend>, const CriaRanks &, const Manifest &) {
  return without();
}

} // namespace cria
