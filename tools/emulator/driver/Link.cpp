// Links: several PTX texts to one module. What they give as machine code is an
// image of the texts, which this driver loads.
#include "tools/emulator/ptx/Link.h"
#include "tools/emulator/driver/Module.h"

using namespace cria::emulator;

struct CUlinkState_st {
  PtxTexts texts;
  std::string image; ///< after cuLinkComplete
  JitLog log;        ///< of the options of cuLinkCreate
};

namespace {

Handles<CUlinkState_st> &links() {
  static Handles<CUlinkState_st> handles("a link");
  return handles;
}

const char *nameOf(CUjitInputType type) {
  switch (int(type)) {
  case CU_JIT_INPUT_OBJECT:
    return "an object file";
  case CU_JIT_INPUT_LIBRARY:
    return "a library of object files";
  case CU_JIT_INPUT_NVVM:
    return "NVVM IR";
  default:
    return "an unknown type of input";
  }
}

CUresult add(Driver &driver, CUlinkState state, CUjitInputType type,
             const std::string &data, JitLog log) {
  bool isImage = type == CU_JIT_INPUT_PTX || type == CU_JIT_INPUT_CUBIN ||
                 int(type) == CU_JIT_INPUT_FATBINARY;
  if (!isImage) {
    std::string message =
        "expected PTX or a fat binary, got " + std::string(nameOf(type));
    log.error(message);
    driver.reportMisuse(message);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  auto texts = readImage(data.c_str(), log);
  if (auto *result = std::get_if<CUresult>(&texts))
    return *result;
  for (std::string &text : std::get<PtxTexts>(texts))
    state->texts.push_back(std::move(text));
  return CUDA_SUCCESS;
}

} // namespace

extern "C" {

CUresult cuLinkCreate_v2(unsigned count, CUjit_option *options, void **values,
                         CUlinkState *state) {
  ENTER(Context);
  if (!state || (count && (!options || !values)))
    return CUDA_ERROR_INVALID_VALUE;
  *state = links().make();
  (*state)->log = JitLog(count, options, values);
  return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data,
                          size_t bytes, const char *, unsigned count,
                          CUjit_option *options, void **values) {
  ENTER(Context);
  if (CUresult result = driver.check(links(), state))
    return result;
  if (!data || !bytes || (count && (!options || !values)))
    return CUDA_ERROR_INVALID_VALUE;
  return add(driver, state, type,
             std::string(static_cast<const char *>(data), bytes),
             count ? JitLog(count, options, values) : state->log);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type,
                          const char *path, unsigned count,
                          CUjit_option *options, void **values) {
  ENTER(Context);
  if (CUresult result = driver.check(links(), state))
    return result;
  if (!path || (count && (!options || !values)))
    return CUDA_ERROR_INVALID_VALUE;
  auto data = readFile(path);
  if (auto *result = std::get_if<CUresult>(&data))
    return *result;
  return add(driver, state, type, std::get<std::string>(data),
             count ? JitLog(count, options, values) : state->log);
}

CUresult cuLinkComplete(CUlinkState state, void **image, size_t *bytes) {
  ENTER(Context);
  if (CUresult result = driver.check(links(), state))
    return result;
  if (!image || state->texts.empty())
    return CUDA_ERROR_INVALID_VALUE;
  auto linked = linkPtx(state->texts);
  if (auto *error = std::get_if<Error>(&linked)) {
    state->log.error(*error);
    return CUDA_ERROR_INVALID_PTX;
  }
  state->image = linkedImage(state->texts);
  *image = state->image.data();
  if (bytes)
    *bytes = state->image.size();
  return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state) {
  ENTER(Context);
  if (CUresult result = driver.check(links(), state))
    return result;
  links().erase(state);
  return CUDA_SUCCESS;
}

} // extern "C"
