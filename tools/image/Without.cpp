/// Of a build without the libraries that read images: cmake -DCRIA_IMAGES=OFF.
#include "tools/image/Image.h"

namespace cria {

Status readPng(ImageFile &file) {
  return file.fail("this build reads no images: it was made without libpng and "
                   "libjpeg",
                   CRIA_UNIMPLEMENTED);
}

Status readJpeg(ImageFile &file) { return readPng(file); }

} // namespace cria
