// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/hdf5_image.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <mutex>

#include "framework/base/check.h"
#include "framework/checkpoint/hdf5_driver.h"

namespace tessera {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

void Hdf5Image::read(int64_t position, std::span<std::byte> to) const {
  while (!to.empty()) {
    const int64_t inside = position % kPage;
    const size_t count = std::min(to.size(), static_cast<size_t>(kPage - inside));
    const auto page = pages_.find(position / kPage);
    if (page == pages_.end())
      std::fill_n(to.begin(), count, std::byte{0});
    else
      std::copy_n(page->second.begin() + inside, count, to.begin());
    to = to.subspan(count);
    position += static_cast<int64_t>(count);
  }
}

void Hdf5Image::write(int64_t position, std::span<const std::byte> from) {
  while (!from.empty()) {
    const int64_t inside = position % kPage;
    const size_t count = std::min(from.size(), static_cast<size_t>(kPage - inside));
    auto& page = pages_.try_emplace(position / kPage).first->second;  // begins as zeros
    std::copy_n(from.begin(), count, page.begin() + inside);
    from = from.subspan(count);
    position += static_cast<int64_t>(count);
  }
}

namespace {

// The HDF5 library has state of its own: one caller at a time.
std::mutex& hdf5_mutex() {
  static std::mutex mutex;
  return mutex;
}

// The text of the innermost entry of HDF5's error stack.
std::string hdf5_reason() {
  std::string text = "no reason given";
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned depth, const H5E_error2_t* entry, void* to) -> herr_t {
        if (depth == 0 && entry->desc != nullptr) *static_cast<std::string*>(to) = entry->desc;
        return 0;
      },
      &text);
  return text;
}

template <class T>
T checked(T result, const char* action, std::string_view name) {
  CHECK(result >= 0, "HDF5 could not {} '{}': {}", action, name, hdf5_reason());
  return result;
}

class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close closes, const char* action, std::string_view name = {})
      : id_(checked(id, action, name)), close_(closes) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle& operator=(Handle&&) = delete;
  operator hid_t() const { return id_; }
  void close(const char* action) { checked(close_(std::exchange(id_, -1)), action, "image"); }

 private:
  hid_t id_;
  Close close_;
};

// Holds the mutex and keeps HDF5 from printing; errors are read from its stack instead.
class Session {
 public:
  Session() : lock_(hdf5_mutex()) {
    H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Session() { H5Eset_auto2(H5E_DEFAULT, print_, print_data_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

// sign, exponent and mantissa of the 16-bit float types, which HDF5 does not have by name.
Handle float16_type(size_t exponent_bits, size_t mantissa_bits) {
  Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "copy type");
  checked(H5Tset_fields(type, 15, mantissa_bits, exponent_bits, 0, mantissa_bits), "lay out", "16-bit float");
  checked(H5Tset_size(type, 2), "size", "16-bit float");
  checked(H5Tset_ebias(type, (size_t{1} << (exponent_bits - 1)) - 1), "bias", "16-bit float");
  return type;
}

Handle type_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return {H5Tcopy(H5T_IEEE_F64LE), H5Tclose, "copy type"};
    case DType::F32:
      return {H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "copy type"};
    case DType::BF16:
      return float16_type(8, 7);
    case DType::F16:
      return float16_type(5, 10);
    case DType::I64:
      return {H5Tcopy(H5T_STD_I64LE), H5Tclose, "copy type"};
    case DType::I32:
      return {H5Tcopy(H5T_STD_I32LE), H5Tclose, "copy type"};
    case DType::U8:
      break;
  }
  return {H5Tcopy(H5T_STD_U8LE), H5Tclose, "copy type"};
}

// The bits of "nothing was found here".
std::array<std::byte, 8> fill_value(DType dtype) {
  std::array<std::byte, 8> bytes{};
  const auto store = [&](auto value) { std::memcpy(bytes.data(), &value, sizeof value); };
  switch (dtype) {
    case DType::F64:
      store(std::numeric_limits<double>::quiet_NaN());
      break;
    case DType::F32:
      store(std::numeric_limits<float>::quiet_NaN());
      break;
    case DType::BF16:
      store(uint16_t{0x7fc0});
      break;
    case DType::F16:
      store(uint16_t{0x7e00});
      break;
    case DType::I64:
      store(std::numeric_limits<int64_t>::min());
      break;
    case DType::I32:
      store(std::numeric_limits<int32_t>::min());
      break;
    case DType::U8:
      store(uint8_t{255});
      break;
  }
  return bytes;
}

std::vector<hsize_t> extents_of(const Shape& shape) {
  std::vector<hsize_t> extents(shape.dims().begin(), shape.dims().end());
  if (extents.empty()) extents.push_back(1);
  return extents;
}

Handle space_of(const Shape& shape) {
  const std::vector<hsize_t> extents = extents_of(shape);
  return {H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose,
          "make space"};
}

void write_attribute(hid_t object, const std::string& name, const Hdf5Value& value) {
  const auto write = [&](hid_t type, hid_t space, const void* data) {
    const Handle attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                           "create attribute", name);
    checked(H5Awrite(attribute, type, data), "write attribute", name);
  };
  const Handle scalar(H5Screate(H5S_SCALAR), H5Sclose, "make space");
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    write(H5T_STD_I64LE, scalar, integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    write(H5T_IEEE_F64LE, scalar, real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    const Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "copy type");
    checked(H5Tset_size(type, H5T_VARIABLE), "size", name);
    checked(H5Tset_cset(type, H5T_CSET_UTF8), "encode", name);
    const char* characters = text->c_str();
    write(type, scalar, static_cast<const void*>(&characters));
  } else {
    const auto& list = std::get<std::vector<int64_t>>(value);
    const hsize_t count = list.size();
    const Handle space(H5Screate_simple(1, &count, nullptr), H5Sclose, "make space");
    write(H5T_STD_I64LE, space, list.data());
  }
}

// Makes `fill` write a file, and returns its image. Times are left out: equal input, equal bytes.
template <class Fill>
Hdf5Image make_image(H5F_libver_t lowest, Fill&& fill) {
  Hdf5Image image;
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make access list");
  const Handle driver(set_image_driver(access, image), H5FDunregister, "register driver");
  checked(H5Pset_libver_bounds(access, lowest, H5F_LIBVER_V110), "bound versions of", "image");
  // Tensors of a page and more begin on a page.
  checked(H5Pset_alignment(access, 4096, 4096), "align", "image");
  const Handle create(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "make creation list");
  checked(H5Pset_obj_track_times(create, 0), "leave times out of", "image");
  Handle file(H5Fcreate("image", H5F_ACC_TRUNC, create, access), H5Fclose, "create", "image");
  fill(static_cast<hid_t>(file));
  file.close("finish");
  return image;
}

Handle dataset_list() {
  Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make dataset list");
  checked(H5Pset_obj_track_times(list, 0), "leave times out of", "dataset");
  return list;
}

// The groups that a path passes through. HDF5 would make them itself, but with the time in them.
void make_groups(hid_t file, const std::string& path) {
  const Handle list(H5Pcreate(H5P_GROUP_CREATE), H5Pclose, "make group list");
  checked(H5Pset_obj_track_times(list, 0), "leave times out of", "group");
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    const std::string group = path.substr(0, end);
    const htri_t exists = H5Lexists(file, group.c_str(), H5P_DEFAULT);
    checked(static_cast<herr_t>(exists), "look for", group);
    if (exists > 0) continue;
    const Handle made(H5Gcreate2(file, group.c_str(), H5P_DEFAULT, list, H5P_DEFAULT), H5Gclose,
                      "create group", group);
  }
}

int64_t add_dataset(hid_t file, const Hdf5Dataset& dataset) {
  make_groups(file, dataset.path);
  const Handle list = dataset_list();
  checked(H5Pset_layout(list, H5D_CONTIGUOUS), "lay out", dataset.path);
  checked(H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY), "place", dataset.path);
  checked(H5Pset_fill_time(list, H5D_FILL_TIME_NEVER), "set up", dataset.path);
  const Handle type = type_of(dataset.dtype), space = space_of(dataset.shape);
  const Handle made(H5Dcreate2(file, dataset.path.c_str(), type, space, H5P_DEFAULT, list, H5P_DEFAULT),
                    H5Dclose, "create dataset", dataset.path);
  for (const auto& [name, value] : dataset.attributes) write_attribute(made, name, value);
  const haddr_t position = H5Dget_offset(made);
  CHECK(position != HADDR_UNDEF, "HDF5 gave '{}' no place in its file", dataset.path);
  return static_cast<int64_t>(position);
}

void add_virtual_dataset(hid_t file, const Hdf5VirtualDataset& dataset) {
  make_groups(file, dataset.path);
  const Handle list = dataset_list(), type = type_of(dataset.dtype), space = space_of(dataset.shape);
  const std::array<std::byte, 8> fill = fill_value(dataset.dtype);
  checked(H5Pset_fill_value(list, type, fill.data()), "set fill value of", dataset.path);
  for (const auto& source : dataset.sources) {
    const Handle part = space_of(Shape(source.box.extent));
    if (dataset.shape.rank() > 0) {
      const std::vector<hsize_t> start(source.box.offset.begin(), source.box.offset.end());
      const std::vector<hsize_t> count(source.box.extent.begin(), source.box.extent.end());
      checked(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
              "select in", dataset.path);
    }
    checked(H5Pset_virtual(list, space, source.file.c_str(), source.dataset.c_str(), part), "map",
            dataset.path);
  }
  checked(H5Sselect_all(space), "select in", dataset.path);
  const Handle made(H5Dcreate2(file, dataset.path.c_str(), type, space, H5P_DEFAULT, list, H5P_DEFAULT),
                    H5Dclose, "create dataset", dataset.path);
}

}  // namespace

Hdf5DataImage make_data_image(std::span<const Hdf5Dataset> datasets, const Hdf5Attributes& attributes) {
  const Session session;
  Hdf5DataImage result;
  result.positions.reserve(datasets.size());
  result.image = make_image(H5F_LIBVER_V18, [&](hid_t file) {
    for (const Hdf5Dataset& dataset : datasets) result.positions.push_back(add_dataset(file, dataset));
    for (const auto& [name, value] : attributes) write_attribute(file, name, value);
  });
  return result;
}

Hdf5Image make_index_image(std::span<const Hdf5VirtualDataset> datasets,
                           std::span<const std::pair<std::string, std::string>> links,
                           const Hdf5Attributes& attributes) {
  const Session session;
  return make_image(H5F_LIBVER_V110, [&](hid_t file) {
    for (const Hdf5VirtualDataset& dataset : datasets) add_virtual_dataset(file, dataset);
    for (const auto& [path, target] : links) {
      make_groups(file, path);
      checked(H5Lcreate_soft(target.c_str(), file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT), "link", path);
    }
    for (const auto& [name, value] : attributes) write_attribute(file, name, value);
  });
}

}  // namespace tessera
