// SPDX-License-Identifier: Apache-2.0
#include "framework/tensor/tensor.h"

#include "framework/base/check.h"

namespace tessera {

Tensor::Tensor(std::shared_ptr<Storage> storage, DType dtype, Shape shape, int64_t byte_offset)
    : storage_(std::move(storage)),
      dtype_(dtype),
      shape_(shape),
      byte_offset_(byte_offset),
      row_stride_(shape.row_elements()) {
  CHECK(storage_ != nullptr, "a tensor needs a storage");
  CHECK(byte_offset >= 0 && byte_offset + bytes() <= storage_->bytes(),
        "{} at byte {} does not fit a storage of {} bytes", describe(), byte_offset, storage_->bytes());
}

Device Tensor::device() const {
  CHECK(defined(), "the tensor is not defined");
  return storage_->device();
}

void* Tensor::address() const {
  CHECK(defined(), "the tensor is not defined");
  if (storage_->data() == nullptr) return nullptr;
  return static_cast<char*>(storage_->data()) + byte_offset_;
}

void Tensor::check_type(DType wanted) const {
  CHECK(defined() && dtype_ == wanted, "expected {} data, the tensor is {}", name_of(wanted),
        defined() ? describe() : "not defined");
}

Tensor Tensor::narrow(int64_t start, int64_t rows) const {
  CHECK(shape_.rank() >= 1 && start >= 0 && rows >= 0 && start + rows <= shape_[0],
        "rows [{}, {}) are outside {}", start, start + rows, describe());
  Tensor view = *this;
  std::array<int64_t, Shape::kMaxRank> dims{};
  for (int i = 0; i < shape_.rank(); ++i) dims[static_cast<size_t>(i)] = shape_[i];
  dims[0] = rows;
  view.shape_ = Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(shape_.rank())));
  view.byte_offset_ += start * row_stride_ * size_of(dtype_);
  return view;
}

Tensor Tensor::columns(int64_t start, int64_t count) const {
  CHECK(shape_.rank() == 2 && start >= 0 && count >= 0 && start + count <= shape_[1],
        "columns [{}, {}) are outside {}", start, start + count, describe());
  Tensor view = *this;
  view.shape_ = Shape{shape_[0], count};
  view.byte_offset_ += start * size_of(dtype_);
  return view;
}

Tensor Tensor::reshape(Shape shape) const {
  CHECK(packed(), "cannot reshape {}: its rows are not packed", describe());
  CHECK(shape.elements() == elements(), "cannot reshape {} to {}", describe(), shape.to_string());
  Tensor view = *this;
  view.shape_ = shape;
  view.row_stride_ = shape.row_elements();
  return view;
}

Tensor Tensor::on(std::shared_ptr<Storage> storage) const {
  CHECK(defined() && storage && storage->bytes() == storage_->bytes(),
        "a view of {} bytes cannot be one of {}", defined() ? storage_->bytes() : 0,
        storage ? storage->bytes() : 0);
  Tensor view = *this;
  view.storage_ = std::move(storage);
  return view;
}

std::string Tensor::describe() const {
  return fmt::format("{}{}", name_of(dtype_), shape_.to_string());
}

}  // namespace tessera
