#include "test/runtime/Fixtures.h"

#include "runtime/Abi.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

namespace cria::test {

namespace fs = std::filesystem;

bool triesAll() { return std::getenv("CRIA_TEST_WHOLE") != nullptr; }

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "cria-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    throw std::runtime_error("cannot make a temporary folder");
  folder = pattern;
}

TemporaryFolder::~TemporaryFolder() { fs::remove_all(folder); }

std::string TemporaryFolder::path(const std::string &name) const {
  return name.empty() ? folder : folder + "/" + name;
}

std::string TemporaryFolder::write(const std::string &name,
                                   const std::string &bytes) const {
  std::ofstream(path(name), std::ios::binary) << bytes;
  return path(name);
}

std::string safetensorsOf(const std::string &header, const std::string &data) {
  uint64_t length = header.size();
  std::string file(reinterpret_cast<const char *>(&length), sizeof(length));
  return file + header + data;
}

std::string safetensorsOf(const std::vector<TestTensor> &tensors,
                          size_t padding) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const TestTensor &tensor : tensors) {
    header[tensor.name] = {
        {"dtype", tensor.type},
        {"shape", tensor.shape},
        {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  return safetensorsOf(header.dump() + std::string(padding, ' '), data);
}

/// Small whole numbers as bf16.
static std::vector<uint16_t> bf16Of(const std::vector<float> &values) {
  std::vector<uint16_t> result;
  for (float value : values) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    result.push_back(static_cast<uint16_t>(bits >> 16));
  }
  return result;
}

std::vector<TestTensor> fakeTensors() {
  std::vector<float> embedding = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  return {
      {"embed.weight", "F32", {5, 2}, bytesOf(embedding)},
      {"layers.0.norm.weight", "BF16", {2}, bytesOf(bf16Of({1, 2}))},
      {"layers.1.norm.weight", "BF16", {2}, bytesOf(bf16Of({2, 3}))},
  };
}

nlohmann::json fakeManifest() {
  return nlohmann::json::parse(R"({
    "format": 17, "compiler": "cria test", "flags": {"cpu": "native"},
    "target": {"kind": "cpu", "arch": "x86_64", "os": "linux"},
    "config": null,
    "model": {"vocab_size": 5, "max_seq": 12, "chunk": 4, "hidden": 2},
    "cpu": [{"name": "x86-64", "features": ["sse3"], "arena": 64,
             "entries": {"prefill": "fake_prefill", "decode": "fake_decode"}}],
    "slots": 5, "embedding": 0,
    "weights": [
      {"symbol": "embed", "name": "embed.weight", "count": 0, "first": 0,
       "shape": [5, 2], "dtype": "f32", "slot": 0},
      {"symbol": "norm", "name": "layers.{}.norm.weight", "count": 2,
       "first": 0, "shape": [2], "dtype": "bf16", "slot": 1}],
    "rope": [{"symbol": "rope", "slot": 3, "rows": 12, "inv_freq": [1.0],
              "scale": 1.0}],
    "caches": [{"symbol": "k", "bytes": 48, "shape": [12], "dtype": "f32"}],
    "kernels": ["fake_decode"],
    "plan": {"decode": {"flops": 20, "weight_bytes": 48,
                        "kv_bytes_per_position": 4},
             "prefill": {"flops_per_token": 20}}
  })");
}

nlohmann::json fakeRotatingManifest() {
  nlohmann::json manifest = fakeManifest();
  manifest["rope"][0]["inv_freq"] = {1.0, 0.5};
  nlohmann::json rotated = manifest["caches"][0];
  rotated["symbol"] = "rotated";
  manifest["caches"].push_back(rotated);
  manifest["cpu"][0]["entries"] = {{"prefill", "fake_rotating"},
                                   {"decode", "fake_rotating"}};
  return manifest;
}

nlohmann::json fakePagedManifest() {
  nlohmann::json manifest = fakeManifest();
  manifest["model"].update({{"max_seq", 40}, {"chunk", 8}});
  manifest["batch"] = {{"rows", 3}, {"page", 4}, {"width", 10}};
  manifest["rope"][0]["rows"] = 40;
  manifest["caches"][0].update({{"bytes", 16}, {"shape", {4}}});
  manifest["cpu"][0]["entries"] = {{"prefill", "fake_paged_prefill"},
                                   {"batch", "fake_batch"}};
  return manifest;
}

nlohmann::json fakeStatesManifest() {
  nlohmann::json manifest = fakePagedManifest();
  manifest["caches"].push_back({{"symbol", "state"},
                                {"bytes", 4},
                                {"shape", {1}},
                                {"dtype", "f32"},
                                {"state", true}});
  manifest["cpu"][0]["entries"] = {{"prefill", "fake_states_prefill"},
                                   {"batch", "fake_states_batch"}};
  return manifest;
}

nlohmann::json fakeWindowsManifest(int64_t window) {
  nlohmann::json manifest = fakePagedManifest();
  manifest["caches"].push_back({{"symbol", "keys"},
                                {"bytes", 16},
                                {"shape", {1, 1, 4, 1}},
                                {"dtype", "f32"},
                                {"window", window}});
  return manifest;
}

nlohmann::json withMatrix(nlohmann::json manifest, const std::string &symbol,
                          uint64_t rows, uint64_t columns,
                          const std::string &type) {
  uint64_t slot = manifest["slots"];
  manifest["weights"].push_back({{"symbol", symbol},
                                 {"name", symbol + ".weight"},
                                 {"count", 0},
                                 {"first", 0},
                                 {"shape", {rows, columns}},
                                 {"dtype", type},
                                 {"slot", slot}});
  manifest["slots"] = slot + 1;
  return manifest;
}

std::vector<float> fakeLogits(const std::vector<int32_t> &ids,
                              float frequency) {
  std::vector<float> logits;
  float sums[2] = {};
  for (size_t position = 0; position < ids.size(); ++position) {
    for (int v = 0; v < 2; ++v)
      sums[v] += static_cast<float>(ids[position] * 2 + v) +
                 std::cos(static_cast<float>(position) * frequency);
    for (int v = 0; v < 5; ++v)
      logits.push_back(sums[v % 2] + static_cast<float>(3 + 2 * (v % 2)));
  }
  return logits;
}

nlohmann::json withAdapters(nlohmann::json manifest) {
  nlohmann::json matrix = manifest["weights"][1], &a = manifest["weights"][1];
  uint64_t slots = manifest["slots"];
  a.update({{"symbol", "norm_lora_A"},
            {"name", "layers.{}.norm.lora_A.weight"},
            {"shape", {1, 2}},
            {"adapter", true}});
  nlohmann::json b = a;
  b.update({{"symbol", "norm_lora_B"},
            {"name", "layers.{}.norm.lora_B.weight"},
            {"shape", {5, 1}},
            {"slot", slots}});
  matrix.update({{"shape", {5, 2}}, {"slot", slots + 2}});
  manifest["weights"].push_back(b);
  manifest["weights"].push_back(matrix);
  manifest["slots"] = slots + 4;
  return manifest;
}

std::vector<TestTensor> adaptedTensors() {
  std::vector<TestTensor> tensors = fakeTensors();
  for (size_t i : {1, 2}) {
    tensors[i].shape = {5, 2};
    tensors[i].bytes = bytesOf(std::vector<uint16_t>(10, 0));
  }
  return tensors;
}

std::string writeAdapter(const TemporaryFolder &folder, const std::string &name,
                         const std::vector<float> &a) {
  fs::create_directories(folder.path(name));
  folder.write(name + "/adapter_config.json",
               R"({"peft_type": "LORA", "r": 1, "lora_alpha": 1})");
  std::vector<TestTensor> tensors;
  for (int layer : {0, 1}) {
    std::string module =
        "base_model.model.layers." + std::to_string(layer) + ".norm";
    std::vector<float> half(a.begin() + layer * 2, a.begin() + layer * 2 + 2);
    tensors.push_back(
        {module + ".lora_A.weight", "F32", {1, 2}, bytesOf(half)});
    tensors.push_back({module + ".lora_B.weight",
                       "F32",
                       {5, 1},
                       bytesOf(std::vector<float>(5, 1))});
  }
  folder.write(name + "/adapter_model.safetensors", safetensorsOf(tensors));
  return folder.path(name);
}

std::vector<float> fakeHidden(const std::vector<int32_t> &ids) {
  std::vector<float> logits = fakeLogits(ids), hidden;
  for (size_t i = 0; i < logits.size(); i += 5)
    hidden.insert(hidden.end(), {logits[i], logits[i + 1]});
  return hidden;
}

void expectNear(const std::vector<float> &found,
                const std::vector<float> &expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-4) << i;
}

// The cache holds the ids; the arena the sums over layers, by v % 2. In pages,
// ids that the batch entry ran are negative, less one; a NaN stands for an id
// whose embedding is one. All of a page is read, as compiled code does.
static constexpr char fakeSource[] = R"(
#include "runtime/Abi.h"
struct Work {
  const int32_t *ids; int64_t position, first, hidden_first, source;
  float *logits, *hidden, *cache, *bias; const void *const *slots;
};
static float widen(uint16_t bits) {
  union { uint32_t bits; float value; } both = {(uint32_t)bits << 16};
  return both.value;
}
static void token(void *context, int64_t begin, int64_t end) {
  struct Work *work = context;
  const float *embed = work->slots[0], *cosine = work->slots[3];
  for (int64_t t = begin; t < end; ++t)
    for (int v = 0; v < 5; ++v) {
      int64_t position = work->position + t;
      float sum = work->bias[v % 2] + 100 * work->source;
      for (int64_t p = 0; p <= position; ++p)
        sum += embed[(int)work->cache[p] * 2 + v % 2] + cosine[p];
      if (t >= work->first)
        work->logits[(t - work->first) * 5 + v] = sum;
      if (t >= work->hidden_first && v < 2)
        work->hidden[(t - work->hidden_first) * 2 + v] = sum;
    }
}
void fake_prefill(const int32_t *ids, int64_t tokens, int64_t position,
                  int64_t first, int64_t hidden_first, int64_t source,
                  float *logits, float *hidden, void *const *caches,
                  void *arena, const void *const *slots, const CriaHost *host) {
  struct Work work = {ids,    position, first,     hidden_first, source,
                      logits, hidden,   caches[0], arena,        slots};
  for (int i = 0; i < 2; ++i)
    work.bias[i] = widen(((const uint16_t *)slots[1])[i]) +
                   widen(((const uint16_t *)slots[2])[i]);
  for (int64_t t = 0; t < tokens; ++t)
    work.cache[position + t] = (float)ids[t];
  host->parallel_for(host, token, &work, tokens);
}
void fake_decode(const int32_t *ids, int64_t tokens, int64_t position,
                 int64_t first, int64_t hidden_first, int64_t source,
                 float *logits, float *hidden, void *const *caches,
                 void *arena, const void *const *slots, const CriaHost *host) {
  fake_prefill(ids, tokens, position, first, tokens, source, logits, 0, caches,
               arena, slots, host);
}
void fake_rotating(const int32_t *ids, int64_t tokens, int64_t position,
                   int64_t first, int64_t hidden_first, int64_t source,
                   float *logits, float *hidden, void *const *caches,
                   void *arena, const void *const *slots,
                   const CriaHost *host) {
  const float *cosine = slots[3];
  const void *own[5] = {slots[0], slots[1], slots[2], caches[1], slots[4]};
  for (int64_t p = position; p < position + tokens; ++p)
    ((float *)caches[1])[p] = cosine[p * 2 + 1];
  fake_prefill(ids, tokens, position, first, tokens, source, logits, 0, caches,
               arena, own, host);
}
void fake_encode(const int32_t *ids, int64_t tokens, int64_t position,
                 int64_t first, int64_t hidden_first, int64_t source,
                 float *logits, float *hidden, void *const *caches,
                 void *arena, const void *const *slots, const CriaHost *host) {
  float *cache = caches[0];
  cache[0] = position + first + source; // nothing that the others read
}
static void put(float *cache, const int32_t *table, int64_t position, int id,
                int decodes, const float *embed) {
  cache[table[position / 4] * 4 + position % 4] =
      embed[id * 2] * 0 + (decodes ? -1 - id : id);
}
static void row(const float *cache, const int32_t *table, int64_t position,
                const float *bias, const void *const *slots, float *logits) {
  const float *embed = slots[0], *cosine = slots[3];
  for (int v = 0; v < 5; ++v) {
    float sum = bias[v % 2];
    for (int64_t p = 0; p < (position / 4 + 1) * 4; ++p) {
      float value = cache[table[p / 4] * 4 + p % 4];
      int id = value != value ? 0 : value < 0 ? -1 - value : value;
      float term = embed[id * 2 + v % 2] + cosine[p] + (value < 0 ? 50 : 0);
      sum += (p <= position ? term : 0) + value * 0;
    }
    logits[v] = sum;
  }
}
static float inWindow(const float *cache, const int32_t *table,
                      int64_t position) {
  float sum = 0;
  for (int64_t p = 0; p < (position / 4 + 1) * 4; ++p) {
    float value = cache[table[p / 4] * 4 + p % 4];
    sum += value * (p > position - 6 && p <= position ? 1 + p % 7 * 0.25f : 0);
  }
  return sum;
}
static void paged(const int32_t *ids, int64_t rows, const int32_t *positions,
                  const int32_t *pages, const int32_t *windows,
                  const int32_t *states, int64_t first, int64_t hidden_first,
                  int64_t source, float *logits, float *hidden,
                  void *const *caches, void *arena, const void *const *slots,
                  int isBatch) {
  float *bias = arena;
  for (int i = 0; i < 2; ++i)
    bias[i] = widen(((const uint16_t *)slots[1])[i]) +
              widen(((const uint16_t *)slots[2])[i]) + 100 * source;
  for (int64_t r = 0; r < rows; ++r) {
    const int32_t *table = isBatch ? pages + r * 10 : pages;
    int64_t position = isBatch ? positions[r] : positions[0] + r;
    put(caches[0], table, position, ids[r], isBatch, slots[0]);
    if (r >= first)
      row(caches[0], table, position, bias, slots, logits + (r - first) * 5);
    if (windows) {
      const int32_t *own = isBatch ? windows + r * 10 : windows;
      put(caches[1], own, position, ids[r], isBatch, slots[0]);
      float sum = inWindow(caches[1], own, position);
      for (int v = 0; r >= first && v < 5; ++v)
        logits[(r - first) * 5 + v] += sum;
    }
    if (states) {
      float *all = caches[1], state = 0;
      const int32_t *own = isBatch || r == 0 ? states + r * 2 : 0;
      state = position == 0 ? 0 : all[own ? own[0] : states[1]];
      state = state * 0.75f + (isBatch ? 2 : 1) * ids[r];
      all[own ? own[1] : states[1]] = state;
      for (int v = 0; r >= first && v < 5; ++v)
        logits[(r - first) * 5 + v] += state;
    }
    if (r >= hidden_first) {
      float all[5];
      row(caches[0], table, position, bias, slots, all);
      hidden[(r - hidden_first) * 2] = all[0];
      hidden[(r - hidden_first) * 2 + 1] = all[1];
    }
  }
}
#define ENTRY(name, given, isBatch)                                            \
  void name(const int32_t *ids, int64_t rows, const int32_t *positions,        \
            const int32_t *pages, const int32_t *windows,                      \
            const int32_t *states, int64_t first, int64_t hidden_first,        \
            int64_t source, float *logits, float *hidden,                      \
            void *const *caches, void *arena, const void *const *slots,        \
            const CriaHost *host) {                                            \
    paged(ids, rows, positions, pages, windows, given, first, hidden_first,    \
          source, logits, hidden, caches, arena, slots, isBatch);              \
  }
ENTRY(fake_paged_prefill, 0, 0)
ENTRY(fake_batch, 0, 1)
ENTRY(fake_states_prefill, states, 0)
ENTRY(fake_states_batch, states, 1)
)";

/// The fake model's code and `data` as a shared object such as cria-compile
/// makes: bound when it is linked, and without notes for the system.
static std::string compileFake(const std::string &data,
                               const std::string &flags) {
  TemporaryFolder folder;
  std::string source = folder.write("fake.c", fakeSource);
  // gnu++ knows raw strings; the symbols are C's.
  std::string extra =
      folder.write("data.cpp", "extern \"C\" {\nextern " + data + "\n}\n");
  std::string object = folder.path("fake.so");
  std::string command = "cc -shared -fPIC -O1 -nostdlib -fcf-protection=none "
                        "-Wl,-Bsymbolic-functions -I'" CRIA_SOURCE_FOLDER
                        "' -o '" +
                        object + "' '" + source + "'" +
                        (data.empty() ? "" : " '" + extra + "'") + " " + flags;
  if (std::system(command.c_str()) != 0)
    throw std::runtime_error("cannot compile the fake model: " + command);
  std::ifstream stream(object, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

/// The same, each compiled once.
static const std::string &fakeCode(const std::string &data,
                                   const std::string &flags) {
  static std::map<std::pair<std::string, std::string>, std::string> compiled;
  auto found = compiled.find({data, flags});
  if (found == compiled.end())
    found = compiled.emplace(std::pair(data, flags), compileFake(data, flags))
                .first;
  return found->second;
}

void sealArtifact(std::string &artifact) {
  uint64_t covered = artifact.size() - sizeof(uint64_t);
  uint64_t sum = criaFnv1a64(CRIA_FNV_OFFSET, artifact.data(), covered);
  memcpy(artifact.data() + covered, &sum, sizeof(sum));
}

std::string artifactOf(const nlohmann::json &manifest, const std::string &data,
                       const std::string &flags) {
  const std::string &code = fakeCode(data, flags);
  std::string text = manifest.dump();
  CriaFooter footer = {};
  memcpy(footer.magic, CRIA_FOOTER_MAGIC, sizeof(footer.magic));
  footer.format_version = CRIA_FORMAT_VERSION;
  footer.footer_size = sizeof(footer);
  footer.manifest_offset = code.size();
  footer.manifest_size = text.size();
  std::string artifact = code + text;
  artifact.resize((artifact.size() + 7) / 8 * 8); // the footer is aligned
  footer.file_size = artifact.size() + sizeof(footer);
  artifact.append(reinterpret_cast<const char *>(&footer), sizeof(footer));
  sealArtifact(artifact);
  return artifact;
}

double processorSeconds() {
  return static_cast<double>(clock()) / CLOCKS_PER_SEC;
}

testing::Matcher<Status> fails(cria_status code, const std::string &text) {
  using namespace testing;
  return AllOf(Property("code", &Status::code, code),
               Property("message", &Status::message,
                        AllOf(HasSubstr(text), Not(HasSubstr("\n")))));
}

} // namespace cria::test
