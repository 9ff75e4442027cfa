// Programs and libraries of different versions: structs that are shorter or
// longer than the library's.
#include "runtime/cria_text.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

using namespace cria::test;
using testing::HasSubstr;

namespace {

constexpr char guardByte = 0x5a;

/// A struct as a cria.h of another version has it: `size` bytes, more or
/// fewer than the library knows. The bytes after it are guarded.
template <typename Struct> class Other {
public:
  explicit Other(size_t size) : bytes(size), size(size) {
    bytes.resize(size + 64, guardByte);
    memcpy(bytes.data(), &size, sizeof(size));
  }
  Other(size_t size, const Struct &value) : Other(size) {
    size_t known = std::min(size, sizeof(Struct));
    memcpy(&bytes[sizeof(size)],
           reinterpret_cast<const char *>(&value) + sizeof(size),
           known - sizeof(size));
  }

  Struct *get() { return reinterpret_cast<Struct *>(bytes.data()); }
  /// The bytes of the struct after those that the library knows.
  char &tail(size_t index) { return bytes[sizeof(Struct) + index]; }
  /// What the library knows of it, 0 where it is shorter.
  Struct value() const {
    Struct value;
    memset(&value, 0, sizeof(value));
    memcpy(&value, bytes.data(), std::min(size, sizeof(value)));
    return value;
  }
  bool isIntact() const {
    size_t found;
    memcpy(&found, bytes.data(), sizeof(found));
    return found == size &&
           std::all_of(bytes.begin() + static_cast<ptrdiff_t>(size),
                       bytes.end(),
                       [](char byte) { return byte == guardByte; });
  }

private:
  std::vector<char> bytes; // of operator new: aligned
  size_t size;
};

class ApiStructTest : public testing::Test {
protected:
  void SetUp() override {
    CRIA_INIT(&error);
    std::string path = folder.write("x.cria", artifactOf(fakeManifest()));
    weights = folder.path();
    folder.write("model.safetensors", safetensorsOf(fakeTensors()));
    ASSERT_EQ(cria_artifact_open(path.c_str(), &artifact, &error), CRIA_OK)
        << error.message;
    ASSERT_EQ(cria_model_bind(artifact, weights.c_str(), &model, &error),
              CRIA_OK);
    ASSERT_EQ(cria_session_create(model, nullptr, &session, &error), CRIA_OK);
  }
  void TearDown() override {
    cria_artifact_free(&artifact);
    cria_model_free(&model);
    cria_session_free(&session);
  }

  TemporaryFolder folder;
  std::string weights;
  cria_error error;
  cria_artifact *artifact = nullptr;
  cria_model *model = nullptr;
  cria_session *session = nullptr;
};

/// The last field that a struct of `size` bytes has, as an end in bytes.
#define END_OF(type, field) (offsetof(type, field) + sizeof(type::field))

/// Calls `call(struct, error)`, which reads or writes a Struct, with structs of
/// sizes that are wrong, and with longer ones.
template <typename Struct, typename Call>
void checkSizes(const Struct &valid, Call call) {
  cria_error error;
  CRIA_INIT(&error);
  for (size_t size : {size_t(0), size_t(7), sizeof(Struct) - 1,
                      sizeof(Struct) + 4, size_t(4104), SIZE_MAX - 7}) {
    Struct given = valid;
    given.size = size;
    EXPECT_EQ(call(&given, &error), CRIA_INVALID_ARGUMENT) << size;
    EXPECT_THAT(error.message,
                HasSubstr("->size is " + std::to_string(size) + ", expected " +
                          std::to_string(sizeof(Struct))));
  }
  for (size_t more : {size_t(8), size_t(64), size_t(1024)}) {
    Other<Struct> longer(sizeof(Struct) + more, valid);
    EXPECT_EQ(call(longer.get(), &error), CRIA_OK) << error.message;
    EXPECT_TRUE(longer.isIntact());
    for (size_t at : {size_t(0), more - 1}) {
      Other<Struct> asking(sizeof(Struct) + more, valid);
      asking.tail(at) = 1;
      EXPECT_EQ(call(asking.get(), &error), CRIA_INVALID_ARGUMENT) << at;
      EXPECT_THAT(error.message,
                  HasSubstr("has " + std::to_string(sizeof(Struct) + more) +
                            " bytes and sets some after the " +
                            std::to_string(sizeof(Struct)) +
                            " that Cria 1.0.0 knows"));
      EXPECT_TRUE(asking.isIntact());
    }
  }
}

/// Calls `call(struct, error)`, which writes a Struct, with shorter ones: what
/// they have is as in `whole`, what they lack is not written.
template <typename Struct, typename Call>
void checkShorterResults(const Struct &whole, Call call) {
  for (size_t size = sizeof(size_t); size < sizeof(Struct);
       size += alignof(Struct)) {
    cria_error error;
    CRIA_INIT(&error);
    Other<Struct> shorter(size);
    EXPECT_EQ(call(shorter.get(), &error), CRIA_OK) << error.message;
    EXPECT_TRUE(shorter.isIntact()) << size;
    Struct found = shorter.value();
    EXPECT_EQ(memcmp(reinterpret_cast<char *>(&found) + sizeof(size_t),
                     reinterpret_cast<const char *>(&whole) + sizeof(size_t),
                     size - sizeof(size_t)),
              0)
        << size;
  }
}

} // namespace

TEST_F(ApiStructTest, ArtifactInfo) {
  auto call = [&](cria_artifact_info *info, cria_error *error) {
    return cria_artifact_get_info(artifact, info, error);
  };
  cria_artifact_info info;
  CRIA_INIT(&info);
  checkSizes(info, call);
  ASSERT_EQ(call(&info, &error), CRIA_OK);
  EXPECT_EQ(info.size, sizeof(info));
  checkShorterResults(info, call);
}

TEST_F(ApiStructTest, ModelInfo) {
  auto call = [&](cria_model_info *info, cria_error *error) {
    return cria_model_get_info(model, info, error);
  };
  cria_model_info info;
  CRIA_INIT(&info);
  checkSizes(info, call);
  ASSERT_EQ(call(&info, &error), CRIA_OK);
  EXPECT_GT(info.mapped_bytes + info.copied_bytes, 0u);
  checkShorterResults(info, call);
}

TEST_F(ApiStructTest, SessionTimings) {
  int32_t ids[] = {1, 2, 3};
  ASSERT_EQ(
      cria_session_feed(session, ids, 3, CRIA_LOGITS_NONE, nullptr, 0, &error),
      CRIA_OK);
  auto call = [&](cria_session_timings *timings, cria_error *error) {
    return cria_session_get_timings(session, timings, error);
  };
  cria_session_timings timings;
  CRIA_INIT(&timings);
  checkSizes(timings, call);
  ASSERT_EQ(call(&timings, &error), CRIA_OK);
  EXPECT_EQ(timings.prefill_tokens, 3);
  checkShorterResults(timings, call);
}

TEST_F(ApiStructTest, GenerationOptions) {
  auto call = [&](cria_sampler_options *options, cria_error *error) {
    return cria_generation_options(nullptr, options, error);
  };
  cria_sampler_options options;
  CRIA_INIT(&options);
  checkSizes(options, call);
  ASSERT_EQ(call(&options, &error), CRIA_OK);
  EXPECT_EQ(options.temperature, 1);
  checkShorterResults(options, call);
}

TEST_F(ApiStructTest, SamplerOptions) {
  auto call = [](cria_sampler_options *options, cria_error *error) {
    cria_sampler *sampler = nullptr;
    cria_status status = cria_sampler_create(options, 5, &sampler, error);
    EXPECT_EQ(sampler != nullptr, status == CRIA_OK);
    cria_sampler_free(&sampler);
    return status;
  };
  cria_sampler_options options;
  CRIA_INIT(&options);
  checkSizes(options, call);
  // A wrong value is refused where the struct has it, and not seen elsewhere.
  options.repetition_penalty = -1;
  size_t end = END_OF(cria_sampler_options, repetition_penalty);
  for (size_t size = sizeof(size_t); size <= sizeof(options); size += 8) {
    Other<cria_sampler_options> other(size, options);
    EXPECT_EQ(call(other.get(), &error),
              size < end ? CRIA_OK : CRIA_INVALID_ARGUMENT)
        << size;
  }
}

TEST_F(ApiStructTest, SessionOptions) {
  auto call = [&](cria_session_options *options, cria_error *error) {
    cria_session *made = nullptr;
    cria_status status = cria_session_create(model, options, &made, error);
    EXPECT_EQ(made != nullptr, status == CRIA_OK);
    cria_session_free(&made);
    return status;
  };
  cria_session_options options;
  CRIA_INIT(&options);
  checkSizes(options, call);
  options.threads = -1;
  EXPECT_EQ(call(&options, &error), CRIA_INVALID_ARGUMENT);
  Other<cria_session_options> shorter(sizeof(size_t), options);
  EXPECT_EQ(call(shorter.get(), &error), CRIA_OK) << error.message;
}

TEST_F(ApiStructTest, ModelOptions) {
  auto call = [&](cria_model_options *options, cria_error *error) {
    cria_model *made = nullptr;
    cria_status status = cria_model_load(artifact, options, &made, error);
    EXPECT_EQ(made != nullptr, status == CRIA_OK);
    cria_model_free(&made);
    return status;
  };
  cria_model_options options;
  CRIA_INIT(&options);
  checkSizes(options, call);
  options.weights = weights.c_str();
  options.device = 77;
  size_t end = END_OF(cria_model_options, device);
  for (size_t size = sizeof(size_t); size <= sizeof(options); size += 8) {
    Other<cria_model_options> other(size, options);
    EXPECT_EQ(call(other.get(), &error),
              size < end ? CRIA_OK : CRIA_INVALID_ARGUMENT)
        << size;
  }
}

// Adapters are a list: each begins where the size of the first says.
TEST_F(ApiStructTest, Adapters) {
  cria_lora lora;
  CRIA_INIT(&lora);
  lora.folder = "/nowhere/adapter";
  lora.scale = 1;
  cria_model_options options;
  CRIA_INIT(&options);
  options.weights = weights.c_str();
  options.lora_count = 2;
  auto load = [&](const void *loras) {
    options.loras = static_cast<const cria_lora *>(loras);
    cria_model *made = nullptr;
    cria_status status = cria_model_load(artifact, &options, &made, &error);
    cria_model_free(&made);
    return status;
  };
  cria_lora two[2] = {lora, lora};
  EXPECT_EQ(load(two), CRIA_NOT_FOUND) << error.message;

  struct Longer {
    cria_lora known;
    uint64_t later;
  } longer[2] = {{lora, 0}, {lora, 0}};
  longer[0].known.size = longer[1].known.size = sizeof(Longer);
  EXPECT_EQ(load(longer), CRIA_NOT_FOUND) << error.message;
  EXPECT_THAT(error.message, HasSubstr("/nowhere/adapter"));
  longer[1].later = 1;
  EXPECT_EQ(load(longer), CRIA_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("lora has 32 bytes and sets some"));
  longer[1].later = 0;
  longer[1].known.size = sizeof(cria_lora);
  EXPECT_EQ(load(longer), CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message,
               "loras[1].size is 24, expected that of loras[0], 32");

  // Without a scale nobody knows what is meant.
  struct Shorter {
    size_t size;
    const char *folder;
  } shorter[2] = {{sizeof(Shorter), "one"}, {sizeof(Shorter), "two"}};
  EXPECT_EQ(load(shorter), CRIA_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("one: lora->scale is 0, expected 1"));
}

TEST_F(ApiStructTest, Errors) {
  // Without room for a status, for a message, for all of it.
  for (size_t size = sizeof(size_t); size <= sizeof(cria_error); size += 8) {
    Other<cria_error> other(size);
    EXPECT_EQ(cria_artifact_open(nullptr, &artifact, other.get()),
              CRIA_INVALID_ARGUMENT);
    EXPECT_TRUE(other.isIntact()) << size;
    cria_error found = other.value();
    if (size >= END_OF(cria_error, status)) {
      EXPECT_EQ(found.status, CRIA_INVALID_ARGUMENT) << size;
    }
    std::string message = "path is NULL";
    if (size > offsetof(cria_error, message)) {
      message.resize(
          std::min(message.size(), size - offsetof(cria_error, message) - 1));
      EXPECT_EQ(found.message, message) << size;
    }
  }
  Other<cria_error> longer(sizeof(cria_error) + 1024);
  EXPECT_EQ(cria_artifact_open(nullptr, &artifact, longer.get()),
            CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(longer.get()->message, "path is NULL");
  EXPECT_TRUE(longer.isIntact());
  longer.tail(0) = 1;
  memset(longer.get()->message, 0, sizeof(cria_error::message));
  cria_artifact_info info;
  CRIA_INIT(&info);
  EXPECT_EQ(cria_artifact_get_info(artifact, &info, longer.get()),
            CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(longer.get()->message, "");
  EXPECT_EQ(info.vocab_size, 0) << "the call did something";
}

TEST_F(ApiStructTest, ErrorsEndBetweenCharacters) {
  // Of two bytes each: an odd or an even number of them fits.
  for (const char *first : {"", "x"}) {
    std::string path = first;
    while (path.size() < 2000)
      path += "\u00e9";
    cria_artifact *none = nullptr;
    EXPECT_NE(cria_artifact_open(path.c_str(), &none, &error), CRIA_OK);
    std::string message = error.message;
    EXPECT_GE(message.size(), sizeof(error.message) - 2);
    EXPECT_EQ(message.substr(message.size() - 2), "\u00e9");
  }
}

// A program that was compiled with an older cria.h, whose structs end earlier.
TEST_F(ApiStructTest, ServesAnOldProgram) {
  struct OldError {
    size_t size;
    cria_status status;
    char message[252];
  } oldError;
  struct OldInfo {
    size_t size;
    int64_t vocab_size;
    int64_t max_seq;
  } info;
  struct OldModelOptions {
    size_t size;
    const char *weights;
    uint64_t seed;
    int32_t device;
  } options;
  struct OldSampler {
    size_t size;
    double temperature;
    int64_t top_k;
  } sampling;
  CRIA_INIT(&oldError);
  CRIA_INIT(&info);
  CRIA_INIT(&options);
  CRIA_INIT(&sampling);
  auto *asError = reinterpret_cast<cria_error *>(&oldError);
  ASSERT_EQ(
      cria_artifact_get_info(
          artifact, reinterpret_cast<cria_artifact_info *>(&info), asError),
      CRIA_OK);
  EXPECT_EQ(info.vocab_size, 5);
  EXPECT_EQ(info.max_seq, 12);
  options.weights = weights.c_str();
  options.device = CRIA_DEVICE_CPU;
  cria_model *made = nullptr;
  ASSERT_EQ(cria_model_load(artifact,
                            reinterpret_cast<cria_model_options *>(&options),
                            &made, asError),
            CRIA_OK)
      << oldError.message;
  cria_model_free(&made);
  sampling.temperature = 1;
  cria_sampler *sampler = nullptr;
  ASSERT_EQ(
      cria_sampler_create(reinterpret_cast<cria_sampler_options *>(&sampling),
                          5, &sampler, asError),
      CRIA_OK)
      << oldError.message;
  float logits[5] = {1, 2, 3, 2, 1};
  int32_t id = -1;
  EXPECT_EQ(cria_sampler_sample(sampler, logits, &id, asError), CRIA_OK);
  EXPECT_TRUE(id >= 0 && id < 5);
  cria_sampler_free(&sampler);
  options.device = 77;
  EXPECT_EQ(cria_model_load(artifact,
                            reinterpret_cast<cria_model_options *>(&options),
                            &made, asError),
            CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(oldError.message, "device is 77, no cria_device");
}
