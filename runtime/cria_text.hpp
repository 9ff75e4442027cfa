/// cria_text.h for C++17, as cria.hpp is cria.h.
#pragma once

#include "cria.hpp"
#include "cria_text.h"

#include <cstdlib>
#include <string_view>

namespace cria {
inline namespace v1 {

/// Ids that the library has malloc'ed.
inline std::vector<int32_t> takeIds(int32_t *ids, std::size_t count) {
  std::unique_ptr<int32_t, decltype(&std::free)> owned(ids, std::free);
  return {ids, ids + count};
}

/// Texts as the library takes them; they live as long as `texts`.
inline std::vector<const char *>
pointers(const std::vector<std::string> &texts) {
  std::vector<const char *> made;
  for (const std::string &text : texts)
    made.push_back(text.c_str());
  return made;
}

/// Text to ids and back.
class Tokenizer : public Handle<cria_tokenizer, cria_tokenizer_free> {
public:
  explicit Tokenizer(const std::string &path) {
    open(cria_tokenizer_open, path.c_str());
  }

  /// With `special`, what the post-processor adds as well.
  std::vector<int32_t> encode(std::string_view text,
                              bool special = true) const {
    int32_t *ids = nullptr;
    std::size_t count = 0;
    call(cria_tokenizer_encode, get(), text.data(), text.size(), int{special},
         &ids, &count);
    return takeIds(ids, count);
  }
  /// Of a user's text, in which no special token counts.
  std::vector<int32_t> encodeText(std::string_view text,
                                  bool special = true) const {
    int32_t *ids = nullptr;
    std::size_t count = 0;
    call(cria_tokenizer_encode_text, get(), text.data(), text.size(),
         int{special}, &ids, &count);
    return takeIds(ids, count);
  }
  std::string decode(const std::vector<int32_t> &ids,
                     bool special = false) const {
    char *text = nullptr;
    call(cria_tokenizer_decode, get(), ids.data(), ids.size(), int{special},
         &text);
    return takeText(text);
  }
  /// The token of an id as the file spells it; and back.
  std::string token(int32_t id) const {
    const char *text = nullptr;
    call(cria_tokenizer_token, get(), id, &text);
    return text;
  }
  /// What an id adds to a text that has begun.
  std::string bytes(int32_t id) const {
    char *made = nullptr;
    std::size_t size = 0;
    call(cria_tokenizer_bytes, get(), id, &made, &size);
    std::unique_ptr<char, decltype(&std::free)> owned(made, std::free);
    return {made, size};
  }
  int32_t find(const std::string &token) const {
    int32_t id = 0;
    call(cria_tokenizer_find, get(), token.c_str(), &id);
    return id;
  }
  int64_t vocabSize() const {
    int64_t size = 0;
    call(cria_tokenizer_vocab_size, get(), &size);
    return size;
  }
};

/// Decodes ids one by one.
class Stream : public Handle<cria_stream, cria_stream_free> {
public:
  explicit Stream(const Tokenizer &tokenizer, bool special = false) {
    open(cria_stream_create, tokenizer.get(), int{special});
  }

  /// The first of `strings` that occurs from now on ends the text. It may begin
  /// in `prompt`, the ids before.
  void setStopStrings(const std::vector<std::string> &strings,
                      const std::vector<int32_t> &prompt = {}) {
    std::vector<const char *> texts = pointers(strings);
    call(cria_stream_set_stop_strings, get(), texts.data(), texts.size(),
         prompt.data(), prompt.size());
  }
  /// Whether the last id has completed a stop string.
  bool stopped() const { return cria_stream_stopped(get()) != 0; }

  std::string push(int32_t id) {
    const char *text = nullptr;
    call(cria_stream_push, get(), id, &text);
    return text;
  }
  std::string finish() {
    const char *text = nullptr;
    call(cria_stream_finish, get(), &text);
    return text;
  }
};

/// The texts that a model may write; `kind` is what `source` is written in.
class Grammar : public Handle<cria_grammar, cria_grammar_free> {
public:
  Grammar(const Tokenizer &tokenizer, cria_grammar_kind kind,
          std::string_view source, const std::vector<int32_t> &endIds = {}) {
    open(cria_grammar_create, tokenizer.get(), int32_t{kind}, source.data(),
         source.size(), endIds.data(), endIds.size());
  }
};

/// One text of a grammar.
class Matcher : public Handle<cria_matcher, cria_matcher_free> {
public:
  explicit Matcher(const Grammar &grammar) {
    open(cria_matcher_create, grammar.get());
  }

  /// Another matcher of the same text.
  Matcher copy() const {
    Matcher made;
    made.open(cria_matcher_copy, get());
    return made;
  }

  /// The ids that may come next, as Sampler::allow takes them.
  std::vector<uint32_t> mask(int64_t vocabSize) {
    std::vector<uint32_t> bits(static_cast<std::size_t>(vocabSize + 31) / 32);
    call(cria_matcher_mask, get(), bits.data(), bits.size());
    return bits;
  }
  /// Up to `most` ids that probably come next: Batch::propose may try them.
  std::vector<int32_t> forced(std::size_t most) {
    std::vector<int32_t> ids(most);
    std::size_t count = 0;
    call(cria_matcher_forced, get(), ids.data(), most, &count);
    ids.resize(count);
    return ids;
  }
  /// The masks after each of `ids`, one behind the other. Takes away the ids
  /// from the first one on that may not come, or after which none may.
  std::vector<uint32_t> masksAfter(std::vector<int32_t> &ids,
                                   int64_t vocabSize) const {
    auto words = static_cast<std::size_t>(vocabSize + 31) / 32;
    std::vector<uint32_t> masks(ids.size() * words);
    std::size_t count = ids.size();
    call(cria_matcher_masks_after, get(), ids.data(), &count, masks.data(),
         words);
    ids.resize(count);
    masks.resize(count * words);
    return masks;
  }
  void accept(int32_t id) { call(cria_matcher_accept, get(), id); }
  /// Whether the text so far is one of the grammar; whether nothing may follow.
  bool complete() const { return cria_matcher_complete(get()) != 0; }
  bool finished() const { return cria_matcher_finished(get()) != 0; }

private:
  Matcher() = default;
};

/// What a checkpoint says of generating text.
class Generation : public Handle<cria_generation, cria_generation_free> {
public:
  /// Ignores the keys of generation_config.json that `allowed` names.
  explicit Generation(const std::string &folder,
                      const std::vector<std::string> &allowed = {}) {
    std::vector<const char *> keys = pointers(allowed);
    open(cria_generation_open_allowing, folder.c_str(), keys.data(),
         keys.size());
  }

  /// Every known key of generation_config.json, as Markdown.
  static std::string keys() { return cria_generation_keys(); }

  cria_sampler_options options() const {
    auto options = make<cria_sampler_options>();
    call(cria_generation_options, get(), &options);
    return options;
  }
  cria_generation_limits limits() const {
    auto limits = make<cria_generation_limits>();
    call(cria_generation_get_limits, get(), &limits);
    return limits;
  }
  /// The id that begins a text.
  int32_t begin() const {
    int32_t id = 0;
    call(cria_generation_begin, get(), &id);
    return id;
  }
  std::vector<int32_t> endIds() const {
    const int32_t *ids = nullptr;
    std::size_t count = 0;
    call(cria_generation_end_ids, get(), &ids, &count);
    return {ids, ids + count};
  }
  std::vector<std::string> stopStrings() const {
    const char *const *strings = nullptr;
    std::size_t count = 0;
    call(cria_generation_stop_strings, get(), &strings, &count);
    return {strings, strings + count};
  }
  bool ends(int32_t id) const { return cria_generation_ends(get(), id) != 0; }
};

/// A template that writes a conversation as ids.
class Chat : public Handle<cria_chat, cria_chat_free> {
public:
  explicit Chat(const std::string &folder) {
    open(cria_chat_open, folder.c_str());
  }

  /// The template `source` itself.
  static Chat parse(std::string_view source) {
    Chat chat;
    chat.open(cria_chat_parse, source.data(), source.size());
    return chat;
  }

  /// `variables` is a JSON object: see cria_chat_render.
  std::string render(const std::string &variables) const {
    char *text = nullptr;
    call(cria_chat_render, get(), variables.c_str(), &text);
    return takeText(text);
  }
  std::vector<int32_t> encode(const Tokenizer &tokenizer,
                              const std::string &variables) const {
    int32_t *ids = nullptr;
    std::size_t count = 0;
    call(cria_chat_encode, get(), tokenizer.get(), variables.c_str(), &ids,
         &count);
    return takeIds(ids, count);
  }

private:
  Chat() = default;
};

} // namespace v1
} // namespace cria
