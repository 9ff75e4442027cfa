/// The BPE model of a tokenizer.json: vocabulary, merges, and what becomes of
/// characters that are in neither.
#pragma once

#include "runtime/Json.h"
#include "runtime/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria {

/// Ids of a tokenizer are below this: what refers to them stays small, whatever
/// the file says.
constexpr int64_t maxTokenIds = 1 << 21;

/// Byte-pair encoding of one word. Lookups are binary searches: no text and no
/// file can make them slow.
class BpeModel {
public:
  /// Reads the member "model", whose cursor notes errors in `status`. Refuses
  /// what it would have to ignore.
  static BpeModel read(const JsonCursor &model, const Status &status);

  /// Appends the ids of `word`, which is valid UTF-8. O(n log n).
  void encode(std::string_view word, std::vector<int32_t> &ids) const;

  /// The id of a token of the vocabulary, if it is one.
  std::optional<int32_t> find(std::string_view token) const;

  /// The token with this id, or nullptr.
  const std::string *token(int64_t id) const;

  /// The number of tokens; ids may be larger where there are holes.
  size_t size() const { return vocabulary.size(); }

  /// One more than the largest id.
  int64_t idLimit() const { return static_cast<int64_t>(byId.size()); }

private:
  struct Merge {
    uint64_t pair; // left id << 32 | right id
    int32_t rank;  // its place in the list: lower merges first
    int32_t id;    // of the merged token
  };
  struct Symbol {
    int32_t id;
    int32_t previous, next; // neighbours in the word, -1 at its ends
    bool gone;              // merged into its left neighbour
  };

  void readVocabulary(const JsonCursor &vocab, const Status &status);
  void readMerges(const JsonCursor &list, const Status &status);
  int32_t readMergeToken(const JsonCursor &list, size_t index,
                         const std::string &token) const;
  void readUnknown(const JsonCursor &model);
  const Merge *findMerge(int32_t left, int32_t right) const;
  std::vector<Symbol> split(std::string_view word) const;
  bool splitBytes(std::string_view character, std::vector<Symbol> &word) const;
  void merge(std::vector<Symbol> &word) const;

  std::vector<std::pair<std::string, int32_t>> vocabulary; // by token
  std::vector<int32_t> byId;    // index into the vocabulary, -1 where no token
  std::vector<Merge> merges;    // by pair
  std::vector<int32_t> byteIds; // of "<0x00>" .. "<0xFF>", -1 where missing
  int32_t unknownId = -1;
  bool fuseUnknown = false;
  bool ignoreMerges = false;
};

} // namespace cria
