// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/hdf5_driver.h"

#include <algorithm>
#include <new>

namespace tessera {
namespace {

struct DriverInfo {
  Hdf5Image* image;
};

struct ImageFile : H5FD_t {
  Hdf5Image* image = nullptr;
  haddr_t allocated = 0;  // HDF5's end of allocation: what the file will be as long as
  haddr_t written = 0;    // its end of file
};

ImageFile& file_of(H5FD_t* file) {
  return *static_cast<ImageFile*>(file);
}
const ImageFile& file_of(const H5FD_t* file) {
  return *static_cast<const ImageFile*>(file);
}

H5FD_t* open_image(const char*, unsigned, hid_t access_list, haddr_t) {
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(access_list));
  if (info == nullptr) return nullptr;
  auto* file = new (std::nothrow) ImageFile{};
  if (file != nullptr) file->image = info->image;
  return file;
}

herr_t close_image(H5FD_t* file) {
  file_of(file).image->resize(static_cast<int64_t>(file_of(file).written));
  delete &file_of(file);
  return 0;
}

herr_t read_image(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t position, size_t size, void* to) {
  file_of(file).image->read(static_cast<int64_t>(position), {static_cast<std::byte*>(to), size});
  return 0;
}

herr_t write_image(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t position, size_t size, const void* from) {
  try {
    file_of(file).image->write(static_cast<int64_t>(position), {static_cast<const std::byte*>(from), size});
  } catch (const std::bad_alloc&) {
    return -1;
  }
  file_of(file).written = std::max<haddr_t>(file_of(file).written, position + size);
  return 0;
}

herr_t truncate_image(H5FD_t* file, hid_t, hbool_t) {
  file_of(file).written = file_of(file).allocated;
  return 0;
}

H5FD_class_t make_driver() {
  H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(400);
#endif
  driver.name = "tessera_image";
  driver.maxaddr = haddr_t{1} << 62;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(DriverInfo);
  driver.open = open_image;
  driver.close = close_image;
  driver.query = [](const H5FD_t*, unsigned long* flags) -> herr_t {
    *flags = H5FD_FEAT_AGGREGATE_METADATA;
    return 0;
  };
  driver.get_eoa = [](const H5FD_t* file, H5FD_mem_t) { return file_of(file).allocated; };
  driver.set_eoa = [](H5FD_t* file, H5FD_mem_t, haddr_t end) -> herr_t {
    file_of(file).allocated = end;
    return 0;
  };
  driver.get_eof = [](const H5FD_t* file, H5FD_mem_t) { return file_of(file).written; };
  driver.read = read_image;
  driver.write = write_image;
  driver.truncate = truncate_image;
  std::fill(std::begin(driver.fl_map), std::end(driver.fl_map), H5FD_MEM_DEFAULT);
  return driver;
}

}  // namespace

hid_t set_image_driver(hid_t access_list, Hdf5Image& image) {
  static const H5FD_class_t driver = make_driver();
  const hid_t id = H5FDregister(&driver);
  if (id < 0) return id;
  const DriverInfo info{&image};
  if (H5Pset_driver(access_list, id, &info) < 0) {
    H5FDunregister(id);
    return -1;
  }
  return id;
}

}  // namespace tessera
