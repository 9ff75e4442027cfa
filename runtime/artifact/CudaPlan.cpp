#include "runtime/artifact/CudaPlan.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace cria::cuda {

// Bounds beyond which a manifest is wrong rather than large.
static constexpr int64_t mostBytes = int64_t(1) << 48;
static constexpr int64_t mostLayers = 1 << 12;
static constexpr int64_t mostStride = 1 << 20; // slots of a layer
static constexpr int64_t mostThreads = 1024;   // in a block, on any device
static constexpr size_t mostArguments = 512;   // 4 KiB of parameters
static constexpr size_t mostMaps = 24;         // of 128 bytes each, 3 KiB
static constexpr size_t mostSteps = 1 << 12;
static constexpr int64_t mostCode = int64_t(1) << 28;
static constexpr size_t mostSpans = 1 << 16;

uint64_t Dimension::at(int64_t tokens, int64_t logits, int64_t hidden) const {
  if (count == Fixed)
    return value;
  auto n = static_cast<uint64_t>(count == Tokens   ? tokens
                                 : count == Logits ? logits
                                                   : hidden);
  return n < from || n > to
             ? 0
             : std::max<uint64_t>((n + value - 1) / value, least);
}

uint64_t TensorMap::bytes() const {
  uint64_t last = sizes[0];
  for (size_t i = 1; i < sizes.size(); ++i)
    last += (sizes[i] - 1) * strides[i - 1];
  return last * elementBytes();
}

namespace {

/// Reads steps; knows what the indices of their arguments may be.
class Reader {
public:
  Reader(const Surroundings &around, Plan &plan) : around(around), plan(plan) {}

  void read(const JsonCursor &at);

private:
  void readImage(const JsonCursor &at);
  Entry readEntry(const JsonCursor &at);
  LaunchStep readLaunch(const JsonCursor &at, uint64_t layers, bool inLoop);
  LaunchStep readSum(const JsonCursor &at);
  Argument readArgument(const JsonCursor &at, uint64_t layers, bool inLoop);
  Argument readWeight(const JsonCursor &at, uint64_t layers, bool inLoop);
  Argument readCache(const JsonCursor &at, uint64_t layers, bool inLoop);
  Argument readPlace(const JsonCursor &at, uint64_t layers, bool inLoop);
  uint64_t bytesAt(const Argument &argument, uint64_t layers) const;

  const Surroundings &around;
  Plan &plan;
};

} // namespace

static uint64_t size(const JsonCursor &at, int64_t most = mostBytes) {
  return static_cast<uint64_t>(at.integer(0, most));
}

static uint32_t generationOf(const JsonCursor &at) {
  return static_cast<uint32_t>(at.integer(0, mostGenerations - 1));
}

/// Whether `chip` is sm_ and a number, with a letter after it at most.
static bool isChip(const std::string &chip) {
  size_t digits = 0;
  while (3 + digits < chip.size() && isdigit(chip[3 + digits]))
    ++digits;
  size_t rest = chip.size() - std::min(chip.size(), 3 + digits);
  return chip.compare(0, 3, "sm_") == 0 && digits >= 2 && digits <= 4 &&
         rest <= 1;
}

void Reader::readImage(const JsonCursor &at) {
  Image image;
  image.chip = at["chip"].string();
  image.symbol = at["symbol"].string();
  std::string format = at["format"].string();
  image.isPtx = format == "ptx";
  if (auto dependent = at.find("dependent"))
    image.dependent = dependent->boolean();
  if (auto generation = at.find("generation"))
    image.generation = generationOf(*generation);
  image.unpacked = static_cast<uint64_t>(at["unpacked"].integer(1, mostCode));
  if (auto spans = at.find("spans")) {
    int64_t last = 0;
    for (size_t i = 0, count = spans->count(mostSpans); i < count; ++i) {
      last = spans->element(i).integer(last, mostBytes);
      image.spans.push_back(static_cast<uint64_t>(last));
    }
    if (image.spans.empty() || image.spans.size() % 2)
      spans->expected("pairs of offsets");
  }
  if (!isChip(image.chip))
    at["chip"].expected("a chip such as sm_80");
  if (!image.isPtx && format != "cubin")
    at["format"].expected("ptx or cubin");
  plan.images.push_back(std::move(image));
}

static Dimension readDimension(const JsonCursor &at) {
  Dimension dimension;
  if (!at.raw().is_object()) {
    dimension.value = static_cast<uint32_t>(at.integer(0, INT32_MAX));
    return dimension;
  }
  auto tokens = at.find("tokens"), hidden = at.find("hidden");
  dimension.count = tokens   ? Dimension::Tokens
                    : hidden ? Dimension::Hidden
                             : Dimension::Logits;
  JsonCursor divisor = tokens ? *tokens : hidden ? *hidden : at["logits"];
  dimension.value = static_cast<uint32_t>(divisor.integer(1, INT32_MAX));
  for (auto [name, bound] : {std::pair("least", &dimension.least),
                             {"from", &dimension.from},
                             {"to", &dimension.to}})
    if (auto given = at.find(name))
      *bound = static_cast<uint32_t>(given->integer(0, INT32_MAX));
  return dimension;
}

Argument Reader::readWeight(const JsonCursor &at, uint64_t layers,
                            bool inLoop) {
  Argument argument = {Argument::Weight};
  argument.value = size(at["weight"]);
  auto layered = at.find("layered");
  argument.perLayer = layered && layered->boolean() ? 1 : 0;
  if (auto stride = at.find("stride"); stride && argument.perLayer)
    argument.perLayer = static_cast<uint64_t>(stride->integer(1, mostStride));
  if (argument.perLayer && !inLoop)
    at["layered"].fail("is true outside a loop");
  uint64_t last = argument.value + argument.perLayer * (layers - 1);
  if (uint64_t slots = around.slotBytes.size(); last >= slots)
    at["weight"].fail(concat({"reaches slot ", last, " of ", slots}));
  return argument;
}

Argument Reader::readCache(const JsonCursor &at, uint64_t layers, bool inLoop) {
  Argument argument = {Argument::Cache};
  argument.value = size(at["cache"]);
  if (auto bytes = at.find("layer_bytes"))
    argument.perLayer = size(*bytes);
  if (argument.perLayer && !inLoop)
    at["layer_bytes"].fail("is given outside a loop");
  if (auto offset = at.find("offset"))
    argument.offset = size(*offset);
  if (uint64_t caches = around.cacheBytes.size(); argument.value >= caches)
    at["cache"].fail(
        concat({"is ", argument.value, " of ", caches, " caches"}));
  else if (argument.offset + argument.perLayer * (layers - 1) >=
           std::max<uint64_t>(around.cacheBytes[argument.value], 1))
    at["cache"].fail(concat({"of ", layers, " layers exceeds the cache"}));
  return argument;
}

/// Numbers from `least` to `most`, `count` of them.
static std::vector<uint64_t> readNumbers(const JsonCursor &at, size_t count,
                                         int64_t least, int64_t most) {
  std::vector<uint64_t> numbers = at.sizes(count, least, most);
  if (numbers.size() != count)
    at.expected(std::to_string(count) + " numbers");
  return numbers;
}

/// A tensor map, with numbers that devices take.
static TensorMap readMap(const JsonCursor &at) {
  static constexpr size_t mostDimensions = 5;
  static constexpr int64_t mostSize = int64_t(1) << 32, mostBox = 256;
  static constexpr uint64_t rowElements = 64, unit = 16;
  TensorMap map;
  std::string type = at["dtype"].string();
  map.type = type == "u8"     ? TensorMap::Bytes
             : type == "bf16" ? TensorMap::Bfloat16
                              : TensorMap::Float16;
  if (map.type == TensorMap::Float16 && type != "f16")
    at["dtype"].expected("bf16, f16 or u8");
  size_t rank = at["sizes"].elements(mostDimensions).size();
  if (rank == 0)
    at["sizes"].fail("is empty");
  if (!at.ok())
    return map;
  map.sizes = readNumbers(at["sizes"], rank, 1, mostSize);
  map.strides = readNumbers(at["strides"], rank - 1, 1, mostSize);
  for (uint64_t size : readNumbers(at["box"], rank, 1, mostBox))
    map.box.push_back(static_cast<uint32_t>(size));
  if (!at.ok())
    return map;
  if (map.type == TensorMap::Bytes ? map.box[0] % unit != 0
                                   : map.box[0] != rowElements)
    at["box"].expected("rows of 64 floats, or of a multiple of 16 bytes");
  for (uint64_t stride : map.strides)
    if (stride * map.elementBytes() % unit)
      at["strides"].expected("multiples of 16 bytes");
  return map;
}

/// Checks a map of a paged cache: the first page, which others follow.
static void checkPages(const JsonCursor &at, const TensorMap &map,
                       uint64_t pageBytes) {
  if (map.strides.empty() || map.sizes.back() != 1 ||
      map.strides.back() * map.elementBytes() != pageBytes)
    at.fail(
        concat({"has no pages of ", pageBytes, " bytes as last dimension"}));
}

/// Bytes from the argument's address, in the last layer, to the end of the
/// weight, the cache or the arena; 0 for other memory.
uint64_t Reader::bytesAt(const Argument &argument, uint64_t layers) const {
  if (argument.kind == Argument::Arena)
    return plan.arenaBytes - argument.value;
  if (argument.kind == Argument::Cache)
    return around.cacheBytes[argument.value] - argument.offset -
           argument.perLayer * (layers - 1);
  if (argument.kind == Argument::Weight)
    return around.slotBytes[argument.value];
  return 0;
}

Argument Reader::readArgument(const JsonCursor &at, uint64_t layers,
                              bool inLoop) {
  Argument argument = readPlace(at, layers, inLoop);
  auto map = at.find("map");
  if (!map || !at.ok())
    return argument;
  argument.map = readMap(*map);
  if (!at.ok())
    return argument;
  uint64_t needed = argument.map->bytes(), room = bytesAt(argument, layers);
  if (needed > room)
    map->fail(concat({"has ", needed, " bytes, ", room, " are there"}));
  if (around.hasPages && argument.kind == Argument::Cache)
    checkPages(*map, *argument.map, around.cacheBytes[argument.value]);
  return argument;
}

Argument Reader::readPlace(const JsonCursor &at, uint64_t layers, bool inLoop) {
  if (at.find("weight"))
    return readWeight(at, layers, inLoop);
  if (at.find("cache"))
    return readCache(at, layers, inLoop);
  if (auto offset = at.find("arena")) {
    Argument argument = {Argument::Arena, size(*offset)};
    if (argument.value >= plan.arenaBytes)
      offset->fail(concat(
          {"is ", argument.value, ", beyond the arena's ", plan.arenaBytes}));
    return argument;
  }
  static constexpr struct {
    const char *name;
    Argument::Kind kind;
    bool ofBatches = false; // alone
  } named[] = {{"state", Argument::State},
               {"ids", Argument::Ids},
               {"logits", Argument::Logits},
               {"hidden", Argument::Hidden},
               {"seen", Argument::Seen},
               {"sampled", Argument::Sampled},
               {"sampling", Argument::Sampling},
               {"positions", Argument::Positions, true},
               {"pages", Argument::Pages, true},
               {"window_pages", Argument::WindowPages, true},
               {"states", Argument::States, true}};
  for (const auto &each : named)
    if ((around.hasPages || !each.ofBatches) && at.find(each.name))
      return {each.kind};
  at.expected(concat(
      {"a weight, cache, arena, state, ids, logits, seen, sampled, sampling",
       around.hasPages ? ", hidden, positions, pages, window_pages or states"
                       : " or hidden"}));
  return {Argument::State};
}

/// A sum over ranks. Its floats must fit the arena for each number of tokens
/// that a call may have.
LaunchStep Reader::readSum(const JsonCursor &at) {
  LaunchStep sum = {};
  sum.kernel = "all_reduce";
  sum.arguments = {readPlace(at["all_reduce"], 1, false)};
  sum.grid[0] = readDimension(at["rows"]);
  sum.columns = static_cast<uint64_t>(at["columns"].integer(1, INT32_MAX));
  if (!at.ok())
    return sum;
  if (!around.hasRanks)
    at["all_reduce"].fail("is in a model of one rank");
  if (sum.arguments[0].kind != Argument::Arena)
    return at["all_reduce"].expected("a place in the arena"), sum;
  uint64_t rows = sum.grid[0].at(around.chunk, around.chunk),
           needed = rows * sum.columns * sizeof(float),
           room = bytesAt(sum.arguments[0], 1);
  if (rows > INT32_MAX || needed > room)
    at["columns"].fail(
        concat({"make ", needed, " bytes, ", room, " are there"}));
  return sum;
}

LaunchStep Reader::readLaunch(const JsonCursor &at, uint64_t layers,
                              bool inLoop) {
  if (at.find("all_reduce"))
    return readSum(at);
  LaunchStep launch = {};
  launch.kernel = at["launch"].string();
  JsonCursor grid = at["grid"], block = at["block"];
  for (const JsonCursor *dimensions : {&grid, &block})
    if (dimensions->count(3) != 3)
      dimensions->expected("three dimensions");
  if (!at.ok())
    return launch;
  int64_t threads = 1;
  for (size_t i = 0; i < 3; ++i) {
    launch.grid[i] = readDimension(grid.element(i));
    launch.block[i] =
        static_cast<uint32_t>(block.element(i).integer(1, mostThreads));
    threads *= launch.block[i];
  }
  if (threads > mostThreads)
    block.fail(
        concat({"has ", threads, " threads, expected at most ", mostThreads}));
  launch.shared = static_cast<uint32_t>(at["shared"].integer(0, INT32_MAX));
  size_t maps = 0;
  for (const JsonCursor &argument : at["args"].elements(mostArguments)) {
    launch.arguments.push_back(readArgument(argument, layers, inLoop));
    maps += launch.arguments.back().map.has_value();
  }
  if (maps > mostMaps)
    at["args"].fail(
        concat({"has ", maps, " tensor maps, expected at most ", mostMaps}));
  if (auto generations = at.find("generations")) {
    launch.generations = 0;
    for (size_t i = 0, all = generations->count(mostGenerations); i < all; ++i)
      launch.generations |= 1u << generationOf(generations->element(i));
  }
  return launch;
}

Entry Reader::readEntry(const JsonCursor &at) {
  Entry entry;
  for (const JsonCursor &step : at.elements(mostSteps)) {
    EntryStep read;
    auto loop = step.find("loop");
    if (!loop) {
      read.launches.push_back(readLaunch(step, 1, false));
      entry.push_back(std::move(read));
      continue;
    }
    read.layers = static_cast<uint64_t>(loop->integer(1, mostLayers));
    for (const JsonCursor &launch : step["body"].elements(mostSteps))
      read.launches.push_back(readLaunch(launch, read.layers, true));
    entry.push_back(std::move(read));
  }
  return entry;
}

void Reader::read(const JsonCursor &at) {
  for (const JsonCursor &image : at["images"].elements(64))
    readImage(image);
  if (plan.images.empty())
    at["images"].fail("is empty");
  plan.arenaBytes = size(at["arena"]);
  if (auto zeroed = at.find("workspace_zeroed")) {
    plan.zeroedOffset = size((*zeroed)["offset"]);
    plan.zeroedBytes = size((*zeroed)["bytes"]);
    if (plan.zeroedOffset + plan.zeroedBytes > plan.arenaBytes)
      zeroed->fail(
          concat({"ends beyond the arena's ", plan.arenaBytes, " bytes"}));
  }
  JsonCursor entries = at["entries"];
  plan.prefill = readEntry(entries["prefill"]);
  plan.sample = readEntry(entries["sample"]);
  if (around.hasPages) {
    plan.batch = readEntry(entries["batch"]);
    return;
  }
  plan.decode = readEntry(entries["decode"]);
  if (around.hasEncoder)
    plan.encode = readEntry(entries["encode"]);
}

Plan readPlan(const JsonCursor &at, const Surroundings &around) {
  Plan plan;
  Reader(around, plan).read(at);
  return plan;
}

} // namespace cria::cuda
