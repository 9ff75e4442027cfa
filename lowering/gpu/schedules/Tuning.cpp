#include "lowering/gpu/schedules/Tuning.h"

#include "lowering/support/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace cria;
using namespace cria::simt;
using llvm::StringRef;

/// Threads of a multiprocessor.
static constexpr int64_t kThreads = 2048;
/// Shared memory of a block: an A100 has room for two.
static constexpr int64_t kTileMemory = 81 << 10;

/// A number of the table: its row and name, and the values that it may have.
struct Tuning::Column {
  StringRef row, name;
  int64_t *value;
  int64_t least, most;

  std::string path() const { return (row + "." + name).str(); }
};

llvm::SmallVector<Tuning::Column, 0> Tuning::columns() {
  constexpr int64_t kBlocks = 1 << 16;
  llvm::SmallVector<Column, 0> all = {{"gemv", "rows", &gemvRows, 1, 8}};
  for (auto [row, sizes] : {std::pair("gemv_floats", &gemvFloats),
                            {"gemv_blocks", &gemvBlocks},
                            {"gemv_floats_bulk", &gemvFloatsBulk}})
    all.append({{row, "threads", &sizes->threads, 32, 1024},
                {row, "warp_rows", &sizes->warpRows, 1, 8},
                {row, "warps", &sizes->warps, 1, kBlocks},
                {row, "ahead", &sizes->ahead, 1, 64},
                {row, "turns", &sizes->turns, 1, 16},
                {row, "resident", &sizes->resident, 1, 32}});
  all.push_back({"gemv_floats_bulk", "grain", &gemvFloatsBulk.grain, 1, 8});
  all.append({{"gemm", "whole_tiles", &splits.wholeTiles, 1, kBlocks},
              {"gemm", "most_splits", &splits.most, 1, 8},
              {"gemm", "least_terms", &splits.leastTerms, 32, kBlocks},
              {"gemm", "split_blocks", &splits.blocks, 1, kBlocks}});
  for (auto [row, tile] : llvm::zip_equal(
           std::array{"gemm_few", "gemm_some", "gemm_many"}, tiles)) {
    bool isLast = &tile == &tiles.back();
    if (!isLast)
      all.push_back({row, "rows", &tile.rows, 1, 4096});
    all.append({{row, "m", &tile.m, 32, 256},
                {row, "n", &tile.n, 32, 256},
                {row, "split_blocks", &tile.splitBlocks, 1, kBlocks}});
    if (!isLast)
      all.push_back({row, "cluster_blocks", &tile.clusterBlocks, 1, kBlocks});
    all.append({{row, "stages", &tile.stages, 2, 16},
                {row, "terms", &tile.terms, 32, 64},
                {row, "warps_down", &tile.warpsDown, 1, 4},
                {row, "resident", &tile.resident, 1, 16}});
  }
  all.append({{"gemm_grouped", "m", &grouped.m, 32, 256},
              {"gemm_grouped", "n", &grouped.n, 32, 256},
              {"gemm_grouped", "stages", &grouped.stages, 2, 16},
              {"gemm_grouped", "terms", &grouped.terms, 32, 64},
              {"gemm_grouped", "warps_down", &grouped.warpsDown, 1, 4},
              {"gemm_grouped", "resident", &grouped.resident, 1, 16}});
  all.append(
      {{"gemm_warpgroups", "blocks", &warpgroups.blocks, 2, kBlocks},
       {"gemm_warpgroups", "stages", &warpgroups.stages, 2, 16},
       {"gemm_warpgroups", "wide", &warpgroups.wide, 128, 256},
       {"gemm_warpgroups", "narrow", &warpgroups.narrow, 128, 256},
       {"gemm_warpgroups", "wide_terms", &warpgroups.wideTerms, 32, kBlocks},
       {"gemm_warpgroups", "wide_splits", &warpgroups.wideSplits, 1, 8},
       {"attention_decode", "keys_per_split", &decode.keysPerSplit, 16, 4096},
       {"attention_decode", "batch_tokens", &decode.batchTokens, 1, 256},
       {"attention_scan", "blocks", &scan.blocks, 1, kBlocks},
       {"attention_scan", "ahead", &scan.ahead, 1, 8},
       {"attention_scan_tile", "blocks", &scanTile.blocks, 1, kBlocks},
       {"attention_scan_tile", "deep_blocks", &scanTile.deepBlocks, 1, kBlocks},
       {"attention_scan_tile", "deep_keys", &scanTile.deepKeys, 16, 4096},
       {"attention_scan_tile", "heads", &scanTile.heads, 1, 16},
       {"attention_scan_tile", "resident", &scanTile.resident, 1, 16},
       {"attention_prompt", "rows", &prompt.rows, 16, 256},
       {"attention_warpgroups", "keys", &promptWarpgroups.keys, 64, 128},
       {"attention_warpgroups", "stages", &promptWarpgroups.stages, 2, 8},
       {"recurrence", "tokens", &recurrence.tokens, 1, 64},
       {"recurrence_chunks", "columns", &recurrenceChunks.columns, 16, 32},
       {"recurrence_chunks", "warps", &recurrenceChunks.warps, 1, 16}});
  return all;
}

llvm::Error Tuning::set(StringRef path, int64_t value) {
  auto all = columns();
  auto found =
      llvm::find_if(all, [&](const Column &it) { return it.path() == path; });
  if (found == all.end())
    return textError("unknown number '" + shownText(path) + "'");
  if (value < found->least || value > found->most)
    return textError(path + ": expected " + llvm::Twine(found->least) + " to " +
                     llvm::Twine(found->most) + ", got " + llvm::Twine(value));
  *found->value = value;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// What numbers must be together
//===----------------------------------------------------------------------===//

static llvm::Error checkGemv(StringRef row, const GemvSizes &sizes) {
  if (!llvm::isPowerOf2_64(sizes.warpRows))
    return textError(row + ".warp_rows: expected 1, 2, 4 or 8, got " +
                     llvm::Twine(sizes.warpRows));
  if (sizes.threads % 32)
    return textError(row + ".threads: expected a multiple of 32, got " +
                     llvm::Twine(sizes.threads));
  if (sizes.threads * sizes.resident > kThreads)
    return textError(row + ": expected at most " + llvm::Twine(kThreads) +
                     " threads * resident, got " +
                     llvm::Twine(sizes.threads * sizes.resident));
  return llvm::Error::success();
}

/// Warps have products of 16 x 8, two at least side by side, whose number is a
/// power of two; rows of a stage are copied 32 at a time.
static llvm::Error checkTile(StringRef row, const TileSizes &tile) {
  if (!llvm::isPowerOf2_64(tile.warpsDown))
    return textError(row + ".warps_down: expected 1, 2 or 4, got " +
                     llvm::Twine(tile.warpsDown));
  int64_t down = std::max<int64_t>(32, 16 * tile.warpsDown),
          across = std::max<int64_t>(32, 16 * (4 / tile.warpsDown));
  if (tile.m % down)
    return textError(row + ".m: expected a multiple of " + llvm::Twine(down) +
                     " with warps_down=" + llvm::Twine(tile.warpsDown) +
                     ", got " + llvm::Twine(tile.m));
  if (tile.n % across || !llvm::isPowerOf2_64(tile.n))
    return textError(row + ".n: expected a power of two and a multiple of " +
                     llvm::Twine(across) +
                     " with warps_down=" + llvm::Twine(tile.warpsDown) +
                     ", got " + llvm::Twine(tile.n));
  constexpr int64_t kSums = 128; // of a thread, in registers
  if (tile.m * tile.n / 128 > kSums)
    return textError(row + ": expected m * n to be at most " +
                     llvm::Twine(kSums * 128) +
                     ", whose sums fit registers, "
                     "got " +
                     llvm::Twine(tile.m * tile.n));
  if (tile.terms != 32 && tile.terms != 64)
    return textError(row + ".terms: expected 32 or 64, got " +
                     llvm::Twine(tile.terms));
  int64_t bytes = tile.stages * (tile.m + tile.n) * 2 * tile.terms;
  if (bytes > kTileMemory)
    return textError(row + ": expected at most " + llvm::Twine(kTileMemory) +
                     " bytes of shared memory, got stages * (m + n) * 2 * "
                     "terms = " +
                     llvm::Twine(bytes));
  if (tile.resident * 128 > kThreads)
    return textError(row + ".resident: expected at most " +
                     llvm::Twine(kThreads / 128) + ", got " +
                     llvm::Twine(tile.resident));
  return llvm::Error::success();
}

static llvm::Error checkWarpgroups(const WarpgroupSizes &sizes) {
  for (auto [name, n] :
       {std::pair("wide", sizes.wide), {"narrow", sizes.narrow}})
    if (n != 128 && n != 256)
      return textError("gemm_warpgroups." + llvm::Twine(name) +
                       ": expected 128 or 256, got " + llvm::Twine(n));
  if (sizes.narrow > sizes.wide)
    return textError("gemm_warpgroups.narrow: expected at most wide=" +
                     llvm::Twine(sizes.wide) + ", got " +
                     llvm::Twine(sizes.narrow));
  if (sizes.blocks % 2)
    return textError("gemm_warpgroups.blocks: expected an even number, got " +
                     llvm::Twine(sizes.blocks));
  int64_t bytes = sizes.stages * (128 + sizes.wide) * 128;
  if (bytes > kLaunchedMemory)
    return textError("gemm_warpgroups: expected at most " +
                     llvm::Twine(kLaunchedMemory) +
                     " bytes of shared memory, got stages * (128 + wide) * "
                     "128 = " +
                     llvm::Twine(bytes));
  return llvm::Error::success();
}

static llvm::Error checkPrompt(const PromptWarpgroupSizes &sizes) {
  if (sizes.keys != 64 && sizes.keys != 128)
    return textError("attention_warpgroups.keys: expected 64 or 128, got " +
                     llvm::Twine(sizes.keys));
  int64_t bytes = (128 + 2 * sizes.stages * sizes.keys) * 128 * 2;
  if (bytes > kLaunchedMemory)
    return textError("attention_warpgroups: expected at most " +
                     llvm::Twine(kLaunchedMemory) +
                     " bytes of shared memory for heads of 128, got (128 + 2 * "
                     "stages * keys) * 256 = " +
                     llvm::Twine(bytes));
  return llvm::Error::success();
}

llvm::Error Tuning::check() const {
  for (auto [row, sizes] : {std::pair("gemv_floats", &gemvFloats),
                            {"gemv_floats_bulk", &gemvFloatsBulk},
                            {"gemv_blocks", &gemvBlocks}})
    if (llvm::Error error = checkGemv(row, *sizes))
      return error;
  for (auto [row, tile] :
       llvm::zip_equal(std::array{"gemm_few", "gemm_some", "gemm_many"}, tiles))
    if (llvm::Error error = checkTile(row, tile))
      return error;
  if (llvm::Error error = checkTile("gemm_grouped", grouped))
    return error;
  if (tiles[0].rows >= tiles[1].rows)
    return textError("gemm_some.rows: expected more than gemm_few.rows=" +
                     llvm::Twine(tiles[0].rows) + ", got " +
                     llvm::Twine(tiles[1].rows));
  if (llvm::Error error = checkWarpgroups(warpgroups))
    return error;
  if (prompt.rows % 16)
    return textError("attention_prompt.rows: expected a multiple of 16, got " +
                     llvm::Twine(prompt.rows));
  for (auto [name, size] : {std::pair("columns", recurrenceChunks.columns),
                            {"warps", recurrenceChunks.warps}})
    if (!llvm::isPowerOf2_64(size))
      return textError("recurrence_chunks." + llvm::Twine(name) +
                       ": expected a power of two, got " + llvm::Twine(size));
  return checkPrompt(promptWarpgroups);
}

//===----------------------------------------------------------------------===//
// Texts
//===----------------------------------------------------------------------===//

llvm::Expected<Tuning> Tuning::readFile(StringRef path) {
  constexpr uint64_t kMost = 1 << 20;
  auto text = readTextFile(path, kMost);
  if (!text)
    return text.takeError();
  auto inFile = [&](llvm::Error error) {
    return textError(path + ": " + llvm::toString(std::move(error)));
  };
  auto file = parseJsonObject(*text);
  if (!file)
    return inFile(file.takeError());
  Tuning result;
  for (const auto &[row, numbers] : file->items()) {
    if (!numbers.is_object())
      return textError(path + ": " + shownText(row) +
                       ": expected an object, got " + shownJson(numbers));
    for (const auto &[name, value] : numbers.items()) {
      std::string number = row + "." + name;
      if (!value.is_number_integer())
        return textError(path + ": " + shownText(number) +
                         ": expected a whole number, got " + shownJson(value));
      constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
      if (value.is_number_unsigned() && value.get<uint64_t>() > kLargest)
        return textError(path + ": " + shownText(number) + ": " +
                         shownJson(value) + " is out of range");
      if (llvm::Error error = result.set(number, value.get<int64_t>()))
        return inFile(std::move(error));
    }
  }
  if (llvm::Error error = result.check())
    return inFile(std::move(error));
  return result;
}

std::string Tuning::json() const {
  Tuning copy = *this;
  std::string text = "{";
  StringRef row;
  for (const Column &it : copy.columns()) {
    if (it.row != row)
      text += (row.empty() ? "\n" : "},\n") + ("  \"" + it.row + "\": {").str();
    else
      text += ", ";
    row = it.row;
    text += llvm::formatv("\"{0}\": {1}", it.name, *it.value);
  }
  return text + "}\n}\n";
}

std::string Tuning::changes() const {
  Tuning copy = *this, defaults;
  llvm::SmallVector<std::string> changed;
  for (auto [mine, its] : llvm::zip_equal(copy.columns(), defaults.columns()))
    if (*mine.value != *its.value)
      changed.push_back(mine.path() + "=" + llvm::itostr(*mine.value));
  return llvm::join(changed, ",");
}

llvm::Expected<Tuning> Tuning::readChanges(StringRef text) {
  Tuning result;
  for (StringRef change : llvm::split(text, ',')) {
    auto [name, number] = change.split('=');
    int64_t value;
    if (change.empty())
      continue;
    if (number.getAsInteger(10, value))
      return textError(shownText(change) + ": expected NAME=NUMBER");
    if (llvm::Error error = result.set(name, value))
      return error;
  }
  if (llvm::Error error = result.check())
    return error;
  return result;
}
