/// Shared by the tests of the runtime: a temporary folder, checkpoints that are
/// written tensor by tensor, and an artifact whose code is a few lines of C.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/Stack.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace cria::test {

/// Whether tests try all cases of a kind: by scripts/test.sh --whole.
bool triesAll();

/// A folder that is removed with everything in it.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  /// The path of `name` in the folder.
  std::string path(const std::string &name = "") const;
  /// Writes the file `name` and returns its path.
  std::string write(const std::string &name, const std::string &bytes) const;

private:
  std::string folder;
};

/// A tensor for a test checkpoint.
struct TestTensor {
  std::string name, type; // "F32"
  std::vector<uint64_t> shape;
  std::string bytes;
};

/// The bytes of the elements of `values`.
template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return std::string(reinterpret_cast<const char *>(values.data()),
                     values.size() * sizeof(T));
}

/// A safetensors file with `header` before `data`, the length field right.
std::string safetensorsOf(const std::string &header, const std::string &data);
/// The same, `padding` spaces in the header.
std::string safetensorsOf(const std::vector<TestTensor> &tensors,
                          size_t padding = 0);

/// The weights of the fake model: "embed.weight" (5, 2) f32, element i is i;
/// "layers.N.norm.weight" (2) bf16, element i is N + i + 1, N = 0, 1.
std::vector<TestTensor> fakeTensors();

/// The manifest of the fake model, which has vocabulary 5, context 12, chunk 4.
/// After token t at position p its logits are, for v in 0 .. 4,
///   sum over the ids so far of embed[id][v % 2] and of cos[their position][0]
///     + sum over layers of norm[v % 2]
/// and its hidden state is its first two logits.
nlohmann::json fakeManifest();

/// The manifest of the fake model with a rope of two frequencies. Its logits
/// have the cosines of the second one, which a second cache keeps.
nlohmann::json fakeRotatingManifest();

/// The manifest of the fake model with KV caches in pages of 4 positions, for
/// at most 3 rows. Its context is 40 and its chunk 8; 50 is added to its logits
/// for each id so far that the batch entry ran, and an id whose embedding is
/// NaN makes them NaN.
nlohmann::json fakePagedManifest();

/// That manifest with a state, which adds to the logits the sum over the ids so
/// far of the id, or of twice the id if the batch entry ran it, times 0.75 for
/// each id after it.
nlohmann::json fakeStatesManifest();

/// The paged manifest with a second cache of the same bytes, of window pages.
/// It adds to the logits the numbers of the cache, times 1 to 2.5, at the last
/// six positions. A larger window gives the same logits; one of 40 keeps all
/// pages.
nlohmann::json fakeWindowsManifest(int64_t window = 6);

/// `manifest` with one more weight, of a slot of its own after the others: the
/// matrix `symbol`, (rows, columns), from the tensor `symbol`.weight.
nlohmann::json withMatrix(nlohmann::json manifest, const std::string &symbol,
                          uint64_t rows, uint64_t columns,
                          const std::string &type);

/// `manifest` with adapters of rank 1 in place of norms: what its code adds as
/// "layers.N.norm.weight" is the A of "layers.N.norm", a matrix (5, 2) that the
/// code does not read. An adapter's A of (1, 2), (2, 3) makes the fake model.
nlohmann::json withAdapters(nlohmann::json manifest);
/// The weights of that model.
std::vector<TestTensor> adaptedTensors();
/// Writes the adapter `name` whose As are the halves of `a`; returns its
/// folder.
std::string writeAdapter(const TemporaryFolder &folder, const std::string &name,
                         const std::vector<float> &a);

/// Those logits, with cos(p * frequency) as the table of cosines.
std::vector<float> fakeLogits(const std::vector<int32_t> &ids,
                              float frequency = 1);
/// The hidden states of all ids.
std::vector<float> fakeHidden(const std::vector<int32_t> &ids);
/// Equal but for rounding.
void expectNear(const std::vector<float> &found,
                const std::vector<float> &expected);

/// An artifact of the fake model's code and `manifest`, with a true checksum.
/// The code is C; `data`, C++, is compiled with it. `flags` go to the compiler.
std::string artifactOf(const nlohmann::json &manifest,
                       const std::string &data = "",
                       const std::string &flags = "");
/// Makes the checksum of an artifact true again.
void sealArtifact(std::string &artifact);

/// The processor time of this process, in seconds.
double processorSeconds();
/// How much longer a program may take where a sanitizer looks into it.
inline constexpr int sanitizerFactor = stackFactor > 1 ? 10 : 1;

/// A status of that code whose message contains `text`, and is one line.
testing::Matcher<Status> fails(cria_status code, const std::string &text);

} // namespace cria::test
