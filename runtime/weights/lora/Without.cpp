// In place of the wing, in a build without it.
#include "runtime/weights/lora/Lora.h"

#include <cstring>

namespace cria {

namespace {

/// A matrix in which no adapter is kept.
class Zeros : public Elements {
public:
  Status write(uint64_t, uint64_t count, DType type,
               std::byte *to) const override {
    memset(to, 0, bytesOf(type, count));
    return Status();
  }
};

} // namespace

static Result<Loras> refuse(const std::vector<LoraSource> &sources) {
  if (sources.empty())
    return Loras();
  return Status(CRIA_UNIMPLEMENTED,
                sources.front().folder +
                    ": this build of libcria reads no LoRA adapters");
}

Result<Loras> Loras::open(const WeightSource &source, const Manifest &) {
  return refuse(source.loras);
}

Result<Loras> Loras::openKept(const std::vector<LoraSource> &sources,
                              const Manifest &) {
  return refuse(sources);
}

Status Loras::read() { return Status(); }

Status Loras::replaceIn(Checkpoint &) const { return Status(); }

bool Loras::haveSaved() const { return false; }

bool Loras::change(const std::string &) const { return false; }

bool Loras::changeAny() const { return false; }

ElementsPtr Loras::merged(const std::string &, ElementsPtr x) const {
  return x;
}

ElementsPtr Loras::kept(const WeightSpec &, uint64_t) const {
  return std::make_unique<Zeros>();
}

} // namespace cria
