/// cria_text.h for C++17, as cria.hpp is cria.h.
#pragma once

#include "cria.hpp"
#include "cria_text.h"

#include <cstdlib>
#include <string_view>

namespace cria {
inline namespace v1 {

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
    std::unique_ptr<int32_t, decltype(&std::free)> owned(ids, std::free);
    return {ids, ids + count};
  }
  std::string decode(const std::vector<int32_t> &ids,
                     bool special = false) const {
    char *text = nullptr;
    call(cria_tokenizer_decode, get(), ids.data(), ids.size(), int{special},
         &text);
    std::unique_ptr<char, decltype(&std::free)> owned(text, std::free);
    return text;
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

/// What a checkpoint says of generating text.
class Generation : public Handle<cria_generation, cria_generation_free> {
public:
  explicit Generation(const std::string &folder) {
    open(cria_generation_open, folder.c_str());
  }

  cria_sampler_options options() const {
    auto options = make<cria_sampler_options>();
    call(cria_generation_options, get(), &options);
    return options;
  }
  bool ends(int32_t id) const { return cria_generation_ends(get(), id) != 0; }
};

/// A template that writes a conversation as ids.
class Chat : public Handle<cria_chat, cria_chat_free> {
public:
  explicit Chat(const std::string &folder) {
    open(cria_chat_open, folder.c_str());
  }

  /// `variables` is a JSON object: see cria_chat_render.
  std::vector<int32_t> encode(const Tokenizer &tokenizer,
                              const std::string &variables) const {
    int32_t *ids = nullptr;
    std::size_t count = 0;
    call(cria_chat_encode, get(), tokenizer.get(), variables.c_str(), &ids,
         &count);
    std::unique_ptr<int32_t, decltype(&std::free)> owned(ids, std::free);
    return {ids, ids + count};
  }
};

} // namespace v1
} // namespace cria
