// SPDX-License-Identifier: Apache-2.0
// An HDF5 file driver that keeps the file in an Hdf5Image. Only hdf5_image.cpp includes this.
#pragma once
#include <hdf5.h>
#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>
#endif

#include "framework/checkpoint/hdf5_image.h"

namespace tessera {

// Makes the file access list open "files" in `image`, which must outlive them. The registered driver's id,
// to be closed by H5FDunregister, or a negative number.
hid_t set_image_driver(hid_t access_list, Hdf5Image& image);

}  // namespace tessera
