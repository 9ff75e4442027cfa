/// PNG by libpng. An error in libpng jumps to `decode`, which holds nothing
/// that must be destroyed.
#include "tools/image/Image.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <png.h>

namespace cria {

namespace {
struct Decoder {
  ImageFile &file;
  size_t at = 0; // of the next byte
  char problem[128] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;
  bool hasPixels = false;
  Status status = {};

  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
};
} // namespace

static void fail(png_structp png, png_const_charp what) {
  auto *decoder = static_cast<Decoder *>(png_get_error_ptr(png));
  snprintf(decoder->problem, sizeof(decoder->problem), "%s", what);
  png_longjmp(png, 1);
}

static void ignore(png_structp, png_const_charp) {}

static void read(png_structp png, png_bytep to, size_t size) {
  auto *decoder = static_cast<Decoder *>(png_get_io_ptr(png));
  const std::string &bytes = decoder->file.bytes;
  if (size > bytes.size() - decoder->at)
    png_error(png, "the file ends early");
  memcpy(to, bytes.data() + decoder->at, size);
  decoder->at += size;
}

/// libpng allocates what a chunk says that it has before it reads any of it. No
/// chunk has more than the file. A row has at most kMostInRow pixels of 8
/// bytes; there is room for two.
static png_voidp allocate(png_structp png, png_alloc_size_t size) {
  auto *decoder = static_cast<Decoder *>(png_get_mem_ptr(png));
  constexpr size_t rows = 2 * 8 * kMostInRow;
  return size <= decoder->file.bytes.size() + rows ? malloc(size) : nullptr;
}

static void release(png_structp, png_voidp memory) { free(memory); }

/// Reads the header; has all colors become red, green and blue of 8 bits.
static Status begin(Decoder &decoder) {
  png_structp png = decoder.png;
  png_infop info = decoder.info;
  png_read_info(png, info);
  int color = png_get_color_type(png, info),
      depth = png_get_bit_depth(png, info);
  if (color == PNG_COLOR_TYPE_GRAY && depth == 16)
    return decoder.file.fail("grey of 16 bits is not supported, expected 8",
                             CRIA_UNIMPLEMENTED);
  if (color == PNG_COLOR_TYPE_PALETTE)
    png_set_palette_to_rgb(png);
  if (color == PNG_COLOR_TYPE_GRAY)
    png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  return decoder.file.allocate(png_get_image_height(png, info),
                               png_get_image_width(png, info));
}

static void takeExif(Decoder &decoder) {
  png_bytep exif = nullptr;
  png_uint_32 size = 0;
  if (png_get_eXIf_1(decoder.png, decoder.info, &size, &exif))
    decoder.file.exif.assign(reinterpret_cast<char *>(exif), size);
}

/// Whether libpng had no error.
static bool decode(Decoder &decoder) {
  if (setjmp(png_jmpbuf(decoder.png)))
    return decoder.hasPixels; // what follows them may be missing
  decoder.status = begin(decoder);
  if (!decoder.status.ok())
    return true;
  Image &image = decoder.file.image;
  int passes = png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  if (png_get_rowbytes(decoder.png, decoder.info) !=
      static_cast<size_t>(image.width) * 3)
    png_error(decoder.png, "its pixels have no three colors");
  takeExif(decoder);
  for (int pass = 0; pass < passes; ++pass)
    for (int64_t y = 0; y < image.height; ++y)
      png_read_row(decoder.png, image.row(y), nullptr);
  decoder.hasPixels = true;
  png_read_end(decoder.png, decoder.info);
  takeExif(decoder);
  return true;
}

Status readPng(ImageFile &file) {
  Decoder decoder{file};
  decoder.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &decoder, fail,
                                         ignore, &decoder, allocate, release);
  if (decoder.png)
    decoder.info = png_create_info_struct(decoder.png);
  if (!decoder.info)
    return file.fail("out of memory", CRIA_RESOURCE_EXHAUSTED);
  png_set_read_fn(decoder.png, &decoder, read);
  if (!decode(decoder))
    return file.fail(decoder.problem);
  return decoder.status;
}

} // namespace cria
