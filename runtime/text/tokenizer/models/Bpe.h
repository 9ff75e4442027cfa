/// The BPE model: characters, merged pair by pair.
#pragma once

#include "runtime/text/tokenizer/models/Model.h"

#include <string>

namespace cria {

/// Byte-pair encoding of one word. A merge is found by a binary search among
/// the merges with its left token: no text and no file can make that slow.
class BpeModel : public TokenModel {
public:
  /// See TokenModel::read.
  static std::unique_ptr<const TokenModel> read(const JsonCursor &model);

  /// O(n log n).
  Status encode(std::string_view word, std::vector<int32_t> &ids,
                Effort &effort) const override;

private:
  struct Merge {
    int32_t left, right; // ids
    int32_t rank;        // its place in the list: lower merges first
    int32_t id;          // of the merged token
  };
  struct Symbol {
    int32_t id;
    int32_t previous, next; // neighbours in the word, -1 at its ends
    bool gone;              // merged into its left neighbour
  };

  void readMerges(const JsonCursor &list);
  int32_t readMergeToken(const JsonCursor &list, size_t index,
                         const std::string &token) const;
  void indexMerges(const JsonCursor &list);
  const Merge *findMerge(int32_t left, int32_t right) const;
  std::vector<int32_t> split(std::string_view word) const;
  void merge(std::vector<Symbol> &word) const;

  std::vector<Merge> merges;        // by left, then right
  std::vector<uint32_t> firstMerge; // by left id; one more at the end
  int32_t unknownId = -1;
  ByteTokens bytes;
  bool fuseUnknown = false;
  bool ignoreMerges = false;
};

} // namespace cria
