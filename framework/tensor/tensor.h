// SPDX-License-Identifier: Apache-2.0
// A typed row-major view of a Storage. Copying copies the handle, never the data. Only the outermost
// stride may differ from the packed one, so every kernel sees packed rows; transposing is a flag of
// matmul. Const-ness of the handle says nothing about the data, as with std::span.
#pragma once
#include <memory>
#include <string>

#include "framework/tensor/device.h"
#include "framework/tensor/dtype.h"
#include "framework/tensor/shape.h"
#include "framework/tensor/storage.h"

namespace tessera {

class Tensor {
 public:
  Tensor() = default;  // no tensor: defined() is false
  // A packed view that begins `byte_offset` bytes into the storage. Throws when it does not fit.
  Tensor(std::shared_ptr<Storage> storage, DType dtype, Shape shape, int64_t byte_offset = 0);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t size(int dim) const { return shape_[dim]; }
  int64_t elements() const { return shape_.elements(); }
  int64_t bytes() const { return elements() * size_of(dtype_); }  // of the elements seen, without gaps
  DType dtype() const { return dtype_; }
  Device device() const;
  int64_t row_stride() const { return row_stride_; }  // elements from one outermost row to the next
  bool packed() const { return row_stride_ == shape_.row_elements() || shape_.rows() <= 1; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  int64_t byte_offset() const { return byte_offset_; }

  // The address of element 0; throws when T is not the dtype. For backends only: above them memory may
  // be on a device.
  template <class T>
  T* data() const {
    check_type(dtype_of<T>());
    return static_cast<T*>(address());
  }
  void* address() const;  // untyped, for backends; null on the shape device

  // Views of the same storage.
  Tensor narrow(int64_t start, int64_t rows) const;    // rows [start, start + rows) of the outermost dim
  Tensor columns(int64_t start, int64_t count) const;  // of a matrix
  Tensor reshape(Shape shape) const;                   // packed tensors only
  Tensor flat() const { return reshape({elements()}); }
  // The same view of another storage of as many bytes.
  Tensor on(std::shared_ptr<Storage> storage) const;

  std::string describe() const;  // "bf16[2, 3]"

 private:
  void check_type(DType wanted) const;

  std::shared_ptr<Storage> storage_;
  DType dtype_ = DType::F32;
  Shape shape_;
  int64_t byte_offset_ = 0;
  int64_t row_stride_ = 1;
};

}  // namespace tessera
