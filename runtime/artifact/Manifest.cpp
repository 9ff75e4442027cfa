#include "runtime/artifact/Manifest.h"

#include "runtime/Abi.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <cfloat>

namespace cria {

// Bounds beyond which a manifest is wrong rather than large.
static constexpr int64_t maxElements = int64_t(1) << 48;
static constexpr uint64_t maxTensorBytes = uint64_t(1) << 40;
static constexpr int64_t maxSlots = 1 << 20;
static constexpr int64_t maxPositions = 1 << 24;
static constexpr int64_t maxVocab = 1 << 24;
static constexpr size_t maxCpus = 64;
static constexpr int64_t maxShards = 1024;
static constexpr int64_t maxRows = 1 << 16;

std::string WeightSpec::name(uint64_t index) const {
  std::string text;
  text.reserve(pattern.size() + 16);
  size_t from = 0;
  auto put = [&](uint64_t number) {
    size_t place = pattern.find("{}", from);
    text.append(pattern, from, place - from).append(std::to_string(number));
    from = place + 2;
  };
  if (count)
    put(first + (experts ? index / experts : index));
  if (experts && !stacked)
    put(index % experts);
  return text.append(pattern, from);
}

uint64_t WeightSpec::bytes() const { return *tensorBytes(shape, type); }

Shape WeightSpec::sourceShape() const {
  Shape source = wholeShape();
  if (transposed)
    std::swap(source.end()[-1], source.end()[-2]);
  return source;
}

Shape WeightSpec::wholeShape() const {
  Shape source = shape;
  if (rows.of)
    source[0] = rows.of;
  if (columns.of)
    source[1] = columns.of;
  if (stacked)
    source.insert(source.begin(), experts);
  return source;
}

double KernelCost::bytes(int64_t position, int64_t tokens, int64_t rows) const {
  if (flopsPerLogits > 0 && rows == 0) // no logits are computed
    return 0;
  double sum = weightBytes + bytesPerToken * static_cast<double>(tokens);
  for (const Attention &row : attention) {
    int64_t keys =
        row.window ? std::min(row.window, position + 1) : position + 1;
    sum += row.bytesPerKey * static_cast<double>(keys + tokens - 1);
  }
  return sum;
}

double KernelCost::flops(int64_t position, int64_t tokens, int64_t rows) const {
  double sum = flopsPerToken * static_cast<double>(tokens) +
               flopsPerLogits * static_cast<double>(rows);
  for (const Attention &row : attention)
    for (int64_t at = position; at < position + tokens; ++at)
      sum += row.flopsPerKey *
             static_cast<double>(row.window ? std::min(row.window, at + 1)
                                            : at + 1);
  return sum;
}

std::string KernelCost::pathOf(int64_t run) const {
  std::string text = path;
  if (size_t at = text.find('*'); at != std::string::npos)
    text.replace(at, 1, std::to_string(layer + run * layerStep));
  return text;
}

void WeightSpec::setRank(uint64_t rank, uint64_t ranks) {
  if (split == Split::Rows) {
    if (!rows.of)
      rows.of = ranks * shape[0];
    rows.first += rank * shape[0];
  } else if (split == Split::Columns) {
    columns.of = ranks * shape[1];
    columns.first = rank * shape[1];
  }
}

Manifest Manifest::ofRank(int rank) const {
  Manifest result = *this;
  for (WeightSpec &weight : result.weights)
    weight.setRank(uint64_t(rank), uint64_t(shards));
  return result;
}

uint64_t Manifest::weightBytes() const {
  uint64_t total = 0;
  for (const WeightSpec &weight : weights)
    total += isShared(weight) ? 0 : weight.tensors() * weight.bytes();
  return total;
}

uint64_t Manifest::embeddingBytes() const {
  if (!embedding)
    return 0;
  const WeightSpec &table = weights[*embedding];
  return table.bytes() / table.shape[0];
}

bool Manifest::hasRopeOfLength() const {
  return std::any_of(ropes.begin(), ropes.end(),
                     [](const RopeSpec &rope) { return rope.isOfSession(); });
}

int64_t Manifest::reach() const {
  int64_t least = maxSeq;
  for (const CacheSpec &cache : caches)
    if (cache.isState)
      least = 0;
    else if (cache.window && !batch)
      least = std::min(least, int64_t(cache.shape[2]) - cache.window);
  // A session's window pages are a ring of pages.
  if (batch && batch->window)
    least = std::min(least, (batch->windowWidth - 1) * batch->page -
                                batch->window + 2);
  return least;
}

uint64_t Manifest::pageBytes(PageKind kind) const {
  uint64_t total = 0;
  for (const CacheSpec &cache : caches)
    total += cache.kind() == kind ? cache.bytes : 0;
  return total;
}

PageCounts Manifest::sessionPages() const {
  return batch ? PageCounts{batch->width, batch->windowWidth, 1} : PageCounts();
}

uint64_t Manifest::cacheBytes(size_t index) const {
  const CacheSpec &cache = caches[index];
  return cache.bytes * static_cast<uint64_t>(sessionPages().of(cache.kind()));
}

uint64_t Manifest::cacheBytes() const {
  uint64_t total = 0;
  for (size_t i = 0; i < caches.size(); ++i)
    total += cacheBytes(i);
  return total;
}

uint64_t Manifest::scratchBytes() const {
  uint64_t most = cuda ? cuda->arenaBytes : 0;
  for (const CpuCode &code : cpus)
    most = std::max(most, code.arenaBytes);
  return most;
}

namespace {

/// Fills a manifest from its JSON, field by field; the first error stays in
/// the status of the cursors.
class Reader {
public:
  explicit Reader(Manifest &manifest) : manifest(manifest) {}

  void read(const JsonCursor &root);

private:
  void readTarget(const JsonCursor &target);
  void readModel(const JsonCursor &model);
  void readWeight(const JsonCursor &at);
  void readType(const JsonCursor &at, WeightSpec &weight);
  void readSplit(const JsonCursor &at, WeightSpec &weight);
  uint64_t rowsOf(const WeightSpec &weight) const;
  void readRows(const JsonCursor &at, WeightSpec &weight);
  void readTied(const JsonCursor &at, WeightSpec &weight);
  void readName(const JsonCursor &at, WeightSpec &weight);
  void readRope(const JsonCursor &at);
  void readCache(const JsonCursor &at);
  void readCacheRopes(const JsonCursor &at, CacheSpec &cache);
  void readEmbedding(const JsonCursor &slot);
  void readBatch(const JsonCursor &at);
  cuda::Surroundings surroundings() const;
  void readCode(const JsonCursor &root);
  void readCpu(const JsonCursor &at);
  void readCosts(const JsonCursor &plan);
  void readKernelCost(const JsonCursor &at);
  void fillSlots(const JsonCursor &at, uint64_t first, uint64_t count);

  Manifest &manifest;
  std::vector<bool> filled; // by slot
  bool inPages = false;     // the caches
};

} // namespace

static uint64_t size(const JsonCursor &at, int64_t least = 0,
                     int64_t most = maxElements) {
  return static_cast<uint64_t>(at.integer(least, most));
}

static Shape readShape(const JsonCursor &at) {
  return at.sizes(8, 0, maxElements);
}

static std::vector<std::string> readStrings(const JsonCursor &at) {
  std::vector<std::string> strings;
  for (const JsonCursor &element : at.elements())
    strings.push_back(element.string());
  return strings;
}

void Reader::read(const JsonCursor &root) {
  root["format"].integer(CRIA_FORMAT_VERSION, CRIA_FORMAT_VERSION);
  manifest.compiler = root["compiler"].string();
  if (auto flags = root.find("flags"))
    manifest.flags = JsonDocument(flags->raw());
  if (auto config = root.find("config"))
    manifest.config = JsonDocument(config->raw());
  if (auto ledger = root.find("ledger"))
    for (const JsonCursor &row : ledger->elements())
      manifest.ledger.push_back({row["key"].string(), row["value"].string(),
                                 row["fate"].string(), row["note"].string()});
  readTarget(root["target"]);
  readModel(root["model"]);
  manifest.slots = size(root["slots"], 0, maxSlots);
  filled.resize(manifest.slots);
  for (const JsonCursor &weight : root["weights"].elements())
    readWeight(weight);
  // Slots of layers that do not have a weight.
  if (auto gaps = root.find("gaps"))
    for (const JsonCursor &gap : gaps->elements())
      fillSlots(gap["slot"], size(gap["slot"], 0, maxSlots),
                size(gap["count"], 0, maxSlots));
  for (const JsonCursor &rope : root["rope"].elements())
    readRope(rope);
  inPages = root.find("batch").has_value();
  for (const JsonCursor &cache : root["caches"].elements())
    readCache(cache);
  auto empty = std::find(filled.begin(), filled.end(), false);
  if (empty != filled.end())
    root["slots"].fail(
        concat({"slot ", empty - filled.begin(), " is filled by nothing"}));
  if (auto slot = root.find("embedding"))
    readEmbedding(*slot);
  if (auto batch = root.find("batch")) {
    readBatch(*batch);
    if (root.find("taps"))
      batch->fail("is beside taps, expected code without taps");
  }
  readCode(root);
  if (auto kernels = root.find("kernels"))
    manifest.kernels = readStrings(*kernels);
  if (auto plan = root.find("plan"))
    readCosts(*plan);
}

void Reader::readKernelCost(const JsonCursor &at) {
  KernelCost cost;
  cost.kernel = at["kernel"].string();
  cost.path = at["path"].string();
  cost.layer = at["layer"].integer(0, maxPositions);
  cost.layerStep = at["layer_step"].integer(0, maxPositions);
  cost.weightBytes = at["bytes"].number(0, 1e18);
  cost.bytesPerToken = at["bytes_per_token"].number(0, 1e18);
  cost.flopsPerToken = at["flops_per_token"].number(0, 1e18);
  cost.flopsPerLogits = at["flops_per_logits"].number(0, 1e18);
  for (const JsonCursor &row : at["attention"].elements())
    cost.attention.push_back({row["flops_per_key"].number(0, 1e18),
                              row["bytes_per_key"].number(0, 1e18),
                              row["window"].integer(0, maxPositions)});
  cost.f32 = at["f32"].boolean();
  manifest.kernelCosts.push_back(std::move(cost));
}

/// Reads the pages of batches. Batches compute no text anew because it grew,
/// and have no source text.
void Reader::readBatch(const JsonCursor &at) {
  BatchSpec batch;
  batch.rows = at["rows"].integer(1, maxRows);
  batch.page = at["page"].integer(1, maxPositions);
  batch.width = at["width"].integer(1, maxPositions);
  if (batch.width != (manifest.maxSeq + batch.page - 1) / batch.page)
    at["width"].expected("the pages of max_seq positions");
  if (manifest.bidirectional || manifest.encoder || manifest.hasRopeOfLength())
    at.fail("is for a decoder-only model with the rope of every text");
  if (manifest.pageBytes(PageKind::Whole) +
          manifest.pageBytes(PageKind::Window) ==
      0)
    at.fail("is for a model with KV caches");
  for (const CacheSpec &cache : manifest.caches)
    batch.window = std::max(batch.window, cache.window);
  if (batch.window)
    batch.windowWidth = batch.windowPages(std::max(manifest.chunk, batch.rows));
  for (const CacheSpec &cache : manifest.caches)
    if (cache.bytes > maxTensorBytes / static_cast<uint64_t>(batch.width))
      at["width"].fail(concat({"makes a KV cache of ", batch.width, " times ",
                               cache.bytes, " bytes, too large"}));
  manifest.batch = batch;
}

/// What the code for GPUs has to agree with.
cuda::Surroundings Reader::surroundings() const {
  cuda::Surroundings around;
  around.slotBytes.resize(manifest.slots);
  for (const WeightSpec &weight : manifest.weights)
    for (uint64_t i = 0;
         i < weight.tensors() && weight.slot + i < manifest.slots; ++i)
      around.slotBytes[weight.slot + i] = weight.bytes() * weight.following(i);
  for (const CacheSpec &cache : manifest.caches)
    around.cacheBytes.push_back(cache.bytes);
  around.chunk = manifest.chunk;
  around.hasRanks = manifest.shards > 1;
  around.hasPages = manifest.batch.has_value();
  around.hasEncoder = manifest.encoder;
  return around;
}

/// Reads the code for each device. At least one device must have code.
void Reader::readCode(const JsonCursor &root) {
  if (auto cuda = root.find("cuda"); cuda && cuda->ok())
    manifest.cuda = cuda::readPlan(*cuda, surroundings());
  if (manifest.cuda && !root.find("cpu"))
    return;
  for (const JsonCursor &code : root["cpu"].elements(maxCpus))
    readCpu(code);
  if (manifest.cpus.empty())
    root["cpu"].fail("is empty, expected code for a CPU");
}

void Reader::readCpu(const JsonCursor &at) {
  CpuCode code;
  code.cpu = at["name"].string();
  code.features = readStrings(at["features"]);
  code.prefill = at["entries"]["prefill"].string();
  (manifest.batch ? code.batch : code.decode) =
      at["entries"][manifest.batch ? "batch" : "decode"].string();
  if (manifest.encoder)
    code.encode = at["entries"]["encode"].string();
  code.arenaBytes = size(at["arena"]);
  manifest.cpus.push_back(std::move(code));
}

void Reader::readTarget(const JsonCursor &target) {
  manifest.kind = target["kind"].string();
  manifest.arch = target["arch"].string();
  manifest.os = target["os"].string();
}

void Reader::readModel(const JsonCursor &model) {
  manifest.vocabSize = model["vocab_size"].integer(1, maxVocab);
  manifest.maxSeq = model["max_seq"].integer(1, maxPositions);
  manifest.chunk = model["chunk"].integer(1, maxPositions);
  if (auto shards = model.find("shards"))
    manifest.shards = shards->integer(1, maxShards);
  manifest.logitColumns = manifest.vocabSize;
  if (auto columns = model.find("logits")) {
    manifest.logitColumns = columns->integer(1, maxVocab);
    if (manifest.logitColumns * manifest.shards != manifest.vocabSize)
      columns->fail(
          concat({"is ", manifest.logitColumns,
                  ", expected an equal part of vocab_size for each of ",
                  manifest.shards, " ranks"}));
  }
  manifest.maxPositionEmbeddings = manifest.maxSeq;
  if (auto positions = model.find("max_position_embeddings"))
    manifest.maxPositionEmbeddings = positions->integer(1, INT64_MAX);
  if (auto dtype = model.find("dtype"))
    manifest.dtype = dtype->string();
  if (auto hidden = model.find("hidden"))
    manifest.hiddenSize = hidden->integer(1, maxVocab);
  if (auto learned = model.find("learned_positions"))
    manifest.learnedPositions = learned->boolean();
  if (auto bidirectional = model.find("bidirectional"))
    manifest.bidirectional = bidirectional->boolean();
  if (auto ahead = model.find("sees_ahead"))
    manifest.seesAhead = ahead->boolean();
  if (auto front = model.find("front_rows")) {
    manifest.frontRows = front->integer(1, manifest.maxSeq);
    if (!manifest.bidirectional)
      front->expected("a model whose tokens see later tokens");
  }
  if (auto encoder = model.find("encoder"))
    manifest.encoder = encoder->boolean();
}

void Reader::fillSlots(const JsonCursor &at, uint64_t first, uint64_t count) {
  for (uint64_t slot = first; slot < first + count; ++slot) {
    if (slot >= filled.size())
      return at.fail(concat({"is slot ", slot, " of ", filled.size()}));
    if (filled[slot])
      return at.fail(concat({"fills slot ", slot, " again"}));
    filled[slot] = true;
  }
}

void Reader::readWeight(const JsonCursor &at) {
  WeightSpec weight;
  weight.symbol = at["symbol"].string();
  weight.count = size(at["count"], 0, maxSlots);
  weight.first = size(at["first"], 0, maxSlots);
  weight.shape = readShape(at["shape"]);
  weight.slot = size(at["slot"], 0, maxSlots);
  if (auto experts = at.find("experts"))
    weight.experts = size(*experts, 1, maxSlots);
  readName(at["name"], weight);
  readType(at, weight);
  if (auto split = at.find("split"))
    readSplit(*split, weight);
  if (auto rows = at.find("rows"))
    readRows(*rows, weight);
  if (auto adapter = at.find("adapter"))
    weight.adapter = adapter->boolean();
  if (auto input = at.find("input"))
    weight.input = input->boolean();
  if (auto transposed = at.find("transposed"))
    weight.transposed = transposed->boolean();
  bool isOne = !weight.experts || weight.stacked; // tensor of each layer
  if (weight.transposed &&
      (weight.shape.size() != 2 || weight.adapter || !isOne))
    at["transposed"].expected("matrices of one tensor");
  if (weight.adapter && weight.shape.size() != 2)
    at["shape"].expected("two dimensions, of an adapter's matrix");
  if (weight.adapter && isBlocked(weight.type))
    at["dtype"].expected("f32, f16 or bf16, of an adapter's matrix");
  if (weight.input &&
      (weight.shape.size() != 2 || weight.shape[0] != 1 || weight.count ||
       weight.adapter || isBlocked(weight.type)))
    at["input"].expected("one row of f32, f16 or bf16");
  if (auto tied = at.find("tied"))
    readTied(*tied, weight);
  if (weight.experts &&
      (weight.shape.size() != 2 || weight.adapter || weight.tied))
    at["experts"].expected("matrices that are not adapted or tied");
  fillSlots(at["slot"], weight.slot, weight.tensors());
  manifest.weights.push_back(std::move(weight));
}

/// Reads the name, after the numbers of layers and experts. Experts without a
/// number in the name are in one tensor.
void Reader::readName(const JsonCursor &at, WeightSpec &weight) {
  weight.pattern = at.string();
  uint64_t numbers = 0, layers = weight.count ? 1 : 0;
  for (size_t from = 0;
       (from = weight.pattern.find("{}", from)) != std::string::npos; from += 2)
    ++numbers;
  weight.stacked = weight.experts && numbers <= layers;
  if (numbers < layers)
    at.expected("a name with {} for the layer");
}

/// Reads the type, after the shape: the two together determine the size.
void Reader::readType(const JsonCursor &at, WeightSpec &weight) {
  std::optional<DType> type = weightTypeNamed(at["dtype"].string());
  weight.type = DType::F32; // so that it has a size even after an error
  if (!type)
    return at["dtype"].expected("f32, f16, bf16, q8_0, q4_0 or fp8");
  uint64_t block = blockOf(*type).elements;
  if (block > 1 && (weight.shape.size() != 2 || weight.shape[1] % block != 0))
    return at["shape"].fail(
        concat({"is ", shapeText(weight.shape),
                ", expected a matrix with rows of a multiple of ", block,
                " elements"}));
  weight.type = *type;
  std::optional<uint64_t> bytes = tensorBytes(weight.shape, *type);
  // With this bound, the sum over all weights cannot overflow 64 bits.
  if (!bytes || *bytes > maxTensorBytes)
    at["shape"].fail(concat({"is ", shapeText(weight.shape), ", too large"}));
}

/// Reads how ranks split the tensors.
void Reader::readSplit(const JsonCursor &at, WeightSpec &weight) {
  std::string dimension = at.string();
  weight.split = dimension == "cols" ? Split::Columns : Split::Rows;
  bool isMatrix = weight.shape.size() == 2;
  if (manifest.shards < 2 || (dimension != "rows" && dimension != "cols") ||
      weight.shape.empty() || (dimension == "cols" && !isMatrix))
    return at.expected("rows, or cols of a matrix, in a model of several "
                       "ranks");
  WeightSpec whole = weight;
  whole.setRank(0, uint64_t(manifest.shards));
  std::optional<uint64_t> bytes = tensorBytes(whole.sourceShape(), weight.type);
  if (!bytes || *bytes > maxTensorBytes)
    at.fail(concat({"makes ", shapeText(whole.sourceShape()), ", too large"}));
}

/// The rows of all ranks together.
uint64_t Reader::rowsOf(const WeightSpec &weight) const {
  uint64_t rows = weight.shape.empty() ? 0 : weight.shape[0];
  return weight.split == Split::Rows ? rows * uint64_t(manifest.shards) : rows;
}

/// Reads the symbol of the weight that this one is tied to: an earlier weight
/// of the same shape.
void Reader::readTied(const JsonCursor &at, WeightSpec &weight) {
  for (size_t i = 0; i < manifest.weights.size(); ++i) {
    const WeightSpec &other = manifest.weights[i];
    Shape whole = weight.shape;
    if (!whole.empty())
      whole[0] = rowsOf(weight);
    if (other.symbol == at.string() && other.shape == whole &&
        other.split == Split::None && weight.split != Split::Columns &&
        other.isWhole() && !other.tied)
      weight.tied = i;
  }
  if (!weight.tied || !weight.isWhole())
    at.expected("a single weight of the same shape in front");
}

/// Reads the slot of the embedding: a single matrix with a row for each id.
void Reader::readEmbedding(const JsonCursor &slot) {
  uint64_t wanted = size(slot);
  for (size_t i = 0; i < manifest.weights.size(); ++i)
    if (manifest.weights[i].slot == wanted)
      manifest.embedding = i;
  if (!manifest.embedding)
    return slot.fail(concat({"is ", wanted, ", no weight's slot"}));
  const WeightSpec &weight = manifest.weights[*manifest.embedding];
  if (weight.count || weight.shape.size() != 2 || !weight.shape[1] ||
      weight.shape[0] < static_cast<uint64_t>(manifest.vocabSize))
    slot.fail(concat({"is a weight of shape ", shapeText(weight.shape),
                      ", expected one matrix of a row for each id"}));
}

/// Reads which rows of each tensor are used.
void Reader::readRows(const JsonCursor &at, WeightSpec &weight) {
  weight.rows.first = size(at["first"]);
  weight.rows.of = size(at["of"]);
  uint64_t used = rowsOf(weight);
  if (used == 0 || weight.split == Split::Columns || weight.rows.of < used ||
      weight.rows.first > weight.rows.of - used)
    return at.fail(concat({"are ", used, " from ", weight.rows.first,
                           " on, of ", weight.rows.of}));
  std::optional<uint64_t> bytes =
      tensorBytes(weight.sourceShape(), weight.type);
  if (!bytes || *bytes > maxTensorBytes)
    at["of"].fail(
        concat({"makes ", shapeText(weight.sourceShape()), ", too large"}));
}

static std::vector<float> readFrequencies(const JsonCursor &at) {
  std::vector<float> frequencies;
  for (const JsonCursor &frequency : at.elements(1 << 12))
    frequencies.push_back(
        static_cast<float>(frequency.number(-FLT_MAX, FLT_MAX)));
  return frequencies;
}

/// Reads the frequencies for texts longer than `original`.
static void readLonger(const JsonCursor &at, RopeSpec &rope) {
  rope.original = size(at["original"], 1, maxPositions);
  if (auto recompute = at.find("recompute"))
    rope.recompute = recompute->boolean();
  size_t count = rope.inverseFrequencies.size();
  if (auto list = at.find("long_inv_freq")) {
    rope.longFrequencies = readFrequencies(*list);
    if (rope.longFrequencies.size() != count)
      list->expected(std::to_string(count) + " frequencies");
    return;
  }
  rope.growth = static_cast<float>(at["growth"].number(FLT_MIN, FLT_MAX));
  rope.theta = static_cast<float>(at["theta"].number(FLT_MIN, FLT_MAX));
  if (count < 2)
    at["inv_freq"].expected("two frequencies or more, as there is a growth");
}

void Reader::readRope(const JsonCursor &at) {
  RopeSpec rope;
  rope.symbol = at["symbol"].string();
  rope.slot = size(at["slot"], 0, maxSlots);
  rope.rows = size(at["rows"], 1, maxPositions);
  rope.inverseFrequencies = readFrequencies(at["inv_freq"]);
  rope.scale = static_cast<float>(at["scale"].number(-FLT_MAX, FLT_MAX));
  if (rope.rows < static_cast<uint64_t>(manifest.maxSeq))
    at["rows"].fail(concat(
        {"is ", rope.rows, ", expected at least max_seq, ", manifest.maxSeq}));
  if (at.find("original"))
    readLonger(at, rope);
  fillSlots(at["slot"], rope.slot, 2);
  manifest.ropes.push_back(std::move(rope));
}

void Reader::readCache(const JsonCursor &at) {
  CacheSpec cache;
  cache.symbol = at["symbol"].string();
  cache.bytes = size(at["bytes"]);
  cache.shape = readShape(at["shape"]);
  cache.type = at["dtype"].string();
  std::optional<DType> type = weightTypeNamed(cache.type);
  if (!type || *type == DType::FP8) // which no code reads back
    return at["dtype"].expected("f32, f16, bf16, q8_0 or q4_0");
  if (tensorBytes(cache.shape, *type) != cache.bytes)
    at["bytes"].fail(
        concat({"is ", cache.bytes, ", but ", shapeText(cache.shape), " of ",
                cache.type, " is another size"}));
  if (auto state = at.find("state"))
    cache.isState = state->boolean();
  if (auto window = at.find("window")) {
    bool hasPlaces = !cache.isState && cache.shape.size() == 4;
    int64_t most =
        !hasPlaces ? 0
        : inPages  ? manifest.maxSeq
                   : static_cast<int64_t>(cache.shape[2]) - manifest.chunk + 1;
    cache.window = window->integer(1, std::max<int64_t>(most, 0));
  }
  if (auto ropes = at.find("rope"))
    readCacheRopes(*ropes, cache);
  if (manifest.caches.size() >= 4096)
    at.fail("is one cache too many, expected at most 4096");
  manifest.caches.push_back(std::move(cache));
}

/// Reads the RoPE table of each layer and checks that the tables fit the rows.
void Reader::readCacheRopes(const JsonCursor &at, CacheSpec &cache) {
  const Shape &shape = cache.shape;
  if (shape.size() != 4 ||
      (!cache.window && shape[2] < static_cast<uint64_t>(manifest.maxSeq)))
    return at.fail("belongs to a cache of shape " + shapeText(shape) +
                   ", expected layers, heads, at least max_seq positions, and "
                   "numbers");
  for (const JsonCursor &layer : at.elements(maxSlots)) {
    int64_t last = static_cast<int64_t>(manifest.ropes.size()) - 1;
    int64_t rope = layer.integer(-1, last);
    size_t pairs = rope < 0 || rope > last
                       ? 0
                       : manifest.ropes[static_cast<size_t>(rope)]
                             .inverseFrequencies.size();
    if (2 * pairs > shape[3])
      return layer.fail("rotates " + std::to_string(2 * pairs) +
                        " numbers of " + std::to_string(shape[3]));
    cache.ropes.push_back(rope);
  }
  if (cache.ropes.size() != shape[0])
    at.expected(std::to_string(shape[0]) + " layers");
}

void Reader::readCosts(const JsonCursor &plan) {
  if (auto kernels = plan.find("kernels"))
    for (const JsonCursor &kernel : kernels->elements())
      readKernelCost(kernel);
  Costs &to = manifest.costs;
  JsonCursor decode = plan["decode"];
  to.decodeFlops = decode["flops"].number(0, 1e18);
  to.decodeWeightBytes = size(decode["weight_bytes"]);
  to.cacheBytesPerPosition = size(decode["kv_bytes_per_position"]);
  to.prefillFlopsPerToken = plan["prefill"]["flops_per_token"].number(0, 1e18);
  if (auto head = plan.find("head")) {
    to.headFlops = (*head)["flops"].number(0, 1e18);
    to.headWeightBytes = size((*head)["weight_bytes"]);
  }
}

Result<Manifest> parseManifest(std::string_view text, const std::string &file) {
  std::string where = file + ": manifest";
  Result<JsonDocument> json = parseJson(text, where);
  if (!json.ok())
    return json.status();
  Manifest manifest;
  Status status;
  Reader(manifest).read(JsonCursor(json->root(), where, status));
  if (!status.ok())
    return status;
  return manifest;
}

} // namespace cria
