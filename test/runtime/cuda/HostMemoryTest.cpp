/// The host runs out of memory, at every allocation in turn.
#include "test/runtime/cuda/Fixtures.h"

#include <cstdlib>
#include <new>

using namespace cria;
using namespace cria::test;

/// The allocation of this thread that fails, counted down; 0: none.
static thread_local int64_t failing = 0;

// Where this program, with the runtime in it, begins and ends.
extern "C" const char __executable_start, etext;

// The emulated driver and the C++ library allocate here as well: what they
// cannot handle does not happen to them.
void *operator new(size_t size) {
  auto *caller = static_cast<const char *>(__builtin_return_address(0));
  bool ours = caller >= &__executable_start && caller < &etext;
  if (ours && failing > 0 && --failing == 0)
    throw std::bad_alloc();
  if (void *memory = malloc(size ? size : 1))
    return memory;
  throw std::bad_alloc();
}

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void operator delete(void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }

namespace {

class CudaHostMemoryTest : public CudaTest {
protected:
  /// Loads and feeds; allocation `nth` fails. False where it did.
  bool survives(int64_t nth, std::vector<float> &logits) {
    failing = nth;
    try {
      auto model =
          Model::load(artifact, {weights, 0}, {DeviceKind::Emulated, false});
      EXPECT_TRUE(model.ok()) << model.status().message();
      auto session = Session::create(*model, 0);
      EXPECT_TRUE(session.ok()) << session.status().message();
      for (int i = 0; i < 2; ++i)
        EXPECT_TRUE((*session)
                        ->feed(&ids[i], 1, CRIA_LOGITS_LAST, &logits[i * 5])
                        .ok());
      EXPECT_TRUE(
          (*session)->feed(&ids[2], 7, CRIA_LOGITS_ALL, &logits[10]).ok());
    } catch (const std::bad_alloc &) {
      failing = 0;
      return false;
    }
    failing = 0;
    return true;
  }

  std::string weights = folder.path();
};

} // namespace

TEST_F(CudaHostMemoryTest, EveryAllocationMayFail) {
  std::vector<float> logits(45);
  int64_t nth = 1;
  while (!survives(nth, logits))
    // All of the first ones, then ever fewer: there are thousands.
    nth += 1 + nth / 64;
  EXPECT_GT(nth, 100);
  expectNear(logits, fakeLogits(ids));
  expectWorks();
}
